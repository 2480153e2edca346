"""The owner dies by SIGKILL while the real Claude Code or Codex works; the conversation goes on by resume."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.bus.conftest import address
from tests.sessions.owner import Setting
from tests.sessions.test_crash import FULL, kill_when, next_owner, outcome, turns_of

from tieline.events import Text
from tieline.policy import Policy
from tieline.processes.spawn import live
from tieline.script import Run, Say, Stall, Step
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.rigs.codex import codex_rig
from tieline.testing.wait_for import at_work_in, eventually

pytestmark = pytest.mark.real

CODEX = Path(__file__).parents[1] / "agents/node_modules/.bin/codex"


@pytest.fixture(params=["claude-code", "codex"])
async def agent(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[tuple[Any, dict[str, Any]], None]:
    home = tmp_path / "home"
    entry: dict[str, Any] = {"type": request.param}
    rig: AbstractAsyncContextManager[Any] = ClaudeCodeRig(home)
    if request.param == "codex":
        entry["command"] = [str(CODEX)]
        rig = codex_rig(home, CODEX)
    async with rig as opened:
        yield opened, entry


@pytest.mark.parametrize(
    ("moment", "kind"), [("text_delta", "sqlite"), ("tool_use", "sqlite"), ("ask", "sqlite"), ("ask", "nats")]
)
async def test_the_conversation_goes_on(
    agent: tuple[Any, dict[str, Any]], tmp_path: Path, moment: str, kind: str
) -> None:
    async with address(kind, tmp_path) as url:
        await goes_on(agent, tmp_path, moment, url)


async def goes_on(agent: tuple[Any, dict[str, Any]], tmp_path: Path, moment: str, url: str) -> None:
    rig, entry = agent
    folder = tmp_path / "place"
    folder.mkdir()
    doing: dict[str, list[Step]] = {
        "text_delta": [Say("a long story "), Stall()],
        "tool_use": [Run("touch started; sleep 300")],
        "ask": [Run("touch asked")],
    }
    rig.play([Say("I will remember albatross.")], doing[moment])
    setting = Setting(
        bus=url,
        cwd=str(folder),
        agent=entry,
        environ=dict(rig.options["env"]),
        policy=Policy("allow", "ask", "allow") if moment == "ask" else FULL,
        prompts=(("p1", "remember the word albatross"), ("p2", "go on"), ("p3", "which word was it")),
    )
    (tmp_path / "setting.json").write_bytes(msgspec.json.encode(setting))
    await kill_when(tmp_path, "accepted p3", "done", moment)
    await eventually(lambda: not at_work_in(folder), f"left over: {at_work_in(folder)}")
    rig.model.reset()
    rig.play([Say("You said albatross.")])
    async with next_owner(setting) as manager:
        assert await outcome(manager, "p2") == "indeterminate"
        assert await outcome(manager, "p3") == "done"
        turns = await turns_of(manager)
        assert len(turns) == 3
        assert [event.text for event in turns[2] if isinstance(event, Text)][-1].strip() == "You said albatross."
        assert not (folder / "asked").exists()
    assert "remember the word albatross" in rig.heard(), "the resumed agent knows what was said before"
    await eventually(lambda: not at_work_in(folder), f"left over: {at_work_in(folder)}")


@pytest.mark.parametrize("agent", ["codex"], indirect=True)
async def test_a_dead_agent_is_shown_and_comes_back(agent: tuple[Any, dict[str, Any]], tmp_path: Path) -> None:
    """Not the owner dies but its agent: the session says so, and its next prompt revives it by resume."""
    rig, entry = agent
    rig.play([Say("I will remember albatross.")], [Say("a long story "), Stall()])
    environ = dict(rig.options["env"])
    setting = Setting(f"sqlite://{tmp_path}/bus.db", str(tmp_path), entry, environ, FULL, ())
    async with next_owner(setting) as manager:
        await manager.create("agent", cwd=str(tmp_path), policy=FULL, id="s")
        await manager.prompt("s", "remember the word albatross", id="p1")
        assert await outcome(manager, "p1") == "done"
        await manager.prompt("s", "go on", id="p2")
        async with asyncio.timeout(60):
            async for heard in manager.events("s", deltas=True, after=manager.get("s").seq):
                if heard.event.type == "text_delta":
                    break
        for pid in live().values():
            os.kill(pid, signal.SIGKILL)
        assert await outcome(manager, "p2") == "failed"
        assert manager.get("s").status == "failed" and "killed" in manager.get("s").problem
        rig.model.reset()
        rig.play([Say("You said albatross.")])
        await manager.prompt("s", "which word was it", id="p3")
        assert await outcome(manager, "p3") == "done"
        assert (manager.get("s").status, manager.get("s").problem) == ("idle", "")
    assert "remember the word albatross" in rig.heard()
