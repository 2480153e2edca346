"""What Gemini can ask, over ACP."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.asks.stage import Row, holding
from tests.asks.words import SPOKEN, lines, long, spoken

from tieline.drivers.base import McpServer
from tieline.script import AnyStep, Call, Run, Write
from tieline.testing import mcp_server

SERVERS = {"words": McpServer(command=mcp_server.command_line("speak", sys.executable, "-c", "print('said')"))}
OPTIONS: Mapping[str, Any] = {"mcp_servers": SERVERS}


def rows(cwd: Path) -> Sequence[Row]:
    old = cwd / "old.txt"
    text = "".join(f"line {number}\n" for number in range(30))
    change = {"instruction": "Change it", "file_path": str(old), "old_string": "line 15", "new_string": spoken("\n")}

    skill = cwd.parent / "home/.gemini/skills/greet/SKILL.md"  # one of the repository's is left out
    skill.parent.mkdir(parents=True, exist_ok=True)
    skill.write_text(f"---\nname: greet\ndescription: {spoken()}\n---\nSay hello.\n")

    def row(kind: str, step: AnyStep, **more: Any) -> Row:
        return Row(kind=kind, replies=([step],), options=OPTIONS, **more)

    return (
        row("replace", Call("replace", change), prepare=holding(old, text)),
        row("write", Write(str(cwd / "new.txt"), spoken("\n"))),
        row("overwrite", Write(str(old), lines(60)), markers=("line 29", *SPOKEN), bidi=False),
        row("command", Run(f"echo {spoken()}")),
        row("command of many lines", Run(f"cat <<EOF\n{lines(60)}EOF"), bidi=False),
        row("long command", Run(f"echo {long()}"), bidi=False),
        row("fetch", Call("web_fetch", {"prompt": f"Read https://example.org/a: {spoken()}"})),
        row(
            "long fetch",
            Call("web_fetch", {"prompt": f"Read https://example.org/a: {long(300)}"}),
            withheld=True,
            bidi=False,
        ),
        row("search", Call("google_web_search", {"query": spoken()})),
        row("plan mode", Call("enter_plan_mode", {"reason": spoken()})),
        row("skill", Call("activate_skill", {"name": "greet"})),
        row("tool of a server", Call("mcp_words_speak", {"text": spoken(), "more": {"deep": ["last-marker"]}})),
        row("tool of a server, long", Call("mcp_words_speak", {"text": long(600)}), withheld=True, bidi=False),
    )
