"""The owner of sessions dies by SIGKILL at the worst moments; the next one tells the truth and goes on."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.bus.conftest import address
from tests.sessions.owner import Setting, config

from tieline.bus import open_bus
from tieline.events import Answer, Event, Text, ToolResult, ToolUse, TurnStarted
from tieline.policy import Policy
from tieline.script import Reply, Run, Say, Stall
from tieline.sessions.manager import SessionManager
from tieline.testing.stream_checks import verify
from tieline.testing.wait_for import at_work_in, eventually

OWNER = Path(__file__).parent / "owner.py"
FULL = Policy("allow", "allow", "allow")
ENV = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


@pytest.fixture(params=["sqlite", "nats"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[str]:
    async with address(request.param, tmp_path) as url:
        yield url


def write_setting(tmp_path: Path, url: str, replies: list[Reply], policy: Policy = FULL, prompts: int = 2) -> Setting:
    folder = tmp_path / "place"
    folder.mkdir(exist_ok=True)
    (tmp_path / "script.json").write_bytes(msgspec.json.encode(replies))
    setting = Setting(
        bus=url,
        cwd=str(folder),
        agent={"type": "scripted", "script": str(tmp_path / "script.json")},
        environ={**ENV, "HOME": str(tmp_path)},
        policy=policy,
        prompts=tuple((f"p{number}", f"prompt {number}") for number in range(1, prompts + 1)),
    )
    (tmp_path / "setting.json").write_bytes(msgspec.json.encode(setting))
    return setting


async def kill_when(tmp_path: Path, *expected: str) -> None:
    """Start the owner, wait until it has said these lines, kill it. What was accepted may be told at any time, the
    others come in this order."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(OWNER), str(tmp_path / "setting.json"), env=ENV, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            accepted = {line for line in expected if line.startswith("accepted")}
            others = [line for line in expected if line not in accepted]
            while accepted or others:
                heard = (await process.stdout.readline()).decode()
                assert heard, f"it ended before it said {accepted or others[0]}"
                accepted.discard(heard.strip())
                if others and heard.strip() == others[0]:
                    del others[0]
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def next_owner(setting: Setting) -> AsyncGenerator[SessionManager, None]:
    async with open_bus(setting.bus) as bus, SessionManager(bus, config(setting)) as manager:
        yield manager


async def turns_of(manager: SessionManager) -> list[list[Event]]:
    """The log, cut into turns, each held to the promises of a stream."""
    seqs: list[int] = []
    turns: list[list[Event]] = []
    async for entry in manager.events("s", follow=False):
        seqs.append(entry.seq)
        if entry.event.type == "turn_started":
            turns.append([])
        turns[-1].append(entry.event)
    assert seqs == sorted(set(seqs))
    for turn in turns:
        verify(turn)
    return turns


async def outcome(manager: SessionManager, prompt: str) -> str:
    await eventually(lambda: manager.prompts.is_over("s", prompt), f"{prompt} did not end", timeout=60)
    return (await manager.prompts.get("s", prompt)).status


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replies", "policy", "moment"),
    [
        ([[Stall()]], FULL, ("accepted p3", "turn_started")),
        ([[Say("a long story ", chunks=3, delay_s=0.01), Stall()]], FULL, ("accepted p2", "text_delta")),
        ([[Run("touch started; sleep 300")]], FULL, ("accepted p2", "tool_use")),
        ([[Run("touch asked")]], Policy("allow", "ask", "allow"), ("accepted p2", "ask")),
    ],
    ids=["queued", "streaming", "tool", "ask"],
)
async def test_killed_in_the_middle(
    tmp_path: Path, url: str, replies: list[Reply], policy: Policy, moment: tuple[str, ...]
) -> None:
    prompts = int(moment[0][-1])
    setting = write_setting(tmp_path, url, replies, policy, prompts)
    await kill_when(tmp_path, *moment)
    await eventually(lambda: not at_work_in(Path(setting.cwd)), "a process of the agent is left", timeout=60)
    write_setting(tmp_path, url, [[Say("after the restart")], [Say("and on")]], policy)
    async with next_owner(setting) as manager:
        assert await outcome(manager, "p1") == "indeterminate", "it may have run: it is not run again"
        waited = [await outcome(manager, f"p{number}") for number in range(2, prompts + 1)]
        assert set(waited) == {"done"}, "what waited runs"
        turns = await turns_of(manager)
        started = [event.prompt for turn in turns for event in turn if isinstance(event, TurnStarted)]
        assert started == [f"prompt {number}" for number in range(1, prompts + 1)], "in order, each once"
        assert [event.text for event in turns[1] if isinstance(event, Text)] == ["after the restart"]
        assert not manager.asks.pending()
        if moment[-1] == "tool_use":
            use, result = [event for event in turns[0] if isinstance(event, ToolUse | ToolResult)]
            assert isinstance(use, ToolUse), "it was in the log before there was a result"
            assert isinstance(result, ToolResult) and (result.id, result.status) == (use.id, "error"), "the restart's"
        if moment[-1] == "ask":
            (answer,) = [event for event in turns[0] if isinstance(event, Answer)]
            assert (answer.decision, answer.by) == ("deny", "restart")
            record, _ = await manager.asks.get(answer.ask)
            assert record.status == "expired"
            assert not Path(setting.cwd, "asked").exists()


@pytest.mark.slow
async def test_killed_again_and_again(tmp_path: Path, url: str) -> None:
    """Many prompts, an owner killed at every few events: each prompt ends, each turn is whole, none is run twice."""
    setting = write_setting(tmp_path, url, [[Say("x")] for _ in range(40)], prompts=20)
    for count in (3, 9, 14):
        await kill_when(tmp_path, "accepted p20", *["done"] * count)
    async with next_owner(setting) as manager:
        ended = [await outcome(manager, f"p{number}") for number in range(1, 21)]
        assert set(ended) <= {"done", "indeterminate"}
        assert ended.count("indeterminate") <= 3
        started = [event.prompt for turn in await turns_of(manager) for event in turn if isinstance(event, TurnStarted)]
        assert sorted(started) == sorted(set(started)), "a prompt was run twice"
