"""What Auggie can ask, over ACP."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.asks.stage import Row, holding
from tests.asks.words import SPOKEN, lines, long, spoken

from tieline.script import AnyStep, Call, Get, Run, Write


def rows(cwd: Path) -> Sequence[Row]:
    first, middle, last = SPOKEN
    old = cwd / "old.txt"
    text = "".join(f"line {number}\n" for number in range(30))
    entry = {"old_str": "line 15\n", "new_str": spoken("\n"), "old_str_start_line_number": 16,
             "old_str_end_line_number": 16}  # fmt: skip
    change = {"command": "str_replace", "path": str(old), "str_replace_entries": [entry]}
    added = {"insert_line": 15, "new_str": spoken("\n")}
    insert = {"command": "insert", "path": str(old), "insert_line_entries": [added]}
    patch = f"*** Begin Patch\n*** Add File: new.txt\n+{first}\n+{middle}\n+{last}\n*** End Patch"

    def row(kind: str, step: AnyStep, **more: Any) -> Row:
        return Row(kind=kind, replies=([step],), **more)

    return (
        row("write", Write(str(cwd / "new.txt"), spoken("\n"))),
        row("long write", Write(str(cwd / "new.txt"), lines(60)), bidi=False),
        row("edit", Call("str-replace-editor", change), prepare=holding(old, text)),
        row("insertion", Call("str-replace-editor", insert), prepare=holding(old, text)),
        row("patch", Call("apply_patch", {"input": patch}), bidi=False),
        row("deleted files", Call("remove-files", {"file_paths": [first, middle, last]}), bidi=False),
        row("command", Run(f"echo {spoken()}")),
        row("command of many lines", Run(f"cat <<EOF\n{lines(60)}EOF"), bidi=False),
        row("long command", Run(f"echo {long()}"), bidi=False),
        row("input of a command", Call("write-process", {"terminal_id": 1, "input_text": spoken()})),
        row("fetch", Get(f"http://127.0.0.1:9/{first}?{middle}#{last}"), bidi=False),
    )
