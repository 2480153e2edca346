"""Qwen Code in a real terminal: a saved rule answers what it asks, before it asks; else it asks at once."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.harnesses.person import person
from tests.more_agents.ruled_terminals import add_rules, decided_at_the_terminal, decided_by_rules

from tieline.script import Call, Get, Run, Write
from tieline.testing.harness_terminals import qwen_home

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
BY_RULE, BY_PERSON = [("rule", "allow")], [("terminal", "allow")]


async def test_a_rule_answers_before_the_terminal_asks(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await person(stack, "qwen", tmp_path, home_of=qwen_home)
        project = at.home.project
        (project / "src").mkdir()
        (project / "src/old.txt").write_text("one\n")
        await add_rules(
            at,
            project,
            ("prefix", "touch"),
            ("edit", f"{project}/src/"),
            ("host", "127.0.0.1"),
            ("exact", "touch denied", "--deny"),
        )
        terminal = await stack.enter_async_context(at.home.terminal("--approval-mode", "default"))
        ruled = await decided_by_rules(
            at,
            terminal,
            1,
            Run("touch one"),
            [Run("touch twin"), Run("touch twin")],
            Write(str(project / "src/new.txt"), "hello\n"),
            Get("http://127.0.0.1/page"),
            Run("touch denied"),
        )
        assert ruled == [*BY_RULE * 5, ("rule", "deny")]
        assert all((project / name).exists() for name in ("one", "twin", "src/new.txt"))
        assert not (project / "denied").exists()
        assert "a rule says: deny the command" in at.home.rig.heard(), "the agent hears why it was denied"
        for count, call in enumerate(
            (
                Run("touch one; touch two"),
                Call("run_shell_command", {"command": "touch x", "directory": str(project / "src")}),
                Write(str(project / "new.txt"), "hello\n"),
            ),
            start=2,
        ):
            assert await decided_at_the_terminal("qwen", at, terminal, count, call) == BY_PERSON
