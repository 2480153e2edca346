"""What our extension asks inside Pi."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.asks.stage import Row, holding
from tests.asks.words import SPOKEN, lines, long, spoken

from tieline.script import AnyStep, Call, Run, Write


def rows(cwd: Path) -> Sequence[Row]:
    old = cwd / "old.txt"
    text = "".join(f"line {number}\n" for number in range(30))
    change = {"path": str(old), "edits": [{"oldText": "line 15", "newText": spoken("\n")}]}

    def row(kind: str, step: AnyStep, **more: Any) -> Row:
        return Row(kind=kind, replies=([step],), **more)

    return (
        row("edit", Call("edit", change), prepare=holding(old, text)),
        row("write", Write(str(cwd / "new.txt"), spoken("\n"))),
        row("overwrite", Write(str(old), lines(60)), markers=("line 29", *SPOKEN), bidi=False),
        row("command", Run(f"echo {spoken()}")),
        row("command of many lines", Run(f"cat <<EOF\n{lines(60)}EOF"), bidi=False),
        row("long command", Run(f"echo {long()}"), bidi=False),
    )
