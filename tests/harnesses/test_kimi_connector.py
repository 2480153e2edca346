"""Kimi Code's terminals as their hooks and records tell of them: what may be read, what is asked, who has ended, and a
hub that comes back."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.harnesses.test_gemini_connector import Reading, environment, harness_process, reading_in
from tests.harnesses.test_kimi_transcript import (
    SESSION,
    Record,
    asks,
    calls,
    decides,
    ends,
    line,
    prompt,
    prompts,
    returns,
    says,
)

from tieline.events import Answer, Ask, Command, Done, Event, ToolResult
from tieline.harnesses.attach_consent import agree, switch
from tieline.harnesses.kimi.connector import KimiConnector
from tieline.harnesses.kimi.terminal import MAX_DECIDED
from tieline.sessions.attached_session import ANSWER_THERE
from tieline.testing.wait_for import eventually

IN_A_TERMINAL = """
import fcntl, os, pty, subprocess, termios
os.setsid()
fcntl.ioctl(pty.openpty()[1], termios.TIOCSCTTY, 0)
hook = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
print(hook.pid, flush=True)
hook.wait()
"""
"""Programs that have started a hook."""
WITHOUT_TERMINAL = """
import subprocess
hook = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
print(hook.pid, flush=True)
hook.wait()
"""


class Terminal:
    """What the hub sees of one: its hooks, its process and its record."""

    def __init__(self, home: Path, process: asyncio.subprocess.Process, hook: int) -> None:
        self.home = home
        self.process = process
        self.pid = hook
        self.record = Record(home)

    def write(self, *lines: dict[str, Any]) -> None:
        self.record.write(*({"time": now_ms(), **each} for each in lines))

    def head(self, ago: float = 0.0) -> None:
        self.write(line("metadata", created_at=now_ms() - ago * 1000))

    def hook(self, reading: Reading, event: str, **more: Any) -> None:
        common = {"session_id": SESSION, "cwd": str(self.home), "hook_event_name": event}
        reading.reach.on_hook(SESSION, event, {**common, **more}, self.pid)

    def asks_below(self, reading: Reading, id: str, command: str) -> None:
        """A subagent does."""
        shown = {"kind": "command", "command": command}
        about = {"id": id, "agent_id": "agent-0", "tool_call_id": "c", "tool_name": "Bash", "display": shown}
        self.hook(reading, "PermissionRequest", tool_input={"command": command}, **about)

    def decides_below(self, reading: Reading, id: str, decision: str) -> None:
        self.hook(reading, "PermissionResult", id=id, agent_id="agent-0", decision=decision)


def now_ms() -> int:
    return int(time.time() * 1000)


@asynccontextmanager
async def terminal_in(home: Path) -> AsyncGenerator[Terminal, None]:
    async with harness_process(IN_A_TERMINAL) as (process, hook):
        yield Terminal(home, process, hook)


def kimi_in(home: Path) -> AbstractAsyncContextManager[Reading]:
    return reading_in(home, KimiConnector)


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def answers(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.by, event.decision) for event in events if isinstance(event, Answer)]


@pytest.mark.slow
async def test_what_it_asks_is_shown_until_it_is_decided_there(tmp_path: Path) -> None:
    agree(environment(tmp_path), "kimi")
    async with terminal_in(tmp_path) as terminal, kimi_in(tmp_path) as reading:
        terminal.head()
        terminal.hook(reading, "SessionStart")
        id = await reading.is_like("idle")
        pending = reading.manager.asks.pending
        terminal.write(prompt("go"), asks("a"))
        await eventually(lambda: len(pending()) == 1, "it is not asked")
        assert pending()[0].ask.action == Command("ls") and pending()[0].ask.at_terminal == ANSWER_THERE
        await reading.is_like("waiting")
        terminal.write(decides("a", decision="approved"), calls("a", command="ls"))
        await eventually(lambda: not pending(), "it is still asked")
        terminal.write(returns("a"), asks("b"))
        await eventually(lambda: len(pending()) == 1, "it is not asked")
        terminal.write(decides("b", decision="rejected"), calls("b", command="ls"), returns("b", isError=True))
        await eventually(lambda: not pending(), "it is still asked")
        questions = [{"question": "Which?", "options": [{"label": "red"}, {"label": "blue"}], "multiSelect": True}]
        terminal.write(
            calls("q", "AskUserQuestion", questions=questions),
            line("interaction.request", id="q", kind="question", toolCallId="q", request={"questions": questions}),
        )
        await eventually(lambda: len(pending()) == 1, "it is not asked")
        (question,) = pending()[0].ask.questions
        assert (
            question.text == "Which?" and question.many and [each.label for each in question.choices] == ["red", "blue"]
        )
        terminal.write(line("interaction.resolved", id="q", response={"answers": {"Which?": "red"}}), returns("q"))
        await eventually(lambda: not pending(), "it is still asked")
        terminal.write(asks("plan", "ExitPlanMode", kind="plan_review", plan="# All of it", path="p"))
        await eventually(lambda: len(pending()) == 1, "it is not asked")
        assert (pending()[0].ask.kind, pending()[0].ask.plan) == ("plan", "# All of it")
        # Interrupted while it is asked: nobody has decided it.
        terminal.write(
            line("interaction.resolved", id="approval-plan", response={"cancelled": True}), ends("cancelled")
        )
        await reading.is_like("idle", 1)
        assert not pending()
        events = await reading.log(id)
        assert answers(events)[:3] == [("terminal", "allow"), ("terminal", "deny"), ("terminal", "allow")]
        assert [event.reason for event in events if isinstance(event, Answer)] == ["", "", "", "the ask was withdrawn"]
        assert [event.status for event in events if isinstance(event, ToolResult)][:3] == ["ok", "denied", "ok"]


@pytest.mark.slow
async def test_what_a_subagent_asks_is_told_by_hooks_in_whatever_order_they_come(tmp_path: Path) -> None:
    agree(environment(tmp_path), "kimi")
    async with terminal_in(tmp_path) as terminal, kimi_in(tmp_path) as reading:
        terminal.head()
        terminal.hook(reading, "SessionStart")
        id = await reading.is_like("idle")
        pending = reading.manager.asks.pending
        terminal.write(prompt("go"), calls("a", "Agent", description="look"))
        await reading.is_like("working")
        terminal.asks_below(reading, "one", "touch below")
        await eventually(lambda: len(pending()) == 1, "it is not asked")
        assert pending()[0].ask.action == Command("touch below")
        terminal.decides_below(reading, "one", "rejected")
        await eventually(lambda: not pending(), "it is still asked")
        for number in range(MAX_DECIDED):
            terminal.decides_below(reading, f"early-{number}", "approved")
        terminal.asks_below(reading, "early-0", "touch early")
        own = {"agent_id": "main", "tool_name": "Bash", "display": {"kind": "command", "command": "own"}}
        terminal.hook(reading, "PermissionRequest", id="own", **own)
        terminal.asks_below(reading, "two", "touch two")
        await eventually(lambda: len(pending()) == 1, "it is not asked")
        assert pending()[0].ask.action == Command("touch two")
        terminal.write(returns("a"), says("Done."), ends())  # the hook of its decision found no hub
        await reading.is_like("idle", 1)
        assert not pending()
        events = await reading.log(id)
        assert [event.action for event in events if isinstance(event, Ask)] == [
            Command("touch below"),
            Command("touch two"),
        ]
        assert answers(events)[0] == ("terminal", "deny")


@pytest.mark.slow
async def test_a_hub_that_comes_back_reads_on_and_asks_what_is_still_open(tmp_path: Path) -> None:
    agree(environment(tmp_path), "kimi")
    async with terminal_in(tmp_path) as terminal:
        async with kimi_in(tmp_path) as reading:
            terminal.head()
            terminal.hook(reading, "SessionStart")
            await reading.is_like("idle")
            terminal.write(prompt("one"), asks("a"))
            id = await reading.is_like("waiting")
            await eventually(lambda: (tmp_path / "state/kimi-terminals.json").exists(), "it is not kept")
        terminal.write(decides("a", decision="approved"), calls("a", command="ls"), returns("a"), says("Done."), ends())
        terminal.write(prompt("two"), asks("b"))
        async with kimi_in(tmp_path) as reading:
            assert await reading.is_like("waiting", 1) == id
            terminal.write(decides("b", decision="rejected"), returns("b", isError=True), says("No."), ends())
            await reading.is_like("idle", 2)
            events = await reading.log(id)
            assert prompts(events) == ["one", "two"]
            assert [event.text for event in events if isinstance(event, Done)] == ["Done.", "No."]
            assert kinds(events).count("Ask") == 2
            assert kinds(events).count("ToolUse") == kinds(events).count("ToolResult") == 2
        terminal.process.kill()
        await terminal.process.wait()
        async with kimi_in(tmp_path) as reading:
            assert await reading.is_like("closed", 2) == id


@pytest.mark.slow
async def test_a_turn_that_begins_by_itself_is_told_and_a_killed_terminal_is_closed(tmp_path: Path) -> None:
    """No hook of ours fires when a task in the background ends."""
    agree(environment(tmp_path), "kimi")
    async with terminal_in(tmp_path) as terminal, kimi_in(tmp_path) as reading:
        terminal.head()
        terminal.hook(reading, "SessionStart")
        id = await reading.is_like("idle")
        terminal.write(prompt("the task is over", kind="task"), says("I see."), ends())
        await reading.is_like("idle", 1)
        terminal.write(prompt("go"), calls("a", command="ls"), returns("a"), says("And now the other."))
        await reading.is_like("working", 1)
        await eventually(lambda: "other" in reading.manager.get(id).last_line, "its last words are not told")
        terminal.process.kill()
        assert await reading.is_like("closed", 2) == id
        events = await reading.log(id)
        assert [event.status for event in events if isinstance(event, Done)] == ["success", "interrupted"]
        assert kinds(events)[-2:] == ["Error", "Done"], "it is said that the terminal was closed"
        assert kinds(events).count("ToolUse") == kinds(events).count("ToolResult") == 1
        await eventually(lambda: reading.observer.ended_sessions == [SESSION], "the mesh was not told")


@pytest.mark.slow
async def test_a_session_that_its_terminal_leaves_is_closed_and_is_the_same_when_it_is_resumed(tmp_path: Path) -> None:
    agree(environment(tmp_path), "kimi")
    async with terminal_in(tmp_path) as terminal, kimi_in(tmp_path) as reading:
        terminal.head()
        terminal.hook(reading, "SessionStart")
        id = await reading.is_like("idle")
        terminal.write(prompt("one"), ends())
        await reading.is_like("idle", 1)
        terminal.hook(reading, "SessionEnd", reason="exit")
        await reading.is_like("closed", 1)
        terminal.hook(reading, "SessionStart", source="resume")
        assert await reading.is_like("idle", 1) == id
        terminal.write(prompt("two"), ends())
        await reading.is_like("idle", 2)
        assert prompts(await reading.log(id)) == ["one", "two"]


@pytest.mark.parametrize("reason", ["nobody agreed", "it began before", "the directory is off"])
async def test_nothing_is_read_that_may_not_be(reason: str, tmp_path: Path) -> None:
    env = environment(tmp_path)
    if reason != "nobody agreed":
        agree(env, "kimi")
    if reason == "the directory is off":
        switch(env, str(tmp_path), on=False)
    async with terminal_in(tmp_path) as terminal, kimi_in(tmp_path) as reading:
        terminal.head(ago=60 if reason == "it began before" else 0)
        terminal.write(prompt("private"))
        terminal.hook(reading, "SessionStart")
        terminal.process.kill()
        await eventually(lambda: reading.observer.ended_sessions == [SESSION], "it was not looked at")
        assert reading.manager.sessions() == []


@pytest.mark.slow
async def test_after_attach_off_nothing_is_read_and_what_is_asked_is_withdrawn(tmp_path: Path) -> None:
    env = environment(tmp_path)
    agree(env, "kimi")
    async with terminal_in(tmp_path) as terminal, kimi_in(tmp_path) as reading:
        terminal.head()
        terminal.hook(reading, "SessionStart")
        await reading.is_like("idle")
        terminal.write(prompt("one"), asks("a"))
        id = await reading.is_like("waiting")
        switch(env, str(tmp_path), on=False)
        await eventually(lambda: reading.manager.get(id).status == "closed", "it is still read")
        assert not reading.manager.asks.pending()
        terminal.write(decides("a", decision="approved"), says("private"), ends())
        switch(env, str(tmp_path), on=True)
        await eventually(lambda: reading.manager.get(id).status == "idle", "it is not read again")
        terminal.write({**prompt("two"), "time": now_ms() + 1000}, {**ends(), "time": now_ms() + 1001})
        await eventually(lambda: reading.manager.get(id).turns == 2, "it is not read on")
        events = await reading.log(id)
        assert prompts(events) == ["one", "two"] and "Text" not in kinds(events)


async def test_who_has_no_terminal_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as its server, and its part in an editor; nor is another user's."""
    agree(environment(tmp_path), "kimi")
    async with terminal_in(tmp_path) as terminal, kimi_in(tmp_path) as reading:
        terminal.head()
        with monkeypatch.context() as patch:
            patch.setattr("tieline.harnesses.terminals.hook_connector.is_own", lambda pid: False)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
            terminal.hook(reading, "SessionStart")
        assert reading.reach.known == {}
        away = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WITHOUT_TERMINAL, start_new_session=True, stdout=asyncio.subprocess.PIPE
        )
        assert away.stdout is not None
        hook, terminal.pid = terminal.pid, int(await away.stdout.readline())
        terminal.hook(reading, "SessionStart")
        assert reading.reach.known == {}
        os.kill(terminal.pid, signal.SIGKILL)
        await away.communicate()
        terminal.pid = hook
        terminal.hook(reading, "SessionStart")
        assert reading.reach.known == {SESSION: terminal.process.pid}


async def test_a_record_that_leads_elsewhere_is_not_read(tmp_path: Path) -> None:
    agree(environment(tmp_path), "kimi")
    async with terminal_in(tmp_path) as terminal, kimi_in(tmp_path) as reading:
        terminal.head()
        folder = terminal.record.path.parents[2]
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
        terminal.hook(reading, "SessionStart")
        assert reading.reach.known == {}
        folder.unlink()
        (tmp_path / "elsewhere").rename(folder)
        terminal.hook(reading, "SessionStart")
        assert reading.reach.known == {SESSION: terminal.process.pid}
