"""What `allowed_tools` and `disallowed_tools` are in each agent is what the page's table says. No agent is started."""

from pathlib import Path
from typing import Any

import pytest

from tieline.api import open_session
from tieline.config import Config
from tieline.drivers import registry
from tieline.drivers.acp.policy import gemini_rules
from tieline.drivers.acp_presets import PRESETS
from tieline.drivers.base import Spec
from tieline.drivers.claude_code.launch import ClaudeCodeOptions, launch_command
from tieline.drivers.opencode.policy import is_hidden, session_rules
from tieline.drivers.pi import launch as pi
from tieline.errors import Unsupported
from tieline.policy import Policy

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
HELD = Policy("deny", "ask", "allow")
AGENTS = [name for name in registry.names(Config()) if name not in registry.NEED_OPTIONS]


def table() -> dict[str, list[str]]:
    text = PAGE.read_text().partition("## Tools by name")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): row[1:] for row in rows}


def claude(**tools: Any) -> dict[str, list[str]]:
    """Its flags for tools."""
    argv = launch_command(Spec(cwd="/place", policy=HELD, **tools), ClaudeCodeOptions(command=("claude",))).argv
    flags = [flag.partition("=") for flag in argv if flag.startswith(("--allowedTools", "--disallowedTools"))]
    return {name.removeprefix("--"): value.split(",") for name, _, value in flags}


@pytest.mark.parametrize("name", AGENTS)
def test_each_agent_that_takes_them_is_in_the_table(name: str, tmp_path: Path) -> None:
    features = registry.create(name, Config()).features
    row = table().get(name, ["refused", "", "refused"])
    assert (features.allowed_tools, features.disallowed_tools) == (row[0] != "refused", row[2] != "refused")
    for option in ("allowed_tools", "disallowed_tools"):
        if not getattr(features, option):
            options: dict[str, Any] = {"accept_unenforced": True, option: ("a_tool",)}
            with pytest.raises(Unsupported):
                open_session(name, cwd=tmp_path, config=Config(), **options)


def test_claude_codes_others_stay() -> None:
    assert "stay" in table()["claude-code"][1]
    flags = claude(allowed_tools=("Glob",), disallowed_tools=("Bash(rm *)",))
    assert "Glob" in flags["allowedTools"] and "Bash(rm *)" in flags["disallowedTools"]
    assert "Grep" not in flags["disallowedTools"], "what is not named stays"
    assert "Write" in claude(allowed_tools=("Write",))["disallowedTools"], "the policy is not widened"


def test_opencodes_others_go() -> None:
    assert "not offered" in table()["opencode"][1]
    rules = session_rules(HELD, [], allowed=("read", "write"))
    assert is_hidden(rules, "grep") and not is_hidden(rules, "read"), "what is not named goes"
    assert is_hidden(rules, "write"), "the policy is not widened"
    assert is_hidden(session_rules(HELD, [], disallowed=("bash",)), "bash")


def test_geminis_and_pis_are_hidden() -> None:
    assert "glob" in gemini_rules(PRESETS["gemini"], HELD, ("glob",))
    assert "glob" not in gemini_rules(PRESETS["gemini"], HELD, ())
    argv = pi.launch_command(["pi"], (), Spec(cwd="/place", policy=HELD, disallowed_tools=("grep",)), "/scratch").argv
    assert argv[argv.index("--exclude-tools") + 1] == "grep"
