"""A unified diff, as a person likes to read it: line numbers, colours, one heading per file."""

import re

from rich.text import Text

from .clean import clean

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)")
_NOISE = ("diff --git ", "index ", "new file mode", "old mode", "new mode", "similarity ", "Index: ", "====")
ADDED, REMOVED, HEADING = "green", "red", "bold"


def coloured(diff: str, *, cwd: str = "", limit: int | None = None) -> Text:
    """All of it, or as much as the limit of lines permits, with a note of what is left out. Names as seen from cwd."""
    rows = _Reader(clean(diff).rstrip("\n").split("\n"), cwd).rows()
    left = 0 if limit is None else max(0, len(rows) - limit)
    text = Text("\n").join(rows[: len(rows) - left])
    if left:
        text.append(f"\n… {left} more lines", "dim")
    text.overflow = "fold"
    return text


class _Reader:
    """Counts the lines of each hunk, because a line inside may look like anything, also like a heading."""

    def __init__(self, lines: list[str], cwd: str) -> None:
        self._cwd = cwd
        self._lines = lines
        self._rows: list[Text] = []
        self._old = self._new = 0  # the next line's numbers
        self._old_left = self._new_left = 0
        self._in_file = False  # past its first hunk
        ends = [int(match[3]) + int(match[4] or 1) for line in lines if (match := _HUNK.match(line))]
        self._width = max(4, len(str(max(ends, default=0))) + 1)

    def rows(self) -> list[Text]:
        before = ""
        for line in self._lines:
            if self._old_left > 0 or self._new_left > 0:
                self._content(line)
            elif match := _HUNK.match(line):
                self._hunk(match)
            elif line.startswith("--- "):
                before = self._name(line)
            elif line.startswith("+++ "):
                self._heading(before, self._name(line))
            elif line.startswith("\\"):
                self._rows.append(Text(f"{'':>{self._width}}   {line[2:]}", "dim"))
            elif line and not line.startswith(_NOISE):
                style = ADDED if line.startswith("+") else REMOVED if line.startswith("-") else "dim"
                self._rows.append(Text(line, style))
        return self._rows

    def _name(self, line: str) -> str:
        name = line[4:].split("\t")[0].rstrip()
        name = name[2:] if name[:2] in ("a/", "b/") else name
        for absolute in (name, f"/{name}"):  # some agents leave the first slash to the prefix
            if self._cwd and absolute.startswith(f"{self._cwd}/"):
                return absolute[len(self._cwd) + 1 :]
        return name

    def _heading(self, before: str, after: str) -> None:
        self._in_file = False
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
            self._rows.append(Text(f"{'':>{self._width}}   {content.strip()}", "dim"))
            return
        else:
            self._row(self._new, " ", content, "")
        if sign != "+":
            self._old, self._old_left = self._old + 1, self._old_left - 1
        if sign != "-":
            self._new, self._new_left = self._new + 1, self._new_left - 1

    def _row(self, number: int, sign: str, content: str, style: str) -> None:
        self._rows.append(
            Text.assemble((f"{number:>{self._width}} ", "dim"), (f"{sign} {content.expandtabs(4)}", style))
        )
