"""Droid's terminals as their hooks and records tell of them: what may be read, what is asked, who has ended, and a hub
that comes back."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.harnesses.test_droid_transcript import (
    SESSION,
    Fields,
    Record,
    calls,
    ends,
    head,
    hook,
    kinds,
    message,
    prompt,
    returns,
    says,
)
from tests.harnesses.test_gemini_connector import Reading, environment, harness_process, reading_in
from tests.harnesses.test_kimi_connector import IN_A_TERMINAL, WITHOUT_TERMINAL, answers

from tieline.events import Command, Done, Edit, Status, ToolResult, TurnStarted
from tieline.harnesses.attach_consent import agree, switch
from tieline.harnesses.droid.connector import DroidConnector
from tieline.sessions.attached_session import ANSWER_THERE, MODE
from tieline.testing.wait_for import eventually


class Terminal:
    """What the hub sees of one: its hooks, its process and its record."""

    def __init__(self, home: Path, process: Any, hook: int) -> None:
        self.home = home
        self.process = process
        self.pid = hook
        self.record = Record(home)

    def write(self, *lines: Fields) -> None:
        now = datetime.now().astimezone().isoformat()
        untimed = ("session_start", "agent_turn_outcome")
        self.record.write(*(each if each["type"] in untimed else {"timestamp": now, **each} for each in lines))

    def hook(self, reading: Reading, event: str, session: str = SESSION, **more: Any) -> None:
        common = {
            "session_id": session,
            "transcript_path": str(self.record.path.parent / f"{session}.jsonl"),
            "cwd": str(self.home),
            "permission_mode": "off",
            "hook_event_name": event,
        }
        reading.reach.on_hook(session, event, {**common, **more}, self.pid)


@asynccontextmanager
async def terminal_in(home: Path, *, program: str = IN_A_TERMINAL) -> AsyncGenerator[Terminal, None]:
    async with harness_process(program) as (process, hook):
        yield Terminal(home, process, hook)


def droid_in(home: Path) -> AbstractAsyncContextManager[Reading]:
    return reading_in(home, DroidConnector)


async def first_turn(terminal: Terminal, reading: Reading) -> str:
    """The session's id. Its record has been read to the end once: what is asked from now on is in the log."""
    terminal.write(prompt("hello"), says("Hello."), ends("hello"))
    return await reading.is_like("idle", 1)


async def answered(reading: Reading, id: str, count: int) -> None:
    async with asyncio.timeout(30):
        while len(answers(await reading.log(id))) < count:  # noqa: ASYNC110 (a log that grows)
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_what_it_asks_is_shown_until_it_is_decided_there(tmp_path: Path) -> None:
    agree(environment(tmp_path), "droid")
    async with terminal_in(tmp_path) as terminal, droid_in(tmp_path) as reading:
        terminal.write(head())
        terminal.hook(reading, "SessionStart")
        id = await reading.is_like("idle")
        pending = reading.manager.asks.pending
        # What needs no permission is not asked about.
        free = [{"type": "tool_use", "id": "r", "name": "Read", "input": {"file_path": "f"}}]
        terminal.write(prompt("go"), says("I read.", *free), calls("a", "b"), hook("PreToolUse"))
        await reading.is_like("working")
        assert not pending()
        terminal.write(hook("Notification"))
        await eventually(lambda: len(pending()) == 2, "they are not asked")
        assert pending()[0].ask.action == Command("ls") and pending()[0].ask.at_terminal == ANSWER_THERE
        await reading.is_like("waiting")
        terminal.write(hook("PostToolUse"))  # both were decided at once
        await eventually(lambda: not pending(), "they are still asked")
        await reading.is_like("working")
        terminal.write(returns("r"), returns("a"), returns("b"))
        change = calls("c", name="Edit", file_path="f", old_str="old", new_str="new")
        terminal.write(change, hook("Notification"))
        await eventually(lambda: len(pending()) == 1, "it is not asked")
        assert isinstance(edit := pending()[0].ask.action, Edit) and "+new" in edit.diff
        terminal.write(returns("c", "Tool execution cancelled by user", is_error=True), ends("go"))
        await reading.is_like("failed", 1)
        assert not pending()
        events = await reading.log(id)
        assert answers(events) == [("terminal", "allow"), ("terminal", "allow"), ("terminal", "deny")]
        assert [event.status for event in events if isinstance(event, ToolResult)] == ["ok", "ok", "ok", "denied"]
        assert [event.status for event in events if isinstance(event, Done)] == ["error"], "a denial is no success"


@pytest.mark.slow
async def test_questions_and_plans_are_shown_as_such(tmp_path: Path) -> None:
    agree(environment(tmp_path), "droid")
    async with terminal_in(tmp_path) as terminal, droid_in(tmp_path) as reading:
        terminal.write(head())
        terminal.hook(reading, "SessionStart")
        id = await reading.is_like("idle")
        pending = reading.manager.asks.pending
        asked = "1. [question] Which?\n[topic] Colour\n[option] red\n[option] blue\n"
        terminal.write(prompt("go"), calls("q", name="AskUser", questionnaire=asked), hook("Notification"))
        await eventually(lambda: len(pending()) == 1, "it is not asked")
        (question,) = pending()[0].ask.questions
        assert question.text == "Which?" and [each.label for each in question.choices] == ["red", "blue"]
        terminal.write(returns("q", "1. [question] Which?\n[answer] red"))
        await eventually(lambda: not pending(), "it is still asked")
        terminal.write(calls("p", name="ExitSpecMode", title="A plan", plan="# All of it"), hook("Notification"))
        await eventually(lambda: len(pending()) == 1, "it is not asked")
        assert (pending()[0].ask.kind, pending()[0].ask.plan) == ("plan", "# All of it")
        terminal.write(returns("p", '{"approved":false,"message":"no"}'), says("Then not."), ends("go"))
        await reading.is_like("idle", 1)
        assert answers(await reading.log(id)) == [("terminal", "allow"), ("terminal", "deny")]


@pytest.mark.slow
async def test_a_command_that_runs_was_allowed(tmp_path: Path) -> None:
    """The record has it only when it is over. What runs below the terminal here is its hook."""
    agree(environment(tmp_path), "droid")
    async with terminal_in(tmp_path) as terminal, droid_in(tmp_path) as reading:
        terminal.write(head())
        terminal.hook(reading, "SessionStart")
        id = await first_turn(terminal, reading)
        terminal.write(prompt("go"), calls("a", "b", command="sleep 600"), hook("Notification"))
        await answered(reading, id, 2)
        terminal.write(returns("a"), returns("b"), says("Done."), ends("go"))
        await reading.is_like("idle", 2)
        events = await reading.log(id)
        assert answers(events) == [("terminal", "allow"), ("terminal", "allow")]


@pytest.mark.slow
async def test_a_command_that_runs_when_a_hub_comes_back_is_not_asked_again(tmp_path: Path) -> None:
    agree(environment(tmp_path), "droid")
    async with terminal_in(tmp_path) as terminal:
        async with droid_in(tmp_path) as reading:
            terminal.write(head())
            terminal.hook(reading, "SessionStart")
            id = await first_turn(terminal, reading)
            terminal.write(prompt("go"), calls("a", command="sleep 600"), hook("Notification"))
            await answered(reading, id, 1)
            await eventually(lambda: (tmp_path / "state/droid-terminals.json").exists(), "it is not kept")
        terminal.write(says("It still runs."))
        async with droid_in(tmp_path) as reading:
            await eventually(lambda: reading.manager.get(id).last_line == "It still runs.", "it is not read on")
            terminal.write(hook("PostToolUse"), returns("a"), says("Done."), ends("go"))
            await reading.is_like("idle", 2)
            assert kinds(await reading.log(id)).count("Ask") == 1


@pytest.mark.slow
async def test_what_was_decided_at_once_is_in_the_log(tmp_path: Path) -> None:
    agree(environment(tmp_path), "droid")
    async with terminal_in(tmp_path) as terminal, droid_in(tmp_path) as reading:
        terminal.write(head())
        terminal.hook(reading, "SessionStart")
        id = await reading.is_like("idle")
        terminal.write(prompt("before"), says("Before."), ends("before"))
        await reading.is_like("idle", 1)
        denied = returns("a", "Tool execution cancelled by user", is_error=True)
        terminal.write(prompt("go"), calls("a"), hook("Notification"), denied, ends("go"))
        await reading.is_like("failed", 2)
        events = (await reading.log(id))[4:]
        assert kinds(events) == ["TurnStarted", "ToolUse", "Ask", "Answer", "ToolResult", "Error", "Done"]
        assert answers(events) == [("terminal", "deny")]


@pytest.mark.slow
async def test_a_hub_that_comes_back_reads_on_and_asks_what_is_still_open(tmp_path: Path) -> None:
    agree(environment(tmp_path), "droid")
    async with terminal_in(tmp_path) as terminal:
        async with droid_in(tmp_path) as reading:
            terminal.write(head())
            terminal.hook(reading, "SessionStart")
            await reading.is_like("idle")
            terminal.write(prompt("one"), calls("a"), hook("Notification"))
            id = await reading.is_like("waiting")
            await eventually(lambda: (tmp_path / "state/droid-terminals.json").exists(), "it is not kept")
        terminal.write(hook("PostToolUse"), returns("a"), says("Done."), ends("one"))
        terminal.write(prompt("two"), calls("b"), hook("Notification"))
        async with droid_in(tmp_path) as reading:
            assert await reading.is_like("waiting", 1) == id
            terminal.write(returns("b", "Tool execution cancelled by user", is_error=True), ends("two"))
            await reading.is_like("failed", 2)
            events = await reading.log(id)
            assert [event.prompt for event in events if isinstance(event, TurnStarted)] == ["one", "two"]
            assert [event.status for event in events if isinstance(event, Done)] == ["success", "error"]
            assert kinds(events).count("Ask") == 2
            assert kinds(events).count("ToolUse") == kinds(events).count("ToolResult") == 2
        terminal.process.kill()
        await terminal.process.wait()
        async with droid_in(tmp_path) as reading:
            assert await reading.is_like("closed", 2) == id


async def test_its_mode_is_told_by_its_hooks(tmp_path: Path) -> None:
    agree(environment(tmp_path), "droid")
    async with terminal_in(tmp_path) as terminal, droid_in(tmp_path) as reading:
        terminal.write(head())
        terminal.hook(reading, "SessionStart")
        id = await reading.is_like("idle")
        terminal.hook(reading, "UserPromptSubmit", permission_mode="spec")
        terminal.write(prompt("go"), says("Yes."), ends("go"))
        await reading.is_like("idle", 1)
        await eventually(lambda: reading.manager.get(id).mode == "spec", "its mode is not told")
        assert Status(MODE, "spec") in await reading.log(id)


async def test_a_subagents_record_is_nobodys_terminal(tmp_path: Path) -> None:
    agree(environment(tmp_path), "droid")
    async with terminal_in(tmp_path) as terminal, droid_in(tmp_path) as reading:
        terminal.write(head(callingSessionId="its-caller"), prompt("# Task Tool Invocation"))
        terminal.hook(reading, "SessionStart")
        terminal.process.kill()
        await eventually(lambda: reading.observer.ended_sessions == [SESSION], "it was not looked at")
        assert reading.manager.sessions() == []


@pytest.mark.parametrize("reason", ["nobody agreed", "it began before", "the directory is off"])
async def test_nothing_is_read_that_may_not_be(reason: str, tmp_path: Path) -> None:
    env = environment(tmp_path)
    if reason != "nobody agreed":
        agree(env, "droid")
    if reason == "the directory is off":
        switch(env, str(tmp_path), on=False)
    async with terminal_in(tmp_path) as terminal, droid_in(tmp_path) as reading:
        old = {"timestamp": "2026-01-01T00:00:00.000Z"} if reason == "it began before" else {}
        terminal.write(head(), {**prompt("private"), **old})
        terminal.hook(reading, "SessionStart")
        terminal.process.kill()
        await eventually(lambda: reading.observer.ended_sessions == [SESSION], "it was not looked at")
        assert reading.manager.sessions() == []


async def test_who_has_no_terminal_is_not_read(tmp_path: Path) -> None:
    agree(environment(tmp_path), "droid")
    async with terminal_in(tmp_path, program=WITHOUT_TERMINAL) as terminal, droid_in(tmp_path) as reading:
        terminal.write(head())
        terminal.hook(reading, "SessionStart")
        assert reading.reach.known == {}


async def test_a_record_that_leads_elsewhere_is_not_read(tmp_path: Path) -> None:
    agree(environment(tmp_path), "droid")
    async with terminal_in(tmp_path) as terminal, droid_in(tmp_path) as reading:
        terminal.write(head(), message("m", "user"))
        for path in ("/etc/passwd", str(tmp_path / f"{SESSION}.jsonl"), str(terminal.record.path.parent), "", None):
            terminal.hook(reading, "SessionStart", transcript_path=path)
            assert reading.reach.known == {}
        folder = terminal.record.path.parent
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
        terminal.hook(reading, "SessionStart")
        assert reading.reach.known == {}
        folder.unlink()
        (tmp_path / "elsewhere").rename(folder)
        terminal.hook(reading, "SessionStart", session="../other", transcript_path=str(folder / "other.jsonl"))
        assert reading.reach.known == {}
        terminal.hook(reading, "SessionStart")
        assert reading.reach.known == {SESSION: terminal.process.pid}
