"""What GitHub Copilot CLI can ask, over ACP."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.asks.stage import Row, holding
from tests.asks.words import SPOKEN, lines, long, spoken

from tieline.drivers.base import McpServer
from tieline.script import AnyStep, Call, Get, Run, Write
from tieline.testing import mcp_server

SERVERS = {"words": McpServer(command=mcp_server.command_line("speak", sys.executable, "-c", "print('said')"))}
OPTIONS: Mapping[str, Any] = {"mcp_servers": SERVERS}


def rows(cwd: Path) -> Sequence[Row]:
    first, middle, last = SPOKEN
    old = cwd / "old.txt"
    text = "".join(f"line {number}\n" for number in range(30))
    change = {"path": str(old), "old_str": "line 15", "new_str": spoken("\n")}
    in_background = {"command": f"echo {spoken()}", "description": "Scripted", "mode": "async"}

    def row(kind: str, step: AnyStep, **more: Any) -> Row:
        return Row(kind=kind, replies=([step],), options=OPTIONS, **more)

    return (
        row("write", Write(str(cwd / "new.txt"), spoken("\n"))),
        row("long write", Write(str(cwd / "long.txt"), lines(60)), bidi=False),
        row("edit", Call("edit", change), prepare=holding(old, text)),
        row("command", Run(f"echo {spoken()}")),
        row("command of many lines", Run(f"cat <<EOF\n{lines(60)}EOF"), bidi=False),
        row("long command", Run(f"echo {long()}"), bidi=False),
        row("command in the background", Call("bash", in_background)),
        row("fetch", Get(f"http://127.0.0.1:9/{first}?{middle}#{last}"), bidi=False),
        row("reading outside", Call("view", {"path": f"/etc/{first}/{middle}/{last}"}), bidi=False),
        row("tool of a server", Call("words-speak", {"text": spoken(), "more": {"deep": ["last-marker"]}})),
    )
