"""What Mistral Vibe can ask, over ACP."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.asks.stage import Row, holding
from tests.asks.words import SPOKEN, lines, long, spoken

from tieline.drivers.base import McpServer
from tieline.script import AnyStep, Call, Inquire, Run, Write
from tieline.testing import mcp_server

SERVERS = {"words": McpServer(command=mcp_server.command_line("speak", sys.executable, "-c", "print('said')"))}
OPTIONS = {"mcp_servers": SERVERS}


def program(function: str, **given: Any) -> AnyStep:
    """A program of the model's that uses one tool."""
    return Call("run_typescript", {"code": f"return await tools.{function}({msgspec.json.encode(given).decode()})"})


def rows(cwd: Path) -> Sequence[Row]:
    first, middle, last = SPOKEN
    old = cwd / "old.txt"
    text = "".join(f"line {number}\n" for number in range(30))
    change = {"file_path": str(old), "old_string": "line 15", "new_string": spoken("\n")}
    everywhere = {"file_path": str(old), "old_string": "line", "new_string": first, "replace_all": True}

    def row(kind: str, step: AnyStep, **more: Any) -> Row:
        return Row(kind=kind, replies=([step],), options=OPTIONS, **more)

    return (
        row("write", Write(str(cwd / "new.txt"), spoken("\n"))),
        row("edit", Call("edit", change), prepare=holding(old, text)),
        row("edit everywhere", Call("edit", everywhere), prepare=holding(old, text),
            markers=(f"{first} 0", f"{first} 29"), bidi=False),
        row("overwrite", Write(str(old), lines(60)), prepare=holding(old, text), markers=("line 29", *SPOKEN),
            bidi=False),
        row("command", Run(f"echo {spoken()}")),
        row("command of many lines", Run(f"cat <<EOF\n{lines(60)}EOF"), bidi=False),
        row("long command", Run(f"echo {long()}"), bidi=False),
        row("command in the background", program("process.start", command=f"echo {first} {middle}", env={"X": last}),
            bidi=False),
        row("tool of a server", program("mcp_words.speak", text=spoken(), more={"deep": ["last-marker"]})),
        row("reading outside", Call("read_file", {"path": f"/etc/{first}-{middle}-{last}"}), bidi=False),
        row("question", Inquire(f"{first} {spoken()}?", (middle, last))),
    )  # fmt: skip
