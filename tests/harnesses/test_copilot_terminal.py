"""Copilot CLI's terminals, read along: what they ask, and what a rule says before they ask. The inputs of the hook and
the events of the record are as Copilot 1.0.102 wrote them."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harnesses.test_gemini_connector import environment, harness_process, now
from tests.harnesses.told_sessions import ToldSessions

from tieline.bus import open_bus
from tieline.config import Config
from tieline.events import Answer, Ask, Edit, Event
from tieline.harnesses.attach_consent import CurrentConsent, agree, switch
from tieline.harnesses.copilot import permission_hook_input
from tieline.harnesses.copilot.connector import CopilotConnector
from tieline.harnesses.copilot.permission_hook_input import HOOKED, POLICIES
from tieline.harnesses.terminals import hooked_terminal
from tieline.sessions.ask_rules import AskRule
from tieline.sessions.attacher import Attacher
from tieline.sessions.manager import SessionManager
from tieline.testing.wait_for import eventually

SESSION = "11111111-2222-3333-4444-555555555555"
DIFF = (
    "\ndiff --git a{path} b{path}\nindex 0000000..0000000 100644\n--- a{path}\n+++ b{path}\n@@ -1,1 +1,1 @@\n-a\n+b\n"
)
CASES: Mapping[str, tuple[dict[str, Any], str, dict[str, Any], tuple[str, str]]] = {
    "bash": (
        {"command": "ls -l", "description": "d", "mode": "sync", "initial_wait": 30},
        "bash",
        {"command": "ls -l"},
        ("prefix", "ls"),
    ),
    "create": (
        {"path": "{home}/src/a.txt", "file_text": "x\n"},
        "edit",
        {"file_path": "{home}/src/a.txt", "diff": DIFF.replace("{path}", "{home}/src/a.txt")},
        ("edit", "{home}/src/"),
    ),
    "edit": (
        {"path": "b.txt", "old_str": "a", "new_str": "b"},
        "edit",
        {"file_path": "{home}/b.txt", "diff": DIFF.replace("{path}", "{home}/b.txt")},
        ("edit", "{home}/b.txt"),
    ),
    "web_fetch": (
        {"url": "https://api.example.com/x", "max_length": 9, "raw": True, "start_index": 0},
        "web_fetch",
        {"url": "https://api.example.com/x"},
        ("host", ".example.com"),
    ),
    "my-github-get_issue": ({"number": 1}, "my-github/get_issue", {"number": 1}, ("tool", "my-github/get_issue")),
}
"""Each tool that the hook asks about: its arguments in the record, what the hook calls it and tells, and a rule."""
LEAVES_IT: Mapping[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "what goes on after its end": ("bash", {"mode": "async", "detach": True}, {}, {}),
    "a shell that may be elsewhere": ("bash", {"shellId": "mine"}, {}, {}),
    "a mode that nobody knows": ("bash", {"mode": "elsewhere"}, {}, {}),
    "a field that nobody knows": ("bash", {"sandbox": False}, {}, {}),
    "two commands": ("bash", {"command": "ls -l; ls"}, {"command": "ls -l; ls"}, {}),
    "another call than that of the record": ("bash", {}, {"command": "ls -a"}, {}),
    "more than the record has": ("bash", {}, {"command": "ls -l", "cwd": "/srv"}, {}),
    "another directory": ("bash", {}, {}, {"cwd": "/srv"}),
    "a subagent's": ("bash", {}, {}, {"agentId": "a"}),
    "another file": ("create", {}, {"file_path": "{home}/src/b.txt", "diff": ""}, {}),
    "a link that leads away": (
        "create", {"path": "{home}/src/link/a.txt"}, {"file_path": "{home}/src/link/a.txt", "diff": ""}, {},
    ),
    "where an address has sent it on": ("web_fetch", {}, {"url": "https://b.example.com/x"}, {}),
    "a server of a longer name": ("my-github-get_issue", {}, {}, {"toolName": "my/github/get_issue"}),
    "an unknown tool": ("bash", {}, {}, {"toolName": "store_memory"}),
}  # fmt: skip
"""What no rule answers: the tool, and what is other than in CASES: in the record, in the hook's input, beside it."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, rules are looked at to the end, unless a test says otherwise."""
    monkeypatch.setattr(hooked_terminal, "RULES_S", 60.0)


def placed(value: Any, home: Path) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value).replace(b"{home}", str(home).encode()))


class Reading:
    """A hub that reads a terminal along."""

    def __init__(self, manager: SessionManager, reach: CopilotConnector) -> None:
        self.manager = manager
        self.reach = reach

    async def is_like(self, status: str, turns: int = 0) -> None:
        await eventually(
            lambda: [(one.status, one.turns) for one in self.manager.sessions()] == [(status, turns)],
            f"no session is {status} after {turns} turns: {self.manager.sessions()}",
        )


@asynccontextmanager
async def reading_in(home: Path) -> AsyncGenerator[Reading, None]:
    env = environment(home)
    async with (
        open_bus(f"sqlite://{home / 'bus.db'}") as bus,
        SessionManager(bus, Config(environ=env), node="here") as manager,
    ):
        reach = CopilotConnector(env)
        reach.attacher = Attacher(manager, CurrentConsent(env))
        async with reach.open(ToldSessions()):
            yield Reading(manager, reach)


class Terminal:
    def __init__(self, home: Path, hook: int, reading: Reading) -> None:
        self.home = home
        self.reading = reading
        self.process = hook
        self._numbers = iter(range(1000))
        self.folder = home / ".copilot/session-state" / SESSION
        self.folder.mkdir(parents=True)
        start = {"sessionId": SESSION, "startTime": now(), "context": {"cwd": str(home)}}
        self.write("session.start", start)

    def write(self, kind: str, data: dict[str, Any]) -> None:
        line = {"type": kind, "id": f"id-{next(self._numbers)}", "timestamp": now(), "data": data}
        with (self.folder / "events.jsonl").open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")

    def calls(self, *calls: tuple[str, str, dict[str, Any]], text: str = "") -> None:
        """By their ids, tools and arguments."""
        requests = [{"toolCallId": id, "name": name, "arguments": given} for id, name, given in calls]
        data = {"messageId": f"m-{next(self._numbers)}", "content": text, "model": "m", "toolRequests": requests}
        self.write("assistant.message", data)

    def hook(self, event: str, **more: Any) -> None:
        input = {"sessionId": SESSION, "timestamp": 1, "cwd": str(self.home), "hook_event_name": event, **more}
        self.reading.reach.on_hook(SESSION, event, input, self.process)

    async def permission(self, tool: str, input: dict[str, Any], **more: Any) -> str:
        """The hook before a permission prompt: what it prints."""
        asked = {"sessionId": SESSION, "cwd": str(self.home), "toolName": tool, "toolInput": input, **more}
        return await self.reading.reach.answer_prompt(SESSION, asked, self.process)

    def asks(self, id: str, call: str, **more: Any) -> None:
        request = {"kind": "shell", "toolCallId": call, "fullCommandText": "ls -l"}
        self.write("permission.requested", {"requestId": id, "permissionRequest": request, **more})

    def decides(self, id: str, kind: str = "approved", **more: Any) -> None:
        self.write("permission.completed", {"requestId": id, "result": {"kind": kind}, **more})

    def ends(self, *calls: str) -> None:
        for call in calls:
            self.write("tool.execution_complete", {"toolCallId": call, "success": True, "result": {"content": "out"}})
        self.calls(text="Done.")
        self.write("assistant.turn_end", {})

    async def has_answers(self, *wanted: tuple[str, str, str]) -> None:
        """Who decided what about which call, once the log has it."""
        known: list[tuple[str, str, str]] = []
        async with asyncio.timeout(30):
            while known != list(wanted):
                await asyncio.sleep(0.05)
                known = answers(await self.log())

    async def log(self) -> list[Event]:
        id = self.reading.manager.sessions()[0].id
        return [entry.event async for entry in self.reading.manager.events(id, follow=False)]


def kinds(told: list[Event]) -> list[str]:
    return [type(event).__name__ for event in told]


def answers(told: list[Event]) -> list[tuple[str, str, str]]:
    return [(event.by, event.decision, event.tool) for event in told if isinstance(event, Answer)]


@asynccontextmanager
async def in_a_turn(home: Path, *rules: AskRule) -> AsyncGenerator[Terminal, None]:
    async with harness_process() as (_, hook), turn_of(hook, home, *rules) as terminal:
        yield terminal


@asynccontextmanager
async def turn_of(hook: int, home: Path, *rules: AskRule) -> AsyncGenerator[Terminal, None]:
    (home / "src").mkdir()
    (home / "b.txt").write_text("a\n")
    agree(environment(home), "copilot")
    async with reading_in(home) as reading:
        await reading.manager.rules.keep_joined("hub", rules)
        terminal = Terminal(home, hook, reading)
        terminal.hook("userPromptSubmitted", prompt="do it")
        terminal.write("user.message", {"content": "do it"})
        await reading.is_like("working")
        yield terminal


def rule(home: Path, match: Any, pattern: str) -> AskRule:
    return AskRule(id="r", match=match, pattern=placed(pattern, home), directory=str(home), made_by="anna")


@pytest.mark.parametrize("tool", CASES)
async def test_what_a_rule_answers_before_the_terminal_asks(tmp_path: Path, tool: str) -> None:
    given, hooked, input, (match, pattern) = placed(CASES[tool], tmp_path)
    async with in_a_turn(tmp_path, rule(tmp_path, match, pattern)) as terminal:
        deciding = asyncio.create_task(terminal.permission(hooked, input))
        await asyncio.sleep(0)  # the record is late
        terminal.calls(("c-1", tool, given))
        printed = msgspec.json.decode(await deciding)
        assert printed["behavior"] == "allow" and "made by anna" in printed["message"]
        terminal.asks("r-1", "c-1", resolvedByHook=True)
        terminal.decides("r-1")
        terminal.ends("c-1")
        await terminal.reading.is_like("idle", 1)
        told = await terminal.log()
        assert kinds(told) == ["TurnStarted", "Init", "ToolUse", "Answer", "ToolResult", "Text", "Done"]
        assert answers(told) == [("rule", "allow", "c-1")]


def test_every_tool_that_the_hook_may_tell_of_has_a_case() -> None:
    assert {name for tools in HOOKED.values() for name in tools} == {name for name in CASES if "github" not in name}


@pytest.mark.parametrize("why", LEAVES_IT)
async def test_what_no_rule_answers_the_terminal_asks(
    tmp_path: Path, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooked_terminal, "RULES_S", 1.0)
    tool, *others = placed(LEAVES_IT[why], tmp_path)
    given, hooked, input, (match, pattern) = placed(CASES[tool], tmp_path)
    (tmp_path / "elsewhere").mkdir()
    async with in_a_turn(tmp_path, rule(tmp_path, match, pattern)) as terminal:
        (tmp_path / "src/link").symlink_to(tmp_path / "elsewhere")
        terminal.calls(("c-1", tool, {**given, **others[0]}))
        more = {"toolName": hooked, **others[2]}
        assert await terminal.permission(more.pop("toolName"), {**input, **others[1]}, **more) == ""
        assert answers(await terminal.log()) == []


async def test_a_call_is_answered_once_and_what_is_asked_about_it_next_is_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the same command outside of the sandbox."""
    async with in_a_turn(tmp_path, rule(tmp_path, "prefix", "ls")) as terminal:
        pending = terminal.reading.manager.asks.pending
        terminal.calls(("c-1", "bash", {"command": "ls -l"}), ("c-2", "bash", {"command": "ls -l"}))
        assert [bool(await terminal.permission("bash", {"command": "ls -l"})) for _ in range(2)] == [True, True]
        monkeypatch.setattr(hooked_terminal, "RULES_S", 0.3)
        assert await terminal.permission("bash", {"command": "ls -l"}) == ""
        terminal.asks("r-1", "c-1", resolvedByHook=True)
        terminal.decides("r-1")
        terminal.asks("r-2", "c-1")
        await eventually(lambda: len(pending()) == 1, "it is not asked")
        terminal.decides("r-2", "denied-interactively-by-user", toolCallId="c-1")
        await terminal.has_answers(("rule", "allow", "c-1"), ("rule", "allow", "c-2"), ("terminal", "deny", "c-1"))
        assert not pending()


async def test_in_the_sandbox_a_rule_allows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook does not tell that something shall leave it. What a rule denies is denied there, too."""
    async with in_a_turn(tmp_path, rule(tmp_path, "prefix", "ls")) as terminal:
        terminal.calls(("c-1", "bash", {"command": "ls -l"}))
        (terminal.folder / POLICIES).mkdir()
        assert await terminal.permission("bash", {"command": "ls -l"}) == ""
        denies = AskRule(id="r2", match="prefix", pattern="rm", decision="deny")
        await terminal.reading.manager.rules.keep_joined("hub", (denies,))
        terminal.calls(("c-2", "bash", {"command": "rm a"}))
        assert msgspec.json.decode(await terminal.permission("bash", {"command": "rm a"}))["behavior"] == "deny"

    record = terminal.folder / "events.jsonl"
    (terminal.folder / POLICIES).rmdir()
    here = os.getpid()
    assert not permission_hook_input.in_sandbox(record, here, here)
    assert permission_hook_input.in_sandbox(record, 2**22 + 1, here), "a process that cannot be looked at"
    monkeypatch.setattr(os, "readlink", str)
    assert permission_hook_input.in_sandbox(record, here, os.getppid())


async def test_a_hook_of_somebody_else_is_told_as_an_answer_at_the_terminal(tmp_path: Path) -> None:
    """And what a rule answered is not asked once more when a hub reads the turn from its beginning."""
    async with in_a_turn(tmp_path) as terminal:
        terminal.calls(("c-1", "bash", {"command": "ls -l"}))
        assert await terminal.permission("bash", {"command": "ls -l"}) == ""
        terminal.asks("r-1", "c-1", resolvedByHook=True)
        await eventually(lambda: bool(terminal.reading.manager.asks.pending()), "it is not shown")
        terminal.decides("r-1", "denied-by-permission-request-hook")
        await terminal.has_answers(("terminal", "deny", "c-1"))
        assert not terminal.reading.manager.asks.pending()


async def test_a_hub_that_comes_back_in_the_turn_tells_nothing_twice(tmp_path: Path) -> None:
    async with harness_process() as (_, hook):
        async with turn_of(hook, tmp_path, rule(tmp_path, "prefix", "ls")) as terminal:
            terminal.calls(("c-1", "bash", {"command": "ls -l"}))
            assert await terminal.permission("bash", {"command": "ls -l"})
            terminal.asks("r-1", "c-1", resolvedByHook=True)
            terminal.decides("r-1")
        async with reading_in(tmp_path) as reading:
            terminal.reading = reading
            await reading.is_like("working")
            terminal.ends("c-1")
            await reading.is_like("idle", 1)
            told = await terminal.log()
            assert not [event for event in told if isinstance(event, Ask)]
            assert answers(told) == [("rule", "allow", "c-1")]


async def test_without_consent_no_rule_answers(tmp_path: Path) -> None:
    async with in_a_turn(tmp_path, rule(tmp_path, "prefix", "ls")) as terminal:
        terminal.calls(("c-1", "bash", {"command": "ls -l"}))
        switch(environment(tmp_path), str(tmp_path), on=False)
        assert await terminal.permission("bash", {"command": "ls -l"}) == ""


async def test_what_a_rule_decided_about_an_edit_is_kept_with_its_change(tmp_path: Path) -> None:
    given, hooked, input, (match, pattern) = placed(CASES["create"], tmp_path)
    async with in_a_turn(tmp_path, rule(tmp_path, match, pattern)) as terminal:
        terminal.calls(("c-1", "create", given))
        assert await terminal.permission(hooked, input)
        id = terminal.reading.manager.sessions()[0].id
        following = terminal.reading.manager.events(id, follow=True)
        answer = await anext(entry.event async for entry in following if isinstance(entry.event, Answer))
        assert isinstance(answer, Answer)
        kept, _ = await terminal.reading.manager.asks.get(answer.ask)
        assert isinstance(kept.ask.action, Edit) and kept.ask.action.diff.endswith("@@ -1,1 +1,1 @@\n-a\n+b\n")
