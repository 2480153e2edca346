"""What the verbs over a hub share: the call itself, ids that people type in part, and how things are listed."""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..client.client import Client, connect
from ..environment import inherited, variable
from ..errors import UsageError
from ..protocol.views import CommandView, NodeView
from ..sessions.records import AskRecord, SessionRecord
from .errors import say
from .terminal.sanitize import one_line

T = TypeVar("T")
Cell = str | tuple[str, str]
"""Text, or text and its style."""

SHORT = 6
"""Characters of an id's end that are shown: its beginning is the time, and alike in all of today's."""
MOST = 5
"""Candidates that are named when an id could mean several."""
GAP = 3
"""Cells between two columns of a table."""


def call(work: Callable[[Client], Awaitable[int]]) -> int:
    """Do it with the hub that is meant. Raises NoHub and what the hub refuses."""

    async def inside() -> int:
        async with connect(inherited()) as client:
            return await work(client)

    return asyncio.run(inside())


def short(id: str) -> str:
    return id[-SHORT:]


def pick(what: str, given: str, found: Sequence[T], key: Callable[[T], str]) -> T:
    """The one whose id begins or ends so. Raises UsageError when there is none, or more than one."""
    whole = [one for one in found if key(one) == given]
    part = whole or [one for one in found if key(one).startswith(given) or key(one).endswith(given)]
    if len(part) == 1 and given:
        return part[0]
    if not part or not given:
        raise UsageError(f"no {what} {given!r}", field=what, hint=f"`tieline {what}s` lists them." if found else "")
    names = ", ".join(key(one) for one in part[:MOST]) + (" …" if len(part) > MOST else "")
    raise UsageError(f"{given!r} could be {len(part)} {what}s", field=what, hint=f"Say more of it: {names}")


async def session(client: Client, given: str) -> SessionRecord:
    return pick("session", given, await client.sessions(archived=True), lambda one: one.id)


async def ask(client: Client, given: str) -> AskRecord:
    """A pending one by a part of its id; else any by its whole id."""
    pending = await client.asks()
    try:
        return pick("ask", given, pending, lambda one: one.id)
    except UsageError as unknown:
        if pending and len([one for one in pending if one.id.startswith(given) or one.id.endswith(given)]) > 1:
            raise
        try:
            return await client.ask(given)
        except UsageError:
            waiting = ", ".join(short(one.id) for one in pending) or "none"
            raise UsageError(unknown.message, field="ask", hint=f"Waiting for an answer: {waiting}.") from None


async def node(client: Client, given: str) -> NodeView:
    """By its name, or a part of its id."""
    found = await client.nodes()
    named = [one for one in found if one.name == given]
    return named[0] if len(named) == 1 else pick("node", given, found, lambda one: one.id)


# --- what is shown ------------------------------------------------------------------------------------------


def as_json(value: Any) -> None:
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def on_terminal() -> bool:
    return sys.stdout.isatty() and variable("TERM") not in ("", "dumb")


def later(view: CommandView) -> None:
    """It is durable, but its machine has not answered."""
    say(f"tieline: the machine has not answered yet; it will be done when it does (command {view.id}: {view.state})")


def ago(at: float, now: float | None = None) -> str:
    passed = max(0.0, (time.time() if now is None else now) - at)
    for limit, size, unit in ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h")):
        if passed < limit:
            return f"{int(passed // size)}{unit}"
    return f"{int(passed // 86400)}d"


def place(path: str) -> str:
    """A directory as people write it."""
    home = os.path.expanduser("~")  # noqa: PTH111 (a string is all that is wanted)
    return f"~{path[len(home) :]}" if home != "/" and (path == home or path.startswith(f"{home}/")) else path


def columns(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table without a terminal: aligned, one line per row."""
    cells = [[one_line(cell, 60) for cell in row] for row in (titles, *rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(titles))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def table(titles: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """On a terminal. The first column is what one names a row by: it is never cut."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(markup=False, emoji=False, highlight=False)
    cells = [[Text(*cell) if isinstance(cell, tuple) else Text(cell) for cell in row] for row in rows]
    needed = [max(len(title), *(row[n].cell_len for row in cells)) for n, title in enumerate(titles)]
    shown = Table(box=SIMPLE_HEAD, header_style="dim", pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    for title, width in zip(titles, fitted(needed, console.width - GAP * (len(titles) - 1)), strict=True):
        shown.add_column(title, no_wrap=True, overflow="ellipsis", width=width)
    for row in cells:
        shown.add_row(*row)
    console.print(shown)


def fitted(needed: Sequence[int], room: int) -> list[int]:
    """As wide as each column needs to be. Where that is too much the widest give way, but for the first."""
    widths = list(needed)
    while sum(widths) > room and max(widths[1:], default=1) > 1:
        widest = max(range(1, len(widths)), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def words_of(text: str) -> str:
    """What was typed, or standard input for `-`."""
    if text != "-":
        return text
    if sys.stdin.isatty():
        say("Type the prompt; Ctrl-D on an empty line ends it.")
    return sys.stdin.buffer.read().decode(errors="replace")


def directory(cwd: str) -> str:
    return str(Path(cwd).expanduser().absolute())
