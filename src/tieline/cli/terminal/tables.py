"""Tables: with colours on a terminal, as aligned lines without one."""

from collections.abc import Iterable, Sequence

from .formatting import on_terminal
from .sanitize import one_line

Cell = str | tuple[str, str]
"""Text, or text and its style."""
MAX_CELL = 10_000
GAP = 3
"""Cells between two columns of a table."""
READABLE = 24
"""Cells that the last column, which may be a sentence, has at least before another is left out."""


def print_rows(
    titles: Sequence[str], rows: Sequence[Sequence[Cell]], none: str = "", *, optional: Sequence[str] = ()
) -> None:
    """`optional`: the columns that a narrow terminal leaves out, those that say least first."""
    if not rows:
        if none and on_terminal():
            print(none)
        return
    if on_terminal():
        table(titles, rows, optional)
        return
    plain = [[cell if isinstance(cell, str) else cell[0] for cell in row] for row in rows]
    print(columns(titles, plain))


def columns(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as plain text: aligned, one line per row. Nothing is cut: a program may read it."""
    cells = [[one_line(cell, MAX_CELL) for cell in row] for row in (titles, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def table(titles: Sequence[str], rows: Sequence[Sequence[Cell]], optional: Sequence[str] = ()) -> None:
    """Print a table on a terminal. The first column, which identifies the row, is never cut."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(markup=False, emoji=False, highlight=False)
    cells = [[Text(*cell) if isinstance(cell, tuple) else Text(cell) for cell in row] for row in rows]
    needed = [max(len(title), *(row[n].cell_len for row in cells)) for n, title in enumerate(titles)]
    kept = columns_with_room(titles, needed, optional, console.width)
    widths = fit_widths([needed[n] for n in kept], console.width - GAP * (len(kept) - 1))
    shown = Table(box=SIMPLE_HEAD, header_style="dim", pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    for n, width in zip(kept, widths, strict=True):
        shown.add_column(titles[n], no_wrap=True, overflow="ellipsis", width=width)
    for row in cells:
        shown.add_row(*(row[n] for n in kept))
    console.print(shown)


def columns_with_room(titles: Sequence[str], needed: Sequence[int], optional: Sequence[str], width: int) -> list[int]:
    """Which columns are shown: rather few to be read than all of them cut."""
    kept = list(range(len(titles)))
    for title in optional:
        whole = sum(needed[n] for n in kept[:-1]) + min(needed[-1], READABLE) + GAP * (len(kept) - 1)
        if whole <= width:
            break
        kept.remove(titles.index(title))
    return kept


def fit_widths(needed: Sequence[int], room: int) -> list[int]:
    """The width of each column. Where the sum is too wide, the widest columns shrink, except the first."""
    widths = list(needed)
    while sum(widths) > room and max(widths[1:], default=1) > 1:
        widest = max(range(1, len(widths)), key=widths.__getitem__)
        widths[widest] -= 1
    return widths
