"""Long histories of terminals that are there when a hub starts: each is read once, whole, in parts, few at a time."""

import asyncio
import time
import weakref
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.harnesses.codex_threads import codex_conversation, codex_threads
from tests.harnesses.opencode_plugins import opencode_plugins

from tieline.background_tasks import cancel_and_wait
from tieline.bootstrap.daemon import hub_on
from tieline.bus import open_bus
from tieline.config import Config, HubConfig
from tieline.events import TurnStarted
from tieline.harnesses.attach_consent import CurrentConsent, agree
from tieline.harnesses.claude_code.terminal import ClaudeCodeTerminal
from tieline.harnesses.codex.terminal import PAGE, CodexTerminal, Thread
from tieline.harnesses.gemini.terminal import GeminiTerminal
from tieline.harnesses.opencode.connector import OpenCodeConnector
from tieline.harnesses.terminals.transcript_file import TranscriptFile, TranscriptLine
from tieline.protocol.harness_plugins import PluginEvents
from tieline.sessions.attached_session import AttachedSession
from tieline.sessions.attacher import Attacher
from tieline.sessions.manager import SessionManager
from tieline.testing.rig import scratch_env
from tieline.testing.wait_for import eventually
from tieline.wire.jsonrpc import Peer

SESSIONS = 4
PARTS = 5
BOUND = 120.0


class Daemon:
    """Has threads of so many turns each, and answers page by page."""

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.pages = 0
        self.whole_turns = 0  # turns, with what happened in them
        self.most = 0
        self._now = 0

    async def request(self, method: str, params: dict[str, Any], *, timeout: float) -> dict[str, Any]:
        if method != "thread/turns/list":
            return {}
        self.pages += 1
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0)
        self._now -= 1
        numbers = list(range(self.turns))
        if params["sortDirection"] == "desc":
            numbers.reverse()
        at = int(params.get("cursor") or 0)
        end = min(at + params["limit"], self.turns)
        whole = params["itemsView"] == "full"
        self.whole_turns += (end - at) * whole
        return {
            "data": [codex_turn(number, whole=whole) for number in numbers[at:end]],
            "nextCursor": str(end) if end < self.turns else None,
            "backwardsCursor": str(numbers[::-1].index(numbers[at])),
        }


def codex_turn(number: int, *, whole: bool) -> dict[str, Any]:
    prompt = {"type": "userMessage", "id": f"u-{number}", "content": [{"type": "text", "text": f"prompt {number}"}]}
    answer = {"type": "agentMessage", "id": f"a-{number}", "text": f"{number} " + "word " * 200}
    return {"id": f"turn-{number}", "status": "completed", "items": [prompt, answer] * whole}


@pytest.mark.slow
async def test_threads_of_codex_are_read_a_page_at_a_time_and_each_page_once(tmp_path: Path) -> None:
    env, turns, more = {"HOME": str(tmp_path)}, 300, 301
    agree(env, "codex")
    daemon, reading = Daemon(turns), asyncio.Semaphore(2)
    async with (
        open_bus(f"sqlite://{tmp_path / 'bus.db'}") as bus,
        SessionManager(bus, Config(environ=env), node="here") as manager,
    ):
        attacher = Attacher(manager, CurrentConsent(env))

        async def follow_all(turns: int) -> list[asyncio.Task[None]]:
            terminals = [CodexTerminal(attacher, Thread(f"t-{each}", "/p"), reading) for each in range(SESSIONS)]
            following = [asyncio.create_task(terminal.follow(cast("Peer", daemon), 0)) for terminal in terminals]
            await eventually(
                lambda: [each.turns for each in manager.sessions()] == [turns] * SESSIONS, "not read", timeout=BOUND
            )
            return following

        async def all_told(turns: int) -> None:
            for session in manager.sessions():
                events = [entry.event async for entry in manager.events(session.id, follow=False)]
                begun = [event.prompt for event in events if isinstance(event, TurnStarted)]
                assert begun == [f"prompt {number}" for number in range(turns)]

        first = await follow_all(turns)
        await cancel_and_wait(*first)
        assert daemon.pages == SESSIONS * turns // PAGE
        assert daemon.most <= 2
        await all_told(turns)
        daemon.pages = daemon.whole_turns = 0
        again = await follow_all(turns)
        await eventually(lambda: daemon.pages == SESSIONS, "they are not looked at again", timeout=BOUND)
        await cancel_and_wait(*again)
        assert daemon.whole_turns == 0, "nothing is missing"
        daemon.turns += more
        late = await follow_all(turns + more)
        await cancel_and_wait(*late)
        await all_told(turns + more)
        assert daemon.whole_turns <= SESSIONS * (more + PAGE), "what was told before is not read again"


class Part(list[TranscriptLine]):
    """Of a history: what was read at once. A plain list does not say when it is gone."""


class Silent:
    """A session that takes what it is told and lets others go on meanwhile."""

    record = SimpleNamespace(cursor="")

    def tell(self, *_: object) -> bool:
        return True

    def activity(self, _: object) -> None:
        pass

    async def flush(self) -> None:
        await asyncio.sleep(0)


def follow_claude_code(attached: AttachedSession, path: Path, reading: asyncio.Semaphore) -> ClaudeCodeTerminal:
    async def push(text: str) -> None:
        raise AssertionError

    terminal = ClaudeCodeTerminal(
        0, path.stem, "/p", path, since=lambda: 0.0, reading=reading, push=push, status=lambda: "idle"
    )
    terminal.follow(attached, "idle")
    return terminal


def follow_gemini(attached: AttachedSession, path: Path, reading: asyncio.Semaphore) -> GeminiTerminal:
    terminal = GeminiTerminal(0, path.stem, "/p", path, since=lambda: 0.0, reading=reading)
    terminal.follow(attached)
    return terminal


@pytest.mark.parametrize("follow", [follow_claude_code, follow_gemini])
async def test_a_part_is_gone_before_the_next_is_read_by_whichever_session(
    follow: Callable[..., ClaudeCodeTerminal | GeminiTerminal], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[weakref.ref[Part]] = []
    left: list[int] = []

    def read(file: TranscriptFile) -> tuple[Part, bool]:
        left.append(sum(part() is not None for part in parts))
        part = Part([TranscriptLine(0, {"type": "nothing"})])
        parts.append(weakref.ref(part))
        return part, len(parts) < SESSIONS * PARTS

    async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)  # a thread would hold what it returns for a moment longer

    monkeypatch.setattr(TranscriptFile, "read", read)
    monkeypatch.setattr(asyncio, "to_thread", at_once)
    reading = asyncio.Semaphore(1)
    silent = cast("AttachedSession", Silent())
    terminals = [follow(silent, tmp_path / f"{each}.jsonl", reading) for each in range(SESSIONS)]
    await eventually(lambda: len(parts) >= SESSIONS * PARTS, "not read")
    for terminal in terminals:
        await terminal.stop()
    assert set(left) == {0}


@pytest.mark.real
async def test_threads_that_a_real_daemon_of_codex_has_are_read_whole_and_the_rest_when_the_hub_starts_again(
    tmp_path: Path,
) -> None:
    """The daemon of Codex itself, whose pages are what they are."""
    conversation = await codex_conversation(tmp_path / "template")
    env = scratch_env(tmp_path / "home", path="/usr/bin:/bin")
    agree(env, "codex", now=0.0)
    config = Config(environ=env, hub=HubConfig(port=0))
    async with AsyncExitStack() as stack:
        threads = await asyncio.to_thread(
            stack.enter_context, codex_threads(tmp_path, conversation, SESSIONS, 1_000_000)
        )
        for _ in range(2):
            since = time.time()
            async with hub_on(config) as (hub, _):
                assert hub.local is not None
                manager = hub.local.manager

                def attached() -> list[int]:
                    return [each.turns for each in manager.sessions() if each.active_at > since]  # noqa: B023

                await eventually(lambda: attached() == [threads.turns] * SESSIONS, "not read", timeout=BOUND)
                for session in manager.sessions():
                    events = [entry.event async for entry in manager.events(session.id, follow=False)]
                    begun = [event.prompt for event in events if isinstance(event, TurnStarted)]
                    assert begun == ["please look at number 0"] + ["please look at number 1"] * (threads.turns - 1)


@pytest.mark.slow
async def test_sessions_of_opencode_are_read_once_a_few_at_a_time_also_when_the_hub_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env, now, most = scratch_env(tmp_path / "home", path="/usr/bin:/bin"), 0, 0
    agree(env, "opencode", now=0.0)
    take = OpenCodeConnector.events

    async def counted(reach: OpenCodeConnector, batch: PluginEvents) -> bool:
        nonlocal now, most
        large = len(batch.events) > 20
        now += large
        most = max(most, now)
        try:
            return await take(reach, batch)
        finally:
            now -= large

    monkeypatch.setattr(OpenCodeConnector, "events", counted)
    config = Config(environ=env, hub=HubConfig(port=0))
    async with AsyncExitStack() as stack:
        counter = stack.enter_context(opencode_plugins(tmp_path / "plugins", env, SESSIONS, 3_000_000))
        async with hub_on(config) as (hub, _):
            assert hub.local is not None
            manager = hub.local.manager
            await eventually(lambda: len(manager.sessions()) == SESSIONS, "not all are attached", timeout=BOUND)
            await eventually(counter.exists, "nothing is read", timeout=BOUND)
            turns = msgspec.json.decode(counter.read_bytes())["turns"]
            await eventually(
                lambda: [each.turns for each in manager.sessions()] == [turns] * SESSIONS, "not read", timeout=BOUND
            )
            for session in manager.sessions():
                events = [entry.event async for entry in manager.events(session.id, follow=False)]
                begun = [event.prompt for event in events if isinstance(event, TurnStarted)]
                assert begun == [f"prompt {number}" for number in range(turns)]
        assert most <= 2
        first = msgspec.json.decode(counter.read_bytes())
        assert first["read"] < SESSIONS * first["size"] * 1.01
        async with hub_on(config) as (hub, _):
            assert hub.local is not None
            manager = hub.local.manager
            await eventually(
                lambda: msgspec.json.decode(counter.read_bytes())["read"] > first["read"],
                "not looked at",
                timeout=BOUND,
            )
            await eventually(lambda: len(manager.sessions()) == SESSIONS, "not all are attached", timeout=BOUND)
            assert [each.turns for each in manager.sessions()] == [turns] * SESSIONS
        again = msgspec.json.decode(counter.read_bytes())["read"] - first["read"]
        assert again < first["size"] / 10, "of what was read before, the latest messages at most"
