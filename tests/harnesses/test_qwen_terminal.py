"""Qwen Code's terminals, read along: what their record and their hooks tell, in whatever order it comes, and what may
not be read."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Mapping
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
from tieline.events import Answer, Ask, Command, Done, Edit, Event, ToolResult, TurnStarted
from tieline.harnesses.attach_consent import CurrentConsent, agree, switch
from tieline.harnesses.qwen import terminal as qwen_terminal
from tieline.harnesses.qwen.connector import QwenConnector
from tieline.harnesses.terminals import hooked_terminal
from tieline.sessions.ask_rules import AskRule
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

    async def permission(self, name: str, input: dict[str, Any], **more: Any) -> str:
        """The hook before a permission prompt: what it prints."""
        common = {"session_id": SESSION, "transcript_path": str(self.record), "cwd": str(self._home)}
        asked = {**common, "hook_event_name": "PermissionRequest", "timestamp": now(), "permission_mode": "default"}
        asked |= {"tool_name": name, "tool_input": input, **more}
        self.reach.on_hook(SESSION, "PermissionRequest", asked, 0)
        return await self.reach.answer_prompt(SESSION, asked, 0)

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
        assert await terminal.permission("run_shell_command", {"command": "ls"}) == ""
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
        assert await terminal.permission("edit", edit) == ""
        ask = await terminal.asked()
        assert isinstance(ask.action, Edit) and "-old\n+new\n" in ask.action.diff
        terminal.hook("PreToolUse", tool_name="edit", tool_input=edit, tool_call_id="of-the-subagent")
        await eventually(lambda: not terminal.manager.asks.pending(), "it is still asked")


ALLOWED = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}
HOOKED: Mapping[str, tuple[dict[str, Any], tuple[str, str] | None]] = {
    "run_shell_command": ({"command": "ls -l", "description": "d", "is_background": False}, ("prefix", "ls")),
    "monitor": ({"command": "ls -l", "description": "d"}, ("exact", "ls -l")),
    "write_file": ({"file_path": "{home}/src/a.txt", "content": "x\n"}, ("edit", "{home}/src/")),
    "edit": ({"file_path": "{home}/b.txt", "old_string": "b", "new_string": "c"}, ("edit", "{home}/b.txt")),
    "notebook_edit": (
        {"notebook_path": "{home}/src/a.ipynb", "cell_id": "1", "new_source": "x"},
        ("edit", "{home}/src/a.ipynb"),
    ),
    "read_file": ({"file_path": "/srv/a.txt", "limit": 5, "offset": 0}, ("read", "/srv/a.txt")),
    "web_fetch": ({"url": "https://api.example.com/x", "prompt": "p"}, ("host", ".example.com")),
    "mcp__github__get_issue": ({"number": 1}, ("tool", "github/get_issue")),
    **dict.fromkeys(("agent", "skill", "tool_call", "artifact", "display_image", "list_directory"), ({"a": "b"}, None)),
    "ask_user_question": ({"questions": []}, None),
    "exit_plan_mode": ({"plan": "Run `ls -l`"}, None),
}
"""Each tool about which the hook asks, with an input, and a rule that answers; None: none ever does."""
LEAVES_IT: Mapping[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "another directory": ("run_shell_command", {"command": "ls"}, {"cwd": "/srv"}),
    "a directory of the call's own": ("run_shell_command", {"command": "ls", "directory": "/srv"}, {}),
    "a field nobody knows": ("run_shell_command", {"command": "ls", "sandbox": False}, {}),
    "two commands": ("run_shell_command", {"command": "ls; ls"}, {}),
    "its plan mode": ("run_shell_command", {"command": "ls"}, {"permission_mode": "plan"}),
    "an input that is none": ("run_shell_command", {"command": ["ls"]}, {}),
    "a link that leads away": ("write_file", {"file_path": "{home}/src/link/a.txt", "content": "x"}, {}),
}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, rules are looked at to the end, unless a test says otherwise."""
    monkeypatch.setattr(hooked_terminal, "RULES_S", 60.0)


def placed(value: Any, home: Path) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value).replace(b"{home}", str(home).encode()))


@asynccontextmanager
async def in_a_turn(home: Path, *rules: AskRule) -> AsyncGenerator[tuple[Reading, str], None]:
    """With the id of its session."""
    (home / "src").mkdir()
    (home / "b.txt").write_text("b\n")
    cell: dict[str, Any] = {"cell_type": "code", "id": "1", "metadata": {}, "outputs": [], "source": "y"}
    (home / "src/a.ipynb").write_bytes(msgspec.json.encode({"cells": [cell], "nbformat": 4, "nbformat_minor": 5}))
    agree(environment(home), "qwen")
    async with reading_in(home) as terminal:
        await terminal.manager.rules.keep_joined("hub", rules)
        terminal.hook("SessionStart", source="startup")
        id = await terminal.is_like("idle")
        terminal.hook("UserPromptSubmit", prompt="do it")
        terminal.write(user("do it"), ago=1)
        await terminal.is_like("working")
        yield terminal, id


@pytest.mark.parametrize("tool", HOOKED)
async def test_what_a_rule_answers_before_the_terminal_asks(
    tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qwen_terminal, "CALL_S", 0.2)
    input, rule = placed(HOOKED[tool], tmp_path)
    match, pattern = rule or ("prefix", "ls")
    async with in_a_turn(tmp_path, AskRule(id="r", match=match, pattern=pattern, directory=str(tmp_path))) as (at, id):
        printed = await at.permission(tool, input)
        if rule is None:
            assert printed == ""
            await at.asked()
            return
        assert msgspec.json.decode(printed)["hookSpecificOutput"]["decision"]["behavior"] == "allow"
        await eventually_told(at, id, [("rule", "allow", "")])
        assert not at.manager.asks.pending()


async def eventually_told(at: Reading, id: str, answers: list[tuple[str, str, str]]) -> None:
    told: list[tuple[str, str, str]] = []
    async with asyncio.timeout(30):
        while answers != told:
            await asyncio.sleep(0.05)
            told = [(one.by, one.decision, one.tool) for one in await at.log(id) if isinstance(one, Answer)]


async def test_what_a_rule_decided_is_told_once_with_its_call_however_late_the_record_is(tmp_path: Path) -> None:
    rules = (
        AskRule(id="r1", match="exact", pattern="ls"),
        AskRule(id="r2", match="exact", pattern="rm a", decision="deny", made_by="anna"),
    )
    async with in_a_turn(tmp_path, *rules) as (at, id):
        assert msgspec.json.decode(await at.permission("run_shell_command", {"command": "ls"})) == {
            "hookSpecificOutput": {
                "hookEventName": "PermissionRequest",
                "decision": {
                    "behavior": "allow",
                    "message": "a rule says: allow the command `ls`, exactly, in every directory",
                },
            }
        }
        at.hook("PreToolUse", tool_name="run_shell_command", tool_input={"command": "ls"}, tool_call_id="c-1")
        at.write(*call(), ago=1)
        await eventually_told(at, id, [("rule", "allow", "c-1")])
        denied = msgspec.json.decode(await at.permission("run_shell_command", {"command": "rm a"}))
        assert denied["hookSpecificOutput"]["decision"]["behavior"] == "deny"
        assert "made by anna" in denied["hookSpecificOutput"]["decision"]["message"]
        at.write(result("success", "success", output="a.txt"), *say("Done.", "a-2"))
        at.idle(text="Done.")
        await at.is_like("idle", 1)
        assert kinds(await at.log(id))[:5] == ["TurnStarted", "Init", "ToolUse", "Answer", "ToolResult"]


async def test_what_a_rule_decided_is_told_before_what_became_of_it_when_the_record_comes_at_once(
    tmp_path: Path,
) -> None:
    async with in_a_turn(tmp_path, AskRule(id="r", match="exact", pattern="ls", decision="deny")) as (at, id):
        assert await at.permission("run_shell_command", {"command": "ls"})
        denied = result("error", "not_started", error="a rule says no")
        denied["toolCallResult"]["errorType"] = "execution_denied"
        at.write(*call(), denied, *say("Done.", "a-2"))
        at.idle(text="Done.")
        await at.is_like("idle", 1)
        told = await at.log(id)
        assert kinds(told) == ["TurnStarted", "Init", "ToolUse", "Answer", "ToolResult", "Text", "Done"]
        assert isinstance(refused := told[4], ToolResult) and refused.status == "denied"
        assert isinstance(done := told[-1], Done) and done.status == "success"


@pytest.mark.parametrize("why", LEAVES_IT)
async def test_what_no_rule_answers_the_terminal_asks(
    tmp_path: Path, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qwen_terminal, "CALL_S", 0.2)
    (tmp_path / "elsewhere").mkdir()
    rules = (
        AskRule(id="r1", match="prefix", pattern="ls", directory=str(tmp_path)),
        AskRule(id="r2", match="edit", pattern=f"{tmp_path}/src/"),
    )
    async with in_a_turn(tmp_path, *rules) as (at, _):
        (tmp_path / "src/link").symlink_to(tmp_path / "elsewhere")
        tool, input, more = placed(LEAVES_IT[why], tmp_path)
        assert await at.permission(tool, input, **more) == ""
        await at.asked()


async def test_rules_that_are_looked_at_for_too_long_let_the_terminal_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And allow nothing afterwards."""
    monkeypatch.setattr(hooked_terminal, "RULES_S", 0.1)
    monkeypatch.setattr(qwen_terminal, "CALL_S", 0.2)
    async with in_a_turn(tmp_path, AskRule(id="r", match="exact", pattern="ls")) as (at, id):
        never = asyncio.Event()

        async def rules() -> list[AskRule]:
            await never.wait()
            return []

        monkeypatch.setattr(at.manager.rules, "rules", rules)
        assert await at.permission("run_shell_command", {"command": "ls"}) == ""
        await at.asked()
        never.set()
        assert not [event for event in await at.log(id) if isinstance(event, Answer)]


async def test_without_consent_no_rule_answers(tmp_path: Path) -> None:
    env = environment(tmp_path)
    async with in_a_turn(tmp_path, AskRule(id="r", match="exact", pattern="ls")) as (at, _):
        switch(env, str(tmp_path), on=False)
        assert await at.permission("run_shell_command", {"command": "ls"}) == ""


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
