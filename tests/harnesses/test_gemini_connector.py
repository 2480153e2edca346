"""Gemini CLI's terminals as their hooks tell of them: what may be read, who has ended, and a hub that comes back."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.harnesses.test_gemini_transcript import answer, call, written

from tieline.bus import open_bus
from tieline.config import Config
from tieline.events import Answer, Ask, Command, Done, Event, OtherAction, Text, ToolResult, ToolUse, TurnStarted
from tieline.harnesses.attach_consent import CurrentConsent, agree, switch
from tieline.harnesses.gemini import terminal as gemini_terminal
from tieline.harnesses.gemini.connector import GeminiConnector
from tieline.harnesses.terminals import hooked_terminal
from tieline.harnesses.terminals.hook_connector import HookConnector
from tieline.mesh.push import HarnessSession
from tieline.sessions.attacher import Attacher
from tieline.sessions.manager import SessionManager
from tieline.testing.rig import scratch_env
from tieline.testing.wait_for import eventually, soon

SESSION = "11111111-2222-3333-4444-555555555555"
HARNESS = """
import subprocess, sys
quiet = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
hook = subprocess.Popen(["sleep", "600"], **quiet)
print(hook.pid, flush=True)
while sys.stdin.readline():
    tool = subprocess.Popen(["cat"], **quiet)
    print("it runs", flush=True)
    sys.stdin.readline()
    tool.communicate()
    print("it is over", flush=True)
hook.wait()
"""
"""A program that has started a hook. With one line it runs a tool, which ends with the next."""


def now(ago: float = 0.0) -> str:
    return datetime.fromtimestamp(time.time() - ago, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Terminal:
    """What the hub sees of one: its hooks, its process and its record."""

    def __init__(self, home: Path, process: asyncio.subprocess.Process, hook: int) -> None:
        self.home = home
        self.process = process
        self.pid = hook
        self.record = home / ".gemini/tmp/project/chats/session-1.jsonl"
        self.record.parent.mkdir(parents=True, exist_ok=True)

    async def tool(self) -> None:
        """Run one, or end it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b"\n")
        await self.process.stdout.readline()

    def write(self, *records: dict[str, Any]) -> None:
        written(self.record, *({"timestamp": now(), **record} for record in records))

    def head(self, ago: float = 0.0, session: str = SESSION) -> None:
        self.write({"sessionId": session, "projectHash": "p", "startTime": now(ago)})

    def prompt(self, id: str, text: str) -> None:
        self.write({"id": id, "timestamp": now(), "type": "user", "content": [{"text": text}]})

    def answer(self, id: str, text: str, **more: Any) -> None:
        self.write({**answer(id, text, **more), "timestamp": now()})

    def hook(self, reach: HookConnector, event: str, **more: Any) -> None:
        common = {"session_id": SESSION, "transcript_path": str(self.record), "cwd": str(self.home), "timestamp": now()}
        reach.on_hook(SESSION, event, {**common, "hook_event_name": event, **more}, self.pid)


@asynccontextmanager
async def harness_process(program: str = HARNESS) -> AsyncGenerator[tuple[asyncio.subprocess.Process, int], None]:
    """And the process of a hook that it has started."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    hook = int(await process.stdout.readline())
    try:
        yield process, hook
    finally:
        os.kill(hook, signal.SIGKILL)
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def terminal_in(home: Path) -> AsyncGenerator[Terminal, None]:
    async with harness_process() as (process, hook):
        yield Terminal(home, process, hook)


class Observer:
    def __init__(self) -> None:
        self.ended_sessions: list[str] = []

    async def changed(self, session: HarnessSession) -> None:
        raise AssertionError("its hooks tell that")

    async def ended(self, session: HarnessSession) -> None:
        self.ended_sessions.append(session.session)


class Reading:
    def __init__(self, manager: SessionManager, reach: HookConnector, observer: Observer) -> None:
        self.manager = manager
        self.reach = reach
        self.observer = observer

    async def is_like(self, status: str, turns: int = 0) -> str:
        """The id of the only session, once it is like that."""
        await eventually(
            lambda: [(session.status, session.turns) for session in self.manager.sessions()] == [(status, turns)],
            f"no session is {status} after {turns} turns: {self.manager.sessions()}",
        )
        return self.manager.sessions()[0].id

    async def log(self, id: str) -> list[Event]:
        return [entry.event async for entry in self.manager.events(id, follow=False)]


@asynccontextmanager
async def reading_in(
    home: Path, make: Callable[[dict[str, str]], HookConnector] = GeminiConnector
) -> AsyncGenerator[Reading, None]:
    env = environment(home)
    async with (
        open_bus(f"sqlite://{home / 'bus.db'}") as bus,
        SessionManager(bus, Config(environ=env), node="here") as manager,
    ):
        reach, observer = make(env), Observer()
        reach.attacher = Attacher(manager, CurrentConsent(env))
        async with reach.open(observer):
            yield Reading(manager, reach, observer)


def environment(home: Path) -> dict[str, str]:
    return scratch_env(home, path="/usr/bin:/bin", TIELINE_HOME=str(home / "state"))


def kinds(events: list[Event]) -> list[type[Event]]:
    return [type(event) for event in events]


async def test_a_turn_is_told_as_it_happens_and_a_killed_terminal_is_closed(tmp_path: Path) -> None:
    agree(environment(tmp_path), "gemini")
    async with terminal_in(tmp_path) as terminal, reading_in(tmp_path) as reading:
        terminal.head()
        terminal.hook(reading.reach, "SessionStart", source="startup")
        id = await reading.is_like("idle")
        await eventually(
            lambda: reading.manager.harness_processes() == {terminal.process.pid}, "its process is not known"
        )
        terminal.hook(reading.reach, "BeforeAgent", prompt="do it")
        terminal.prompt("u-1", "do it")
        await reading.is_like("working")
        terminal.answer("m-1", "Done.")
        terminal.hook(reading.reach, "AfterAgent", prompt="do it")
        await reading.is_like("idle", 1)

        terminal.prompt("u-2", "again")
        terminal.hook(reading.reach, "BeforeAgent", prompt="again")
        await reading.is_like("working", 1)
        terminal.hook(reading.reach, "AfterAgent", prompt="do it", timestamp=now(ago=60))  # late: it is of the first
        terminal.hook(reading.reach, "BeforeTool", tool_name="run_shell_command", tool_input={"command": "sleep 9"})
        terminal.process.kill()
        await soon(lambda: reading.manager.get(id).status == "closed", "it is not closed", within=5)
        await eventually(lambda: reading.observer.ended_sessions == [SESSION], "the mesh was not told")
        events = await reading.log(id)
        assert [event.prompt for event in events if isinstance(event, TurnStarted)] == ["do it", "again"]
        assert [event.status for event in events if isinstance(event, Done)] == ["success", "interrupted"]
        assert len([event for event in events if isinstance(event, ToolUse)]) == len(
            [event for event in events if isinstance(event, ToolResult)]
        )


@pytest.mark.slow
async def test_a_hub_that_comes_back_reads_on_and_tells_nothing_twice(tmp_path: Path) -> None:
    agree(environment(tmp_path), "gemini")
    async with terminal_in(tmp_path) as terminal:
        async with reading_in(tmp_path) as reading:
            terminal.head()
            terminal.hook(reading.reach, "SessionStart", source="startup")
            await reading.is_like("idle")
            terminal.prompt("u-1", "do it")
            terminal.hook(reading.reach, "BeforeAgent", prompt="do it")
            await reading.is_like("working")
            terminal.hook(reading.reach, "BeforeTool", tool_name="run_shell_command", tool_input={"command": "touch 1"})
            id = await reading.is_like("working")
            await eventually(lambda: (tmp_path / "state/gemini-terminals.json").exists(), "it is not kept")
        terminal.answer("m-1", "I will.", toolCalls=[call(1, "success", {"output": "x"})])
        terminal.answer("m-2", "Done.")
        terminal.prompt("u-2", "again")
        terminal.answer("m-3", "Done again.")
        async with reading_in(tmp_path) as reading:  # no hook tells of it, nor of the end of its turns
            assert await reading.is_like("idle", 2) == id
            events = await reading.log(id)
            assert [event.prompt for event in events if isinstance(event, TurnStarted)] == ["do it", "again"]
            assert [event.text for event in events if isinstance(event, Text)] == ["I will.", "Done.", "Done again."]
            assert len([event for event in events if isinstance(event, ToolUse)]) == 1
        terminal.process.kill()
        await terminal.process.wait()
        async with reading_in(tmp_path) as reading:
            assert await reading.is_like("closed", 2) == id


@pytest.mark.slow
async def test_a_turn_is_not_over_while_a_tool_runs_of_which_no_hub_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record has the tool only when it is over: until then it ends with a text, as after a turn."""
    monkeypatch.setattr(hooked_terminal, "LOOK_S", 0.02)
    monkeypatch.setattr(hooked_terminal, "QUIET_S", 0.2)
    looked: list[float] = []
    has_begun = gemini_terminal._has_begun  # pyright: ignore[reportPrivateUsage]

    def look(process: int, since: float) -> bool:
        looked.append(since)
        return has_begun(process, since)

    monkeypatch.setattr(gemini_terminal, "_has_begun", look)
    agree(environment(tmp_path), "gemini")
    async with terminal_in(tmp_path) as terminal:
        terminal.head()
        async with reading_in(tmp_path) as reading:
            terminal.hook(reading.reach, "SessionStart", source="startup")
            id = await reading.is_like("idle")
            await eventually(lambda: (tmp_path / "state/gemini-terminals.json").exists(), "it is not kept")
        terminal.prompt("u-1", "do it")
        terminal.answer("m-1", "I will.")
        await terminal.tool()
        async with reading_in(tmp_path) as reading:
            await reading.is_like("working")
            await eventually(lambda: len(looked) > 3, "nobody looks whether something runs")
        before = len(looked)
        async with reading_in(tmp_path) as reading:  # all of it was told before
            await eventually(lambda: len(looked) > before + 3, "nobody looks whether something runs still")
            await reading.is_like("working")
            terminal.answer("m-1", "I will.", toolCalls=[call(1, "success", {"output": "x"})])
            terminal.answer("m-2", "Done.")
            await terminal.tool()  # after what is written when it is over: nothing is between both, however busy it is
            await reading.is_like("idle", 1)
            events = await reading.log(id)
            assert [event.text for event in events if isinstance(event, Text)] == ["I will.", "Done."]
            assert kinds(events).count(TurnStarted) == kinds(events).count(Done) == 1


async def test_a_prompt_of_the_terminal_is_asked_until_its_call_is_over(tmp_path: Path) -> None:
    agree(environment(tmp_path), "gemini")
    async with terminal_in(tmp_path) as terminal, reading_in(tmp_path) as reading:
        asks = reading.manager.asks
        terminal.head()
        terminal.hook(reading.reach, "SessionStart", source="startup")
        await reading.is_like("idle")
        terminal.prompt("u-1", "do it")
        terminal.answer("m-1", "")
        terminal.hook(reading.reach, "BeforeAgent", prompt="do it")
        for number in (1, 2):
            given = {"command": f"touch {number}"}
            terminal.hook(reading.reach, "BeforeTool", tool_name="run_shell_command", tool_input=given)
        for details in (
            {"type": "exec", "title": "Confirm Shell Command", "command": "touch 2", "rootCommand": "touch"},
            {"type": "exec", "title": "Confirm Shell Command", "command": "touch 1", "rootCommand": "touch"},
            {"type": "hologram", "title": "Confirm a hologram", "what": "all of it"},
        ):
            terminal.hook(reading.reach, "Notification", notification_type="ToolPermission", details=details)
        await eventually(lambda: len(asks.pending()) == 3, "not all is asked")
        first, second, other = [record.ask for record in asks.pending()]
        assert (first.action, second.action) == (Command("touch 2"), Command("touch 1"))
        assert isinstance(other.action, OtherAction) and other.input["what"] == "all of it"
        id = await reading.is_like("waiting")

        denied = {"error": "[Operation Cancelled] Reason: User denied execution."}
        terminal.answer("m-1", "", toolCalls=[call(1, "success", {"output": "x"}), call(2, "cancelled", denied)])
        terminal.write({"id": "n-1", "type": "info", "content": "Request cancelled."})
        await reading.is_like("idle", 1)
        await eventually(lambda: not asks.pending(), "it is still asked")
        events = await reading.log(id)
        answers = {event.ask: (event.decision, event.by) for event in events if isinstance(event, Answer)}
        assert {ask.id for ask in (first, second, other)} == answers.keys()
        assert (answers[first.id], answers[second.id]) == (("deny", "terminal"), ("allow", "terminal"))
        assert [event.tool for event in events if isinstance(event, Ask)] == [first.tool, second.tool, ""]
        order = [
            event.tool if isinstance(event, Answer) else event.id
            for event in events
            if isinstance(event, Answer | ToolResult)
        ]
        assert order == [second.tool, second.tool, first.tool, first.tool, ""]
        assert isinstance(events[-1], Done)


@pytest.mark.parametrize("reason", ["nobody agreed", "it began before", "the directory is off", "another's record"])
async def test_nothing_is_read_that_may_not_be(reason: str, tmp_path: Path) -> None:
    env = environment(tmp_path)
    if reason != "nobody agreed":
        agree(env, "gemini")
    if reason == "the directory is off":
        switch(env, str(tmp_path), on=False)
    async with terminal_in(tmp_path) as terminal, reading_in(tmp_path) as reading:
        terminal.head(ago=60 if reason == "it began before" else 0, session="other" if "another" in reason else SESSION)
        terminal.prompt("u-1", "private")
        terminal.hook(reading.reach, "SessionStart", source="startup")
        terminal.process.kill()
        await eventually(lambda: reading.observer.ended_sessions == [SESSION], "it was not looked at")
        assert reading.manager.sessions() == []


async def test_no_file_is_read_that_is_no_record(tmp_path: Path) -> None:
    """A hook may be anybody's."""
    agree(environment(tmp_path), "gemini")
    async with terminal_in(tmp_path) as terminal, reading_in(tmp_path) as reading:
        outside = tmp_path / "chats" / "session.jsonl"
        outside.parent.mkdir()
        terminal.head()
        outside.write_bytes(terminal.record.read_bytes())
        link = terminal.record.with_name("session-2.jsonl")
        link.symlink_to(outside)
        for path in (outside, link, terminal.record.with_suffix(".json"), terminal.record.parent.parent / "s.jsonl", 7):
            terminal.hook(reading.reach, "SessionStart", transcript_path=path if path == 7 else str(path))
        assert reading.reach.known == {}
        terminal.hook(reading.reach, "SessionStart")
        assert reading.reach.known == {SESSION: terminal.process.pid}


async def test_of_sessions_that_nobody_knows_nothing_is_kept(tmp_path: Path) -> None:
    async with reading_in(tmp_path) as reading:
        for number in range(1000):
            reading.reach.on_hook(f"s-{number}", "SessionEnd", {}, 0)
        assert not reading.reach._ended  # pyright: ignore[reportPrivateUsage]
