"""Our lines in a Markdown file of another program, between two comments."""

import re
import zlib
from collections.abc import Sequence, Set
from dataclasses import dataclass

from .base import line_break, put_together
from .marks import END, OPENING, opening, users_of


@dataclass(frozen=True, slots=True)
class _Block:
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
        current = _find(text)
        if current is None:
            newline = line_break(text)
            return f"{text}{newline}{self._block({self._harness}, newline)}"
        return self._renewed(text, current, current.users | {self._harness})

    def uninstall(self, text: str) -> str | None:
        current = _find(text)
        if current is None or self._harness not in current.users:
            return text
        if left := current.users - {self._harness}:
            return self._renewed(text, current, left)
        before, after = text[: current.start], text[current.end :]
        after = "".join(f"{line}{current.newline}" for line in self._added(current)) + after
        return put_together(before, after, current.newline) if before or after else None

    def _renewed(self, text: str, current: _Block, users: Set[str]) -> str:
        if self._between(current) is None:
            block = self._block(users, current.newline, self._added(current))
        else:  # the lines of others stay where they are
            block = _written(users, current.newline, current.lines, self._body)
        return text[: current.start] + block + text[current.end :]

    def _added(self, current: _Block) -> list[str]:
        """The lines that others wrote between the comments."""
        if current.is_untouched:
            return []
        between = self._between(current)
        return [line for line in current.lines if line not in self._body] if between is None else between

    def _between(self, current: _Block) -> list[str] | None:
        """The lines of others, if all of ours are still there. None: some of ours are missing."""
        ours = list(reversed(self._body))
        others: list[str] = []
        for line in current.lines:
            if ours and line == ours[-1]:
                ours.pop()
            else:
                others.append(line)
        return None if ours else others

    def _block(self, users: Set[str], newline: str, added: Sequence[str] = ()) -> str:
        return _written(users, newline, [*self._body, *added], self._body)


def _written(users: Set[str], newline: str, lines: Sequence[str], ours: Sequence[str]) -> str:
    return newline.join([f"<!-- {opening(users)} -->", *lines, f"<!-- {END} {_sum(ours)} -->", ""])


def _find(text: str) -> _Block | None:
    match = BLOCK.search(text)
    if match is None:
        return None
    lines = [line.removesuffix("\r") for line in match["lines"].split("\n")[:-1]]
    untouched = match["sum"] == _sum(lines)
    return _Block(match.start(), match.end(), match["newline"], users_of(match), lines, untouched)


def _sum(lines: Sequence[str]) -> str:
    return f"{zlib.crc32(chr(10).join(lines).encode()):08x}"
