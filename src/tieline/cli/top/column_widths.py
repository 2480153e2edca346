"""Which columns of `tieline top` a screen has room for, and how wide each is.

`WISHES` is read from its beginning for as long as there is room. A column that is not shown yet comes as wide as the
wish says, or not at all; one that is shown takes what is left. So a narrow screen has few columns, each to be read.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from rich.cells import cell_len, set_cell_size
from rich.text import Text

PADDING = 2
"""Cells around the text of each column."""
ALL = 999
WISHES = (
    ("status", 9), ("what", 16), ("agent", 10), ("id", ALL), ("what", 20), ("active", ALL), ("machine", ALL),
    ("where", 9), ("agent", 14), ("status", ALL), ("where", 14), ("what", 26), ("queue", ALL), ("cost", ALL),
    ("what", 40), ("agent", ALL), ("where", 30), ("what", 60), ("where", ALL), ("what", ALL),
)  # fmt: skip
FILLS = "what"
"""It takes the room that is left, also where its words are short: so the others keep their places."""


def column_widths(titles: Iterable[str], rows: Collection[Mapping[str, str]], room: int) -> dict[str, int]:
    """The columns that are shown, in the order of `titles`. One in which no row says anything is left out."""
    needed = {title: max((cell_len(row[title]) for row in rows), default=0) for title in titles}
    needed = {title: max(width, len(title)) for title, width in needed.items() if width or title == FILLS}
    widths: dict[str, int] = {}
    for title, wish in WISHES:
        if title not in needed:
            continue
        width = max(wish if title == FILLS else min(wish, needed[title]), len(title))
        if title in widths:
            wider = min(max(0, width - widths[title]), room)
            widths[title] += wider
            room -= wider
        elif width + PADDING <= room:
            widths[title] = width
            room -= width + PADDING
    return {title: widths[title] for title in needed if title in widths}


def fitted(text: str, width: int, *, keep: Literal["start", "end"] = "start") -> str:
    """Cut, with an ellipsis, to so many cells. Of a path the end says most."""
    if cell_len(text) <= width:
        return text
    if keep == "start":
        cut = Text(text)
        cut.truncate(width, overflow="ellipsis")
        return cut.plain
    return f"…{set_cell_size(text[::-1], width - 1).rstrip()[::-1]}"
