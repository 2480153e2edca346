"""A unified diff, as a person likes to read it: line numbers, colours, one heading per file."""

import re

from rich.text import Text

from ...visible_text import marked
from .sanitize import clean

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)", re.ASCII)
_NOISE = ("diff --git ", "index ", "new file mode", "old mode", "new mode", "similarity ", "Index: ", "====")
ADDED, REMOVED, HEADING = "green", "red", "bold"


def coloured(diff: str, *, cwd: str = "", limit: int | None = None, whole: bool = False) -> Text:
    """As much as the limit of lines permits, with a note of what is left out. Names as seen from cwd.

    `whole`: every character, also of what tells a reader nothing; what is no diff is shown as it is."""
    lines = (marked(diff) if whole else clean(diff)).rstrip("\n").split("\n")
    rows = _HunkReader(lines, cwd, whole=whole).rows()
    left = 0 if limit is None else max(0, len(rows) - limit)
    text = Text("\n").join(rows[: len(rows) - left])
    if left:
        text.append(f"\n… {left} more lines", "dim")
    text.overflow = "fold"
    return text


class _HunkReader:
    """Counts the lines of each hunk, because a line inside may look like anything, also like a heading."""

    def __init__(self, lines: list[str], cwd: str, *, whole: bool) -> None:
        self._cwd = cwd
        self._lines = lines
        self._whole = whole
        self._rows: list[Text] = []
        self._old = self._new = 0  # the next line's numbers
        self._old_left = self._new_left = 0
        self._in_file = False  # past its first hunk
        ends = [int(match[3]) + int(match[4] or 1) for line in lines if (match := _HUNK.match(line))]
        self._width = max(4, len(str(max(ends, default=0))) + 1)

    def rows(self) -> list[Text]:
        before = ""
        for line, after in zip(self._lines, [*self._lines[1:], ""], strict=True):
            if self._old_left > 0 or self._new_left > 0:
                self._content(line)
            elif match := _HUNK.match(line):
                self._hunk(match)
            elif line.startswith("--- ") and after.startswith("+++ "):
                before = line
            elif line.startswith("+++ ") and before:
                self._heading(before, line)
                before = ""
            elif self._whole or (line and not line.startswith(_NOISE)):
                self._raw(line)
        return self._rows

    def _raw(self, line: str) -> None:
        style = ADDED if line.startswith("+") else REMOVED if line.startswith("-") else "dim"
        self._rows.append(Text(line.expandtabs(4), style))

    def _name(self, line: str) -> str:
        name = line[4:].split("\t")[0].rstrip()
        name = name[2:] if name[:2] in ("a/", "b/") else name
        for absolute in (name, f"/{name}"):  # some agents leave the first slash to the prefix
            if self._cwd and absolute.startswith(f"{self._cwd}/"):
                return absolute[len(self._cwd) + 1 :]
        return name

    def _heading(self, first: str, second: str) -> None:
        self._in_file = False
        if self._whole and ("\t" in first + second or (first + second).rstrip() != first + second):
            self._raw(first)  # a name would not be all of it
            self._raw(second)
            return
        before, after = self._name(first), self._name(second)
        if after == "/dev/null":
            self._rows.append(Text.assemble((before, HEADING), ("  deleted", REMOVED)))
        elif before == "/dev/null":
            self._rows.append(Text.assemble((after, HEADING), ("  new", ADDED)))
        elif before and before != after:
            self._rows.append(Text.assemble((f"{before} → {after}", HEADING)))
        else:
            self._rows.append(Text(after, HEADING))

    def _hunk(self, match: re.Match[str]) -> None:
        self._old, self._new = int(match[1]), int(match[3])
        self._old_left, self._new_left = int(match[2] or 1), int(match[4] or 1)
        if self._in_file or match[5].strip():
            self._rows.append(Text(f"{'⋮':>{self._width}}   {match[5].strip()}".rstrip(), "dim cyan"))
        self._in_file = True

    def _content(self, line: str) -> None:
        sign, content = line[:1] or " ", line[1:]
        if sign == "+":
            self._row(self._new, sign, content, ADDED)
        elif sign == "-":
            self._row(self._old, sign, content, REMOVED)
        elif sign == "\\":
            self._rows.append(Text(f"{'':>{self._width}}   {line}", "dim"))
            return
        elif sign == " ":
            self._row(self._new, " ", content, "")
        else:  # no line of a hunk: the hunk is shorter than it says
            self._raw(line)
        if sign != "+":
            self._old, self._old_left = self._old + 1, self._old_left - 1
        if sign != "-":
            self._new, self._new_left = self._new + 1, self._new_left - 1

    def _row(self, number: int, sign: str, content: str, style: str) -> None:
        self._rows.append(
            Text.assemble((f"{number:>{self._width}} ", "dim"), (f"{sign} {content.expandtabs(4)}", style))
        )
