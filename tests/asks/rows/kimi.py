"""What Kimi Code can ask, over ACP."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.asks.stage import Row, holding
from tests.asks.words import SPOKEN, lines, long, spoken

from tieline.drivers.base import McpServer
from tieline.script import AnyStep, Call, Inquire, Run, Write
from tieline.testing import mcp_server

SERVERS = {"words": McpServer(command=mcp_server.command_line("speak", sys.executable, "-c", "print('said')"))}
OPTIONS = {"mcp_servers": SERVERS, "accept_unenforced": True}  # it does not ask before all that it writes
COPY_PLAN = """until test -n "$plan"; do
    plan=$(grep -rho '/[^ "]*/plans/[a-z0-9-]*[.]md' ~/.kimi-code/sessions | head -1)
    test -n "$plan" || sleep 0.1
done
mkdir -p "${plan%/*}" && cp plan.md "$plan"
"""
"""Kimi alone knows the file that its plan must be in, and writes that down after a while."""
JOB = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
ON_THE_WAY = frozenset({"permission"})


def rows(cwd: Path) -> Sequence[Row]:
    first, middle, last = SPOKEN
    outside = cwd.parent / "outside"  # inside of a repository it would not ask
    outside.mkdir(exist_ok=True)
    old = outside / "old.txt"
    text = "".join(f"line {number}\n" for number in range(30))
    change = {"path": str(old), "old_string": "line 15", "new_string": spoken("\n")}
    job = {"cron": "0 9 * * *", "prompt": spoken()}

    def row(kind: str, *steps: AnyStep, **more: Any) -> Row:
        return Row(kind=kind, replies=tuple([step] for step in steps), options=OPTIONS, **more)

    return (
        row("write", Write(str(outside / "new.txt"), spoken("\n"))),
        row("edit", Call("Read", {"path": str(old)}), Call("Edit", change), prepare=holding(old, text)),
        row("command", Run(f"echo {spoken()}")),
        row("command of many lines", Run(f"cat <<EOF\n{lines(60)}EOF"), bidi=False),
        row("long command", Run(f"echo {long()}"), bidi=False),
        row("command in the background", Call("Bash", {"command": f"echo {spoken()}", "run_in_background": True,
            "description": "Later"})),
        row("command of a subagent", Call("Agent", {"description": "Speak", "prompt": "Speak."}),
            Run(f"echo {spoken()}"), withheld=True),
        row("tool of a server", Call("mcp__words__speak", {"text": spoken(), "more": {"deep": ["last-marker"]}})),
        row("scheduled prompt", Call("CronCreate", job)),
        row("end of a schedule", Call("CronDelete", {"id": JOB}), markers=(JOB,), bidi=False),
        row("end of a task", Call("TaskStop", {"task_id": f"{first}-{middle}-{last}"}), bidi=False),
        row("question", Inquire(f"{first} {spoken()}?", (middle, last))),
        row("plan", Call("EnterPlanMode"), Run(COPY_PLAN), Call("ExitPlanMode"), allow=ON_THE_WAY,
            prepare=holding(cwd / "plan.md", spoken("\n"))),
    )  # fmt: skip
