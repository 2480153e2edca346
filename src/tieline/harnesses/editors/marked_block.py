"""Our lines in a Markdown file of another program, between two comments."""

import re
import zlib
from collections.abc import Sequence, Set
from dataclasses import dataclass

from .base import line_break, put_together
from .marks import END, OPENING, opening, users_of


@dataclass(frozen=True, slots=True)
class _Found:
    start: int
    """Of the first comment."""
    end: int
    newline: str
    users: set[str]
    lines: list[str]
    """Between the comments."""
    is_untouched: bool
    """Whether these are the lines that we wrote, in this version or an earlier one."""


BLOCK = re.compile(
    rf"^<!-- {OPENING.pattern} -->(?P<newline>\r?\n)(?P<lines>(?:.*?\n)??)"
    rf"^<!-- {END}(?: (?P<sum>[0-9a-f]{{8}}))? -->(?:\r?\n|\Z)",
    re.DOTALL | re.MULTILINE,
)


class MarkedBlock:
    """A block at the end of the file. What a person wrote into it stays."""

    def __init__(self, harness: str, body: str) -> None:
        self._harness = harness
        self._body = body.strip("\n").split("\n")

    def install(self, text: str | None) -> str:
        if text is None:
            return self._block({self._harness}, "\n")
        found = _find(text)
        if found is None:
            newline = line_break(text)
            return f"{text}{newline}{self._block({self._harness}, newline)}"
        return self._renewed(text, found, found.users | {self._harness})

    def uninstall(self, text: str) -> str | None:
        found = _find(text)
        if found is None or self._harness not in found.users:
            return text
        if left := found.users - {self._harness}:
            return self._renewed(text, found, left)
        before, after = text[: found.start], text[found.end :]
        after = "".join(f"{line}{found.newline}" for line in self._added(found)) + after
        return put_together(before, after, found.newline) if before or after else None

    def _renewed(self, text: str, found: _Found, users: Set[str]) -> str:
        if self._between(found) is None:
            block = self._block(users, found.newline, self._added(found))
        else:  # theirs stays at its place
            block = _written(users, found.newline, found.lines, self._body)
        return text[: found.start] + block + text[found.end :]

    def _added(self, found: _Found) -> list[str]:
        """What others wrote between the comments."""
        if found.is_untouched:
            return []
        between = self._between(found)
        return [line for line in found.lines if line not in self._body] if between is None else between

    def _between(self, found: _Found) -> list[str] | None:
        """The other lines, where all of ours are there. None: they are not."""
        ours = list(reversed(self._body))
        others: list[str] = []
        for line in found.lines:
            if ours and line == ours[-1]:
                ours.pop()
            else:
                others.append(line)
        return None if ours else others

    def _block(self, users: Set[str], newline: str, added: Sequence[str] = ()) -> str:
        return _written(users, newline, [*self._body, *added], self._body)


def _written(users: Set[str], newline: str, lines: Sequence[str], ours: Sequence[str]) -> str:
    return newline.join([f"<!-- {opening(users)} -->", *lines, f"<!-- {END} {_sum(ours)} -->", ""])


def _find(text: str) -> _Found | None:
    match = BLOCK.search(text)
    if match is None:
        return None
    lines = [line.removesuffix("\r") for line in match["lines"].split("\n")[:-1]]
    untouched = match["sum"] == _sum(lines)
    return _Found(match.start(), match.end(), match["newline"], users_of(match), lines, untouched)


def _sum(lines: Sequence[str]) -> str:
    return f"{zlib.crc32(chr(10).join(lines).encode()):08x}"
