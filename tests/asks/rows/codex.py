"""What Codex can ask."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.asks.stage import Row
from tests.asks.words import SPOKEN, long, spoken

from tieline.drivers.base import McpServer
from tieline.policy import Policy
from tieline.script import AnyStep, Call, Inquire, Run
from tieline.testing import mcp_server

CONFIG = {"features.request_permissions_tool": True, "features.exec_permission_approvals": True}
"""What it asks for only if it is told that it may."""
SERVERS = {"words": McpServer(command=mcp_server.command_line("speak", sys.executable, "-c", "print('said')"))}
OPTIONS: Mapping[str, Any] = {"mcp_servers": SERVERS}


def rows(cwd: Path) -> Sequence[Row]:
    first, middle, last = SPOKEN
    text = "".join(f"line {number}\n" for number in range(30))
    added = "".join(f"+{line}\n" for line in spoken("\n").split("\n"))
    update = f"*** Update File: old.txt\n@@\n line 14\n-line 15\n{added} line 16\n"
    move = f"*** Update File: {first}.txt\n*** Move to: {last}.txt\n@@\n-line 15\n+{middle}\n"

    def row(kind: str, step: AnyStep, options: Mapping[str, Any] = OPTIONS, **more: Any) -> Row:
        return Row(kind=kind, replies=([step],), options=options, **more)

    def patch(body: str) -> str:
        return f"*** Begin Patch\n{body}*** End Patch\n"

    def prepare(cwd: Path) -> None:
        (cwd / "old.txt").write_text(text)
        (cwd / "gone.txt").write_text(spoken("\n") + "\n")
        (cwd / f"{first}.txt").write_text(text)

    return (
        row("command", Run(f"echo {spoken()}")),
        row("long command", Run(f"echo {long()}"), bidi=False),
        row(
            "command outside the sandbox",
            Call("exec_command", {"cmd": f"echo {spoken()}", "sandbox_permissions": "require_escalated"}),
        ),
        row("patch", Call("apply_patch", {"input": patch(update)}), prepare=prepare),
        row("patch by a command", Call("exec_command", {"cmd": f"apply_patch <<'EOF'\n{patch(update)}EOF"})),
        row("new file", Call("apply_patch", {"input": patch(f"*** Add File: new.txt\n{added}")})),
        row("deleted file", Call("apply_patch", {"input": patch("*** Delete File: gone.txt\n")})),
        row("moved file", Call("apply_patch", {"input": patch(move)}), bidi=False),
        row(
            "more permissions",
            Call(
                "request_permissions",
                {"reason": spoken(), "permissions": {"network": {"enabled": True}, "file_system": {"write": ["/"]}}},
            ),
            markers=(*SPOKEN, "network"),
        ),
        row(
            "command with more permissions",
            Call(
                "exec_command",
                {
                    "cmd": f"echo {spoken()}",
                    "sandbox_permissions": "with_additional_permissions",
                    "additional_permissions": {"network": {"enabled": True}},
                },
            ),
            markers=(*SPOKEN, "network"),
            options={**OPTIONS, "policy": Policy("ask", "allow", "ask")},
        ),
        row("tool of a server", Call("speak", {"namespace": "mcp__words", "text": spoken(), "more": {"deep": [last]}})),
        row("question", Inquire(f"{first} {spoken()}?", (middle, last))),
    )
