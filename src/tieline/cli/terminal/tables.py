"""Tables: with colours on a terminal, as aligned lines without one."""

from collections.abc import Iterable, Sequence

from .formatting import on_terminal
from .sanitize import one_line

Cell = str | tuple[str, str]
"""Text, or text and its style."""
GAP = 3
"""Cells between two columns of a table."""


def print_rows(titles: Sequence[str], rows: Sequence[Sequence[Cell]], none: str = "") -> None:
    if not rows:
        if none and on_terminal():
            print(none)
        return
    if on_terminal():
        table(titles, rows)
        return
    plain = [[cell if isinstance(cell, str) else cell[0] for cell in row] for row in rows]
    print(columns(titles, plain))


def columns(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as plain text: aligned, one line per row."""
    cells = [[one_line(cell, 60) for cell in row] for row in (titles, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def table(titles: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a table on a terminal. The first column, which identifies the row, is never cut."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(markup=False, emoji=False, highlight=False)
    cells = [[Text(*cell) if isinstance(cell, tuple) else Text(cell) for cell in row] for row in rows]
    needed = [max(len(title), *(row[n].cell_len for row in cells)) for n, title in enumerate(titles)]
    shown = Table(box=SIMPLE_HEAD, header_style="dim", pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    for title, width in zip(titles, fit_widths(needed, console.width - GAP * (len(titles) - 1)), strict=True):
        shown.add_column(title, no_wrap=True, overflow="ellipsis", width=width)
    for row in cells:
        shown.add_row(*row)
    console.print(shown)


def fit_widths(needed: Sequence[int], room: int) -> list[int]:
    """The width of each column. Where the sum is too wide, the widest columns shrink, except the first."""
    widths = list(needed)
    while sum(widths) > room and max(widths[1:], default=1) > 1:
        widest = max(range(1, len(widths)), key=widths.__getitem__)
        widths[widest] -= 1
    return widths
