"""Which call a permission prompt of a Gemini CLI terminal asks about: its hook does not say."""

import math
from typing import Any

import pytest

from tieline.drivers.acp.tools import AcpToolCall
from tieline.harnesses.gemini.terminal import _is_about as is_about  # pyright: ignore[reportPrivateUsage]
from tieline.harnesses.terminals.hooked_terminal import HookNote

HOME = "/home/me/shop"


def call(name: str, **arguments: Any) -> AcpToolCall:
    tool = AcpToolCall(name, "c1")
    tool.name, tool.arguments = name, arguments
    return tool


RUN = call("run_shell_command", command="npm test")
WRITE = call("write_file", file_path="src/a.py")
ISSUE = call("mcp_github_get_issue")
CASES: list[tuple[dict[str, Any], AcpToolCall, bool]] = [
    ({"type": "exec", "command": "npm test"}, RUN, True),
    ({"type": "exec", "command": "npm test; rm -rf /"}, RUN, False),
    ({"type": "exec", "command": ""}, RUN, False),
    ({"type": "exec"}, RUN, False),
    ({"type": "exec", "command": ["npm test"]}, RUN, False),
    ({"type": "exec", "command": "npm test"}, WRITE, False),
    ({"type": "edit", "filePath": f"{HOME}/src/a.py"}, WRITE, True),
    ({"type": "edit", "filePath": "/etc/passwd"}, WRITE, False),
    ({"type": "edit", "filePath": "src/a.py"}, WRITE, False),
    ({"type": "edit", "filePath": f"{HOME}/src/a.py"}, RUN, False),
    ({"type": "edit"}, WRITE, False),
    ({"type": "mcp", "serverName": "github", "toolName": "get_issue"}, ISSUE, True),
    ({"type": "mcp", "serverName": "github", "toolName": "delete_issue"}, ISSUE, False),
    ({"type": "mcp", "serverName": "gitlab", "toolName": "get_issue"}, ISSUE, False),
    ({"type": "mcp", "serverName": "github"}, ISSUE, False),
    ({"type": "info", "urls": ["https://example.com"]}, RUN, True),
]


@pytest.mark.parametrize(("details", "tool", "same"), CASES)
def test_a_prompt_is_about_the_call_whose_words_it_has(details: dict[str, Any], tool: AcpToolCall, same: bool) -> None:
    assert is_about(details, tool, HOME) is same


def test_what_a_hook_says_is_not_trusted_to_be_of_any_shape() -> None:
    for given in ({}, {"details": None}, {"details": "text"}, {"details": ["a"]}):
        assert HookNote("Notification", given).fields("details") == {}
    assert HookNote("Notification", {"details": {"a": 1}}).fields("details") == {"a": 1}
    early, late = (HookNote("x", {"timestamp": f"2026-11-18T05:00:0{n}.000Z"}) for n in (1, 2))
    assert 0 < early.at < late.at and late.at - early.at == pytest.approx(1.0)
    for wrong in ({}, {"timestamp": None}, {"timestamp": "soon"}, {"timestamp": 5}):
        assert HookNote("x", wrong).at == math.inf, "of the turn that is open"
