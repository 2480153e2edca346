"""What Qwen Code can ask, over ACP."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.asks.stage import Row, holding
from tests.asks.words import SPOKEN, lines, long, spoken

from tieline.drivers.base import McpServer
from tieline.script import AnyStep, Call, Get, Inquire, Run, Write
from tieline.testing import mcp_server

SERVERS = {"words": McpServer(command=mcp_server.command_line("speak", sys.executable, "-c", "print('said')"))}
OPTIONS: Mapping[str, Any] = {"mcp_servers": SERVERS}
ON_THE_WAY = frozenset({"permission"})


def rows(cwd: Path) -> Sequence[Row]:
    first, middle, last = SPOKEN
    old = cwd / "old.txt"
    text = "".join(f"line {number}\n" for number in range(30))
    change = {"file_path": str(old), "old_string": "line 15", "new_string": spoken("\n")}

    look = Call("read_file", {"file_path": str(old)})  # it edits nothing that it has not read

    page = {"url": f"http://127.0.0.1:9/{first}?{middle}#{last}", "prompt": "Read it"}
    bridged = {"name": "web_fetch", "arguments": page}  # tools beyond the first ones are called by another

    def row(kind: str, *steps: AnyStep, **more: Any) -> Row:
        return Row(kind=kind, replies=tuple([step] for step in steps), options=OPTIONS, **more)

    return (
        row("write", Write(str(cwd / "new.txt"), spoken("\n"))),
        row("edit", look, Call("edit", change), prepare=holding(old, text)),
        row("overwrite", look, Write(str(old), lines(60)), markers=("line 29", *SPOKEN), bidi=False),
        row("command", Run(f"echo {spoken()}")),
        row("command of many lines", Run(f"cat <<EOF\n{lines(60)}EOF"), bidi=False),
        row("long command", Run(f"echo {long()}"), bidi=False),
        row("watched command", Call("monitor", {"command": f"echo {spoken()}", "description": "Watch"})),
        row("fetch", Get(f"http://127.0.0.1:9/{first}?{middle}#{last}"), bidi=False),
        row("question", Inquire(f"{first} {spoken()}?", (middle, last))),
        row("deferred tool", Call("tool_call", bridged), bidi=False),
        row("tool of a server", Call("mcp__words__speak", {"text": spoken(), "more": {"deep": ["last-marker"]}})),
        row("plan", Call("enter_plan_mode"), Call("exit_plan_mode", {"plan": spoken("\n")}), allow=ON_THE_WAY),
    )
