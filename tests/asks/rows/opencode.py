"""What OpenCode can ask."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.asks.stage import Row, holding
from tests.asks.words import SPOKEN, lines, long, spoken

from tieline.script import AnyStep, Call, Get, Inquire, Run, Write
from tieline.testing.rigs.opencode import PATCHING


def rows(cwd: Path) -> Sequence[Row]:
    first, middle, last = SPOKEN
    old, moved, outside = cwd / "old.txt", cwd / f"{first}.txt", cwd.parent / "-".join(SPOKEN)
    text = "".join(f"    line {number}\n" for number in range(30))
    patch = (
        f"*** Begin Patch\n*** Add File: new.txt\n+added\n*** Update File: {moved}\n*** Move to: {last}.txt\n@@\n"
        f"     line 14\n-    line 15\n+    {middle}\n     line 16\n*** End Patch"
    )

    def row(kind: str, step: AnyStep, **more: Any) -> Row:
        return Row(kind=kind, replies=([step],), **more)

    return (
        row(
            "edit",
            Call("edit", {"filePath": str(old), "oldString": "line 15", "newString": spoken("\n")}),
            prepare=holding(old, text),
        ),
        row("write", Write(str(cwd / "new.txt"), spoken("\n"))),
        row("overwrite", Write(str(old), lines(60)), markers=("line 29", *SPOKEN), bidi=False),
        row("command", Run(f"echo {spoken()}")),
        row("long command", Run(f"echo {long()}"), bidi=False),
        row("fetch", Get(f"http://127.0.0.1:9/{first}?{middle}#{last}"), bidi=False),
        row(
            "outside the directory",
            Call("read", {"filePath": str(outside)}),
            prepare=holding(outside, "secret"),
            bidi=False,
        ),
        row("question", Inquire(f"{first} {spoken()}?", (middle, last))),
        row(
            "patch",
            Call("apply_patch", {"patchText": patch}),
            prepare=holding(moved, text),
            markers=("added", "    middle-marker", *SPOKEN),
            options={"model": PATCHING},
            bidi=False,
        ),
    )
