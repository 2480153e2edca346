"""Copilot CLI in a real terminal: a saved rule answers what it asks, before it asks; else it asks at once."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.more_agents.ruled_terminals import add_rules, decided_at_the_terminal, decided_by_rules
from tests.more_agents.test_copilot_attached import copilot

from tieline.harnesses.copilot.permission_hook_input import HOOKED
from tieline.script import Call, Get, Run, Write

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
UNHOOKED = {
    **dict.fromkeys(("view", "grep", "glob"), "no hook: what is outside of the project is asked at the terminal"),
    **dict.fromkeys(
        ("read_bash", "stop_bash", "list_bash", "ask_user", "task", "read_agent", "list_agents", "write_agent", "skill",
         "sql", "session_store_sql", "semantic_code_search", "fetch_copilot_cli_documentation"),
        "no permission is asked for",
    ),
}  # fmt: skip
"""Its tools for which no rule answers, and why."""
BY_RULE, BY_PERSON = [("rule", "allow")], [("terminal", "allow")]


async def test_a_rule_answers_before_the_terminal_asks(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await copilot(stack, tmp_path)
        project = at.home.project
        (project / "src").mkdir()
        (project / "src/old.txt").write_text("one\n")
        await add_rules(
            at,
            project,
            ("prefix", "touch"),
            ("edit", f"{project}/src/"),
            ("host", "127.0.0.1"),
            ("tool", "tieline/find_agents"),
            ("exact", "touch denied", "--deny"),
        )
        terminal = await stack.enter_async_context(at.home.terminal())
        ruled = await decided_by_rules(
            at,
            terminal,
            1,
            Run("touch one"),
            [Run("touch twin"), Run("touch twin")],
            Write(str(project / "src/new.txt"), "hello\n"),
            Call("edit", {"path": str(project / "src/old.txt"), "old_str": "one", "new_str": "two"}),
            Call("tieline-find_agents", {}),
            Run("touch denied"),
        )
        assert ruled == [*BY_RULE * 6, ("rule", "deny")]
        assert (project / "src/old.txt").read_text() == "two\n"
        assert all((project / name).exists() for name in ("one", "twin", "src/new.txt"))
        assert not (project / "denied").exists()
        assert "a rule says: deny the command" in at.home.rig.heard(), "the agent hears why it was denied"
        assert await decided_by_rules(at, terminal, 2, Get("http://127.0.0.1/page")) == BY_RULE

        # Its model is offered no tool of which the table does not say what becomes of it.
        offered = {tool["function"]["name"] for request in at.home.rig.model.requests for tool in request["tools"]}
        known = {name for tools in HOOKED.values() for name in tools} | UNHOOKED.keys()
        assert {name for name in offered if not name.startswith("tieline-")} - known == set()

        for count, call in enumerate(
            (
                Run("touch one; touch two"),
                Call("bash", {"command": "touch x", "description": "d", "mode": "async", "detach": True}),
                Call("bash", {"command": "touch x", "description": "d", "shellId": "mine"}),
                Write(str(project / "new.txt"), "hello\n"),
            ),
            start=3,
        ):
            assert await decided_at_the_terminal("copilot", at, terminal, count, call) == BY_PERSON
