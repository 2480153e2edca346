"""Our lines in a text file of another program, between two comments."""

import re
import tomllib
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, cast

from .base import CannotEdit, line_break
from .marks import END, OPENING, opening, users_of


@dataclass(frozen=True, slots=True)
class _Found:
    start: int
    """Of the first comment."""
    end: int
    newline: str
    users: set[str]


class MarkedBlock:
    """A block at the end of a Markdown file."""

    comment = ("<!-- ", " -->")

    def __init__(self, harness: str, body: str) -> None:
        self._harness = harness
        self._body = body.strip("\n")

    def install(self, text: str | None) -> str:
        if text is None:
            return self._block({self._harness}, "\n")
        if found := self._find(text):
            block = self._block(found.users | {self._harness}, found.newline)
            return text[: found.start] + block + text[found.end :]
        newline = line_break(text)
        return f"{text}{newline}{self._block({self._harness}, newline)}"

    def uninstall(self, text: str) -> str | None:
        found = self._find(text)
        if found is None or self._harness not in found.users:
            return text
        before, after = text[: found.start], text[found.end :]
        if left := found.users - {self._harness}:
            return before + self._block(left, found.newline) + after
        if not before and not after:
            return None
        return before.removesuffix(found.newline) + after

    def _block(self, users: Set[str], newline: str) -> str:
        begin, close = self.comment
        lines = [f"{begin}{opening(users)}{close}", *self._body.split("\n"), f"{begin}{END}{close}", ""]
        return newline.join(lines)

    def _find(self, text: str) -> _Found | None:
        begin, close = (re.escape(part) for part in self.comment)
        block = re.compile(
            rf"^{begin}{OPENING.pattern}{close}(?P<newline>\r?\n).*?^{begin}{END}{close}(?:\r?\n|\Z)",
            re.DOTALL | re.MULTILINE,
        )
        match = block.search(text)
        return match and _Found(match.start(), match.end(), match["newline"], users_of(match))


class TomlBlock(MarkedBlock):
    """Tables at the end of a TOML file. They are in it as a whole or the file is left alone."""

    comment = ("# ", "")

    def install(self, text: str | None) -> str:
        if text is not None:
            bare = tomllib.loads(_checked(self._alone(text)))
            self._refuse_conflicts(bare, tomllib.loads(self._body))
        new = super().install(text)
        try:
            tomllib.loads(new)
        except tomllib.TOMLDecodeError:
            raise CannotEdit(
                "a table of it is written inline, so that nothing can be added to it at the end of the file",
                hint=f"Write it as [table] headings, or add this by hand:\n{self._body}",
            ) from None
        return new

    def uninstall(self, text: str) -> str | None:
        _checked(text)
        left = super().uninstall(text)
        return None if left is None else _checked(left)

    def _alone(self, text: str) -> str:
        """The text without the block, for whichever harness it is there."""
        found = self._find(text)
        return text if found is None else text[: found.start] + text[found.end :]

    def _refuse_conflicts(self, theirs: Mapping[str, Any], ours: Mapping[str, Any], path: str = "") -> None:
        for key, value in ours.items():
            here = f"{path}.{key}" if path else key
            if key not in theirs:
                continue
            there: Any = theirs[key]
            if key == "tieline" or not isinstance(there, dict) or not isinstance(value, dict):
                raise CannotEdit(
                    f"[{here}] is there already, and `tieline install` did not write it",
                    hint="Remove or rename it, and try again.",
                )
            self._refuse_conflicts(cast("dict[str, Any]", there), cast("dict[str, Any]", value), here)


def _checked(text: str) -> str:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CannotEdit(f"it is not valid TOML: {error}") from None
    return text
