"""Qwen Code's terminals, read along: what their record and their hooks tell, in whatever order it comes, and what may
not be read."""

import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harnesses.test_gemini_connector import environment, now
from tests.harnesses.test_qwen_connector import Inbox, receipt, write_session
from tests.harnesses.test_qwen_transcript import Record, call, result, say, user
from tests.harnesses.told_sessions import ToldSessions

from tieline.bus import open_bus
from tieline.config import Config
from tieline.errors import Unsupported
from tieline.events import Answer, Ask, Command, Done, Edit, Event, TurnStarted
from tieline.harnesses.attach_consent import CurrentConsent, agree, switch
from tieline.harnesses.qwen import terminal as qwen_terminal
from tieline.harnesses.qwen.connector import QwenConnector
from tieline.sessions.attacher import Attacher
from tieline.sessions.manager import SessionManager
from tieline.testing.wait_for import eventually

SESSION = "11111111-2222-3333-4444-555555555555"


class Reading:
    """A hub that reads a terminal along, and what the hub sees of that one."""

    def __init__(self, home: Path, manager: SessionManager, reach: QwenConnector, inbox: Inbox) -> None:
        self.manager = manager
        self.reach = reach
        self.observer = ToldSessions()
        self.inbox = inbox
        self._home = home
        self.record = home / ".qwen/projects/project/chats" / f"{SESSION}.jsonl"
        self.record.parent.mkdir(parents=True, exist_ok=True)

    def write(self, *records: Record, ago: float = 0.0) -> None:
        with self.record.open("ab") as file:
            file.writelines(msgspec.json.encode({**each, "timestamp": now(ago)}) + b"\n" for each in records)

    def hook(self, event: str, **more: Any) -> None:
        common = {"session_id": SESSION, "transcript_path": str(self.record), "cwd": str(self._home)}
        self.reach.on_hook(SESSION, event, {**common, "hook_event_name": event, "timestamp": now(), **more}, 0)

    def idle(self, text: str = "") -> None:
        if text:
            self.hook("Stop", last_assistant_message=text)
        self.hook("Notification", notification_type="idle_prompt")

    async def is_like(self, status: str, turns: int = 0) -> str:
        await eventually(
            lambda: [(session.status, session.turns) for session in self.manager.sessions()] == [(status, turns)],
            f"no session is {status} after {turns} turns: {self.manager.sessions()}",
        )
        return self.manager.sessions()[0].id

    async def log(self, id: str) -> list[Event]:
        return [entry.event async for entry in self.manager.events(id, follow=False)]

    async def asked(self) -> Ask:
        await eventually(lambda: bool(self.manager.asks.pending()), "nothing is asked")
        return self.manager.asks.pending()[0].ask


@asynccontextmanager
async def reading_in(home: Path, *, ago: float = 0.0) -> AsyncGenerator[Reading, None]:
    """The terminal has begun so many seconds ago."""
    env = environment(home)
    async with (
        open_bus(f"sqlite://{home / 'bus.db'}") as bus,
        SessionManager(bus, Config(environ=env), node="here") as manager,
        Inbox(home) as inbox,
    ):
        write_session(home, inbox.path, sessionId=SESSION, cwd=str(home), startedAt=(time.time() - ago) * 1000)
        reach = QwenConnector(env)
        reach.attacher = Attacher(manager, CurrentConsent(env))
        reading = Reading(home, manager, reach, inbox)
        async with reach.open(reading.observer):
            yield reading


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


async def test_a_turn_is_over_when_the_record_has_what_the_hooks_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record may be written down long after the hook."""
    monkeypatch.setattr(qwen_terminal, "QUIET_S", 60.0)
    agree(environment(tmp_path), "qwen")
    async with reading_in(tmp_path) as terminal:
        terminal.hook("SessionStart", source="startup")
        id = await terminal.is_like("idle")
        await eventually(lambda: terminal.manager.harness_processes() == {os.getpid()}, "its process is not known")
        terminal.hook("UserPromptSubmit", prompt="do it")
        terminal.idle(text="Done.")
        terminal.write(user("do it"), ago=1)
        await terminal.is_like("working")
        terminal.write(*say("Done."), ago=1)
        await terminal.is_like("idle", 1)
        assert kinds(events := await terminal.log(id)) == ["TurnStarted", "Init", "Text", "Done"]
        assert isinstance(done := events[-1], Done) and (done.status, done.text) == ("success", "Done.")


@pytest.mark.slow
async def test_what_is_asked_is_shown_until_it_begins_and_is_answered_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agree(environment(tmp_path), "qwen")
    async with reading_in(tmp_path) as terminal:
        terminal.hook("SessionStart", source="startup")
        id = await terminal.is_like("idle")
        terminal.hook("UserPromptSubmit", prompt="do it")
        terminal.hook("PermissionRequest", tool_name="run_shell_command", tool_input={"command": "ls"})
        terminal.write(user("do it"), *call(), ago=1)
        ask = await terminal.asked()
        assert (ask.action, ask.tool) == (Command("ls"), "c-1")
        with pytest.raises(Unsupported):
            await terminal.manager.steer(id, "no")
        terminal.hook("PreToolUse", tool_name="run_shell_command", tool_input={"command": "ls"}, tool_call_id="c-1")
        await eventually(lambda: not terminal.manager.asks.pending(), "it is still asked")
        await terminal.is_like("working")
        terminal.write(result("success", "success", output="a.txt"), *say("Done.", "a-2"))
        terminal.idle(text="Done.")
        await terminal.is_like("idle", 1)
        events = await terminal.log(id)
        assert kinds(events) == ["TurnStarted", "Init", "ToolUse", "Ask", "Answer", "ToolResult", "Text", "Done"]
        assert [(answer.by, answer.decision) for answer in events if isinstance(answer, Answer)] == [
            ("terminal", "allow")
        ]

        monkeypatch.setattr(qwen_terminal, "CALL_S", 0.2)
        # Of a subagent, whose calls are not in the record; an edit is drawn in its file as it is.
        (tmp_path / "a.txt").write_text("old\n")
        edit = {"file_path": str(tmp_path / "a.txt"), "old_string": "old", "new_string": "new"}
        terminal.write(user("more", id="u-2"))
        await terminal.is_like("working", 1)
        late = {"tool_name": "edit", "tool_input": edit}
        terminal.hook("PermissionRequest", **late)
        ask = await terminal.asked()
        assert isinstance(ask.action, Edit) and "-old\n+new\n" in ask.action.diff
        terminal.hook("PreToolUse", **late, tool_call_id="of-the-subagent")
        await eventually(lambda: not terminal.manager.asks.pending(), "it is still asked")


async def test_a_prompt_from_elsewhere_waits_until_the_terminal_is_idle(tmp_path: Path) -> None:
    agree(environment(tmp_path), "qwen")
    async with reading_in(tmp_path) as terminal:
        terminal.hook("SessionStart", source="startup")
        id = await terminal.is_like("idle")
        terminal.hook("UserPromptSubmit", prompt="do it")
        terminal.write(user("do it"))
        await terminal.is_like("working")
        prompt = await terminal.manager.prompt(id, "and that")
        assert not terminal.inbox.frames

        def answered(frame: dict[str, Any]) -> bytes:
            text = f'<cross_session_message from="x">\n{frame["message"]["content"]}\n</cross_session_message>\n'
            terminal.write(user(text, "notification", id="u-2"), *say("That, too.", "a-2"))
            terminal.idle(text="That, too.")
            return receipt("delivered")(frame)

        terminal.inbox.answer = answered
        terminal.write(*say("Done."))
        terminal.idle(text="Done.")
        await terminal.is_like("idle", 2)
        starts = [event for event in await terminal.log(id) if isinstance(event, TurnStarted)]
        assert [(start.prompt, start.id == prompt.id) for start in starts] == [("do it", False), ("and that", True)]


@pytest.mark.parametrize("reason", ["never agreed", "began before", "switched off", "no record of its own"])
async def test_nothing_is_read_that_may_not_be(reason: str, tmp_path: Path) -> None:
    env = environment(tmp_path)
    if reason != "never agreed":
        agree(env, "qwen")
    if reason == "switched off":
        switch(env, str(tmp_path), on=False)
    ago = 60 if reason == "began before" else 0
    async with reading_in(tmp_path, ago=ago) as terminal:
        if reason == "no record of its own":
            terminal.record = tmp_path / "secret.jsonl"
        terminal.write(user("a secret"), *say("kept"), ago=ago)
        terminal.hook("SessionStart", source="startup")
        terminal.hook("UserPromptSubmit", prompt="a secret")
        await terminal.observer.only("working")
        terminal.idle()
        await terminal.observer.only("idle")  # all is done that followed the first look
        assert not any([await terminal.log(session.id) for session in terminal.manager.sessions()])
