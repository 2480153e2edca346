"""A policy in Claude Code's terms, what the hook says of each call, and what an ask shows. No agent is started."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import PermissionUpdate, ToolPermissionContext
from claude_agent_sdk.types import PermissionRuleValue

from tieline.drivers.claude_code.asks import ToolPermissions, answered_input
from tieline.drivers.claude_code.policy import enforce, permission_rules
from tieline.drivers.claude_code.tools import GOVERNED
from tieline.events import Answer, Ask, Choice, Command, Edit, Mcp
from tieline.policy import CAPABILITIES, Policy, every_policy

FULL = Policy("allow", "allow", "allow")
DENY = Policy("deny", "deny", "deny")
LS: dict[str, Any] = {"command": "ls"}
PAGE: dict[str, Any] = {"url": "https://example.test/a"}
SEARCH: dict[str, Any] = {"query": "weather"}
CALLS: dict[str, dict[str, Any]] = {
    "Write": {"file_path": "a", "content": "b"},
    "Edit": {"file_path": "a", "old_string": "b", "new_string": "c"},
    "NotebookEdit": {"notebook_path": "a", "new_source": "b"},
    "Bash": LS,
    "PowerShell": LS,
    "Monitor": LS,
    "WebFetch": PAGE,
    "WebSearch": SEARCH,
}
INTERACTIVE = ("AskUserQuestion", "ExitPlanMode")
MKDIR = PermissionUpdate(
    "addRules", [PermissionRuleValue("Bash", "mkdir:*"), PermissionRuleValue("Glob")], "allow",
    destination="localSettings",
)  # fmt: skip


def permissions(policy: Policy, *, user_rules: bool = False, cwd: str = "/", **more: Any) -> ToolPermissions:
    return ToolPermissions(policy, cwd, user_rules=user_rules, **more)


async def asked(
    name: str, given: dict[str, Any], *suggestions: PermissionUpdate, by: ToolPermissions | None = None, **more: Any
) -> Ask:
    context = ToolPermissionContext(suggestions=list(suggestions), **more)
    return await (by or permissions(Policy())).build_ask(name, given, {}, context)


# --- the receipt -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", every_policy(), ids=str)
def test_the_receipt_says_what_really_holds(policy: Policy) -> None:
    for user_rules, repository in product((False, True), repeat=2):
        policy_receipt = enforce(policy, user_rules=user_rules, repository=repository)
        for capability in CAPABILITIES:
            level, line, shell = policy.level(capability), policy_receipt.of(capability), capability == "shell"
            assert (line.level, line.means) == (level, "prompt" if level == "ask" else "rule")
            assert ("your own allow rules, and commands" in line.note) == (user_rules and level == "ask")
            assert ("inside a skill's text" in line.note) == (shell and level == "ask")
            assert ("the repository's own settings count" in line.note) == (shell and repository)
            by_command = level != "allow" and not shell and policy.shell != "deny"
            assert ("a permitted command can still" in line.note) == by_command
            what = "write files" if capability == "file_write" else "open connections"
            assert (what in line.note) == by_command


@pytest.mark.parametrize("policy", every_policy(), ids=str)
def test_every_governed_tool_is_allowed_denied_or_neither(policy: Policy) -> None:
    allowed, denied = permission_rules(policy)
    for capability in CAPABILITIES:
        level = policy.level(capability)
        for tool in GOVERNED[capability]:
            assert (tool in allowed, tool in denied) == (level == "allow", level == "deny")


# --- the hook --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", every_policy(), ids=str)
def test_what_the_policy_does_not_allow_is_asked_for(policy: Policy) -> None:
    """Whatever the user's rules say, unless they count: then they have a say in what is to be asked, and no more."""
    for capability in CAPABILITIES:
        for tool in GOVERNED[capability]:
            level = policy.level(capability)
            held = permissions(policy).hook_decision(tool, CALLS[tool])
            own = permissions(policy, user_rules=True).hook_decision(tool, CALLS[tool])
            if policy == FULL:
                assert (held, own) == ("allow", "allow")
            else:
                assert held == (None if level == "allow" else "ask")
                assert own == ("ask" if level == "deny" else None)


def test_the_hook_leaves_to_claude_code_what_no_line_is_about() -> None:
    for tool in INTERACTIVE:
        assert [permissions(policy).hook_decision(tool, {}) for policy in (FULL, Policy(), DENY)] == [None] * 3
    for tool in ("Read", "mcp__words__speak", "Unheard"):
        assert permissions(DENY).hook_decision(tool, {}) is None
        assert permissions(FULL).hook_decision(tool, {}) == "allow"


def test_a_governed_tool_whose_input_is_strange_is_governed() -> None:
    for tool in CALLS:
        assert permissions(Policy()).hook_decision(tool, {"new": "shape"}) == "ask"


# --- what is remembered ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, scope, rule, alike, other",
    [
        ("Edit", "all edits in this directory, this session", None, ("Write", CALLS["Write"]), ("WebFetch", PAGE)),
        (
            "WebFetch",
            "every page of example.test, this session",
            PermissionRuleValue("WebFetch", "domain:example.test"),
            ("WebFetch", {"url": "http://example.test:8080/b"}),
            ("WebFetch", {"url": "https://other.test/a"}),
        ),
        (
            "WebSearch",
            "every web search, this session",
            PermissionRuleValue("WebSearch", None),
            ("WebSearch", {"query": "news"}),
            ("WebFetch", PAGE),
        ),
    ],
)
async def test_what_is_granted_for_the_session_is_not_asked_again(
    name: str, scope: str, rule: PermissionRuleValue | None, alike: tuple[str, Any], other: tuple[str, Any]
) -> None:
    held = permissions(Policy())
    ask = await asked(name, CALLS[name], by=held)
    assert (ask.remember, ask.scopes) == (("session",), {"session": scope})
    for once in (Answer(ask.id, "allow", remember="once"), Answer(ask.id, "deny", remember="session")):
        assert held.permission_updates(name, CALLS[name], once, []) is None
        assert held.hook_decision(*alike) == "ask"
    updates = held.permission_updates(name, CALLS[name], Answer(ask.id, "allow", remember="session"), [])
    assert updates is not None
    (update,) = updates
    assert update.destination == "session"
    if rule is None:
        assert (update.type, update.mode) == ("setMode", "acceptEdits")
    else:
        assert (update.type, update.rules, update.behavior) == ("addRules", [rule], "allow")
    assert held.hook_decision(*alike) is None
    assert held.hook_decision(*other) == "ask"


async def test_a_command_is_remembered_where_asks_are_decided() -> None:
    held = permissions(Policy())
    ask = await asked("Bash", LS, MKDIR, by=held)
    assert (ask.remember, ask.scopes) == ((), {})
    assert held.permission_updates("Bash", LS, Answer(ask.id, "allow", remember="session"), [MKDIR]) is None
    assert held.hook_decision("Bash", LS) == "ask"


async def test_claude_codes_suggestions_decide_where_our_hook_does_not_ask_again() -> None:
    """Where the user's rules count, and for what no line of the policy is about."""
    speak = "mcp__words__speak"
    rule = PermissionUpdate("addRules", [PermissionRuleValue(speak)], "allow", destination="projectSettings")
    both = "Bash(mkdir:*), every Glob"
    for name, given, suggestion, what, kept, held in (
        ("Bash", LS, MKDIR, both, "kept in your settings for this project", permissions(Policy(), user_rules=True)),
        (speak, {}, rule, f"every {speak}", "kept in the project's settings", permissions(Policy())),
    ):
        ask = await asked(name, given, suggestion, by=held)
        assert ask.remember == ("session", "always")
        assert ask.scopes == {"session": f"{what}, this session", "always": f"{what}, from now on ({kept})"}
        for_ever = held.permission_updates(name, given, Answer(ask.id, "allow", remember="always"), [suggestion])
        assert for_ever == [suggestion]
        now = held.permission_updates(name, given, Answer(ask.id, "allow", remember="session"), [suggestion])
        assert now is not None
        assert [(update.destination, update.rules) for update in now] == [("session", suggestion.rules)]
        for answer in (Answer(ask.id, "allow"), Answer(ask.id, "deny", remember="always")):
            assert held.permission_updates(name, given, answer, [suggestion]) is None


async def test_what_would_be_kept_where_it_does_not_count_is_not_offered() -> None:
    mine = PermissionUpdate("addDirectories", directories=["/a", "/b"], destination="userSettings")
    session = PermissionUpdate("setMode", mode="acceptEdits", destination="session")
    own = permissions(Policy(), user_rules=True, repository=False)
    assert (await asked("Bash", LS, MKDIR, by=own)).remember == ("session",)
    assert (await asked("Bash", LS, session, by=own)).remember == ("session",)
    ask = await asked("Bash", LS, mine, mine, by=own)
    assert ask.scopes["always"] == "work in /a, /b; work in /a, /b, from now on (kept in your own settings)"


@pytest.mark.parametrize(
    "suggestion, scope",
    [
        (PermissionUpdate("setMode", mode="acceptEdits"), "all edits in this directory, and commands that make, move"),
        (PermissionUpdate("setMode", mode="plan"), "whatever the mode plan permits"),
        (PermissionUpdate("addDirectories", directories=["/tmp"]), "work in /tmp"),
        (PermissionUpdate("addRules", [PermissionRuleValue("Bash", "ls")]), "Bash(ls)"),
        (PermissionUpdate("removeDirectories", directories=["/tmp"]), "removeDirectories"),
    ],
)
async def test_each_suggestion_says_what_it_permits(suggestion: PermissionUpdate, scope: str) -> None:
    ask = await asked("Bash", LS, suggestion, by=permissions(Policy(), user_rules=True))
    assert scope in ask.scopes["session"]


# --- what an ask shows -----------------------------------------------------------------------------------------------


async def test_an_ask_says_what_claude_code_says_of_the_call(tmp_path: Path) -> None:
    by = permissions(Policy(), cwd=str(tmp_path))
    ask = await asked("Bash", LS, by=by, tool_use_id="call", decision_reason="a reason", blocked_path="/etc/passwd")
    assert (ask.id, ask.kind, ask.title, ask.tool) == ("ask-1-call", "permission", "Bash", "call")
    assert ask.reason == "a reason It concerns /etc/passwd."
    assert (ask.action, ask.capability, ask.input) == (Command("ls"), "shell", LS)
    assert (await asked("Bash", LS, by=by, tool_use_id="call", description="lists", title="ls")).reason == "lists"
    last = await asked("mcp__words__speak", {}, by=by, title="a title")
    assert (last.id, last.tool, last.reason) == ("ask-3-", "", "a title"), "each has a number of its own"
    assert (last.action, last.capability) == (Mcp("words", "speak"), None)


async def test_an_edit_is_shown_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    by = permissions(Policy(), cwd=str(tmp_path))
    ask = await asked("Edit", {"file_path": "a", "old_string": "two", "new_string": "three"}, by=by)
    assert isinstance(ask.action, Edit)
    assert (ask.action.diff.splitlines()[2:], ask.capability) == (
        ["@@ -1,2 +1,2 @@", " one", "-two", "+three"],
        "file_write",
    )
    gone = await asked("Edit", {"file_path": "a", "old_string": "x", "new_string": "y"}, by=by)
    assert "never had this text" in gone.reason and not gone.withheld
    (tmp_path / "folder").mkdir()
    hidden = await asked("Write", {"file_path": "folder", "content": "x"}, by=by)
    assert "not a regular file" in hidden.withheld
    strange = await asked("Edit", {"new": "shape"}, by=by)
    assert (strange.action, strange.capability) == (Edit(()), "file_write")


async def test_a_plan_is_the_one_of_the_call_or_of_what_the_model_wrote() -> None:
    held, context = permissions(Policy()), ToolPermissionContext(tool_use_id="call")
    ask = await held.build_ask("ExitPlanMode", {"plan": "1. Look"}, {"plan": "older"}, context)
    assert (ask.kind, ask.plan, ask.tool, ask.input) == ("plan", "1. Look", "call", {"plan": "1. Look"})
    assert (await held.build_ask("ExitPlanMode", {}, {"plan": "2. Leap"}, context)).plan == "2. Leap"
    assert (await held.build_ask("ExitPlanMode", {}, {}, context)).plan == ""


async def test_questions_and_their_answers() -> None:
    options = [{"label": "Ham", "description": "smoked"}, {"label": "Egg"}]
    given = {
        "questions": [
            {"question": "Which filling?", "header": "Filling", "options": options, "multiSelect": True},
            {"question": "How many?"},
        ]
    }
    ask = await asked("AskUserQuestion", given, tool_use_id="call")
    assert (ask.kind, ask.title, ask.tool) == ("question", "Which filling?", "call")
    filling, number = ask.questions
    assert (filling.id, filling.text, filling.header, filling.many) == ("1", "Which filling?", "Filling", True)
    assert filling.choices == (Choice("Ham", "Ham", "smoked"), Choice("Egg", "Egg", ""))
    assert (number.id, number.text, number.header, number.many, number.choices) == ("2", "How many?", "", False, ())
    answer = Answer(ask.id, "allow", answers={"1": ("Ham", "Egg")})
    assert answered_input(given, answer) == {**given, "answers": {"Which filling?": "Ham, Egg"}}
    empty = await asked("AskUserQuestion", {})
    assert (empty.title, empty.questions) == ("AskUserQuestion", ())
