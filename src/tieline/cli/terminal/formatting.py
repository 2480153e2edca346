"""How values are shown: ids, times, directories, JSON."""

import os
import sys
import time
from shutil import get_terminal_size
from typing import Any

import msgspec

from ...environment import variable
from ...ids import ID_LENGTH, short_id


def print_json(value: Any) -> None:
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def on_terminal() -> bool:
    return sys.stdout.isatty() and variable("TERM") not in ("", "dumb")


def listed_id(id: str) -> str:
    """As a list on a terminal shows it; whoever chose one of their own sees it whole, and so does a program."""
    return short_id(id) if on_terminal() and len(id) == ID_LENGTH else id


def print_words(text: str, indent: int = 0) -> None:
    """Sentences; a terminal's lines end between words. `indent` is that of what goes on in another line."""
    if on_terminal():
        import textwrap

        columns, more = get_terminal_size().columns, " " * indent
        lines = (
            textwrap.fill(line, columns, subsequent_indent=more, break_long_words=False, break_on_hyphens=False)
            for line in text.splitlines()
        )
        text = "\n".join(lines)
    print(text)


def counted(number: int, singular: str, plural: str = "") -> str:
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"


def time_ago(at: float, now: float | None = None) -> str:
    passed = max(0.0, (time.time() if now is None else now) - at)
    for limit, size, unit in ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h")):
        if passed < limit:
            return f"{int(passed // size)}{unit}"
    return f"{int(passed // 86400)}d"


def short_path(path: str) -> str:
    """A path with `~` for the home directory."""
    home = os.path.expanduser("~")  # noqa: PTH111 (a string is all that is wanted)
    return f"~{path[len(home) :]}" if home != "/" and (path == home or path.startswith(f"{home}/")) else path
