"""What OpenHands can ask, over ACP."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.asks.stage import Row, holding
from tests.asks.words import SPOKEN, lines, long, spoken

from tieline.drivers.acp_recipes import RISK
from tieline.drivers.base import McpServer
from tieline.script import AnyStep, Call, Run, Write
from tieline.testing import mcp_server

SERVERS = {"words": McpServer(command=mcp_server.command_line("speak", sys.executable, "-c", "print('said')"))}
OPTIONS = {"mcp_servers": SERVERS}


def rows(cwd: Path) -> Sequence[Row]:
    first, middle, _ = SPOKEN
    old = cwd / "old.txt"
    text = "".join(f"line {number}\n" for number in range(30))

    def change(command: str, **fields: Any) -> AnyStep:
        return Call("file_editor", {"command": command, "path": str(old), **fields, **RISK})

    def row(kind: str, step: AnyStep, **more: Any) -> Row:
        return Row(kind=kind, replies=([step],), options=OPTIONS, **more)

    return (
        row("write", Write(str(cwd / "new.txt"), spoken("\n"))),
        row("long write", Write(str(cwd / "new.txt"), lines(60)), bidi=False),
        row("edit", change("str_replace", old_str="line 15", new_str=spoken("\n")), prepare=holding(old, text)),
        row("insertion", change("insert", insert_line=15, new_str=spoken("\n")), prepare=holding(old, text)),
        row("command", Run(f"echo {spoken()}")),
        row("command of many lines", Run(f"cat <<EOF\n{lines(60)}EOF"), bidi=False),
        row("long command", Run(f"echo {long()}"), bidi=False),
        row("input of a command", Call("terminal", {"command": spoken(), "is_input": True, **RISK}), bidi=False),
        row("reading outside", Call("file_editor", {"command": "view", "path": f"/etc/{middle}", **RISK}),
            markers=(middle,), bidi=False),
        row("subagent", Call("task", {"description": first, "prompt": spoken(), "subagent_type": "bash", **RISK}),
            withheld=True),
        row("tool of a server", Call("speak", {"text": spoken(), **RISK}), bidi=False),
    )  # fmt: skip
