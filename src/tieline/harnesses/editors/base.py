"""The contract of an editor: pure functions from a file's old text to its new text."""

from typing import Protocol

from ...errors import TielineError


class CannotEdit(TielineError):
    """The file is left as it is; the message names the place."""


class Editor(Protocol):
    """What Tieline has in one file of another program. `None` is a file that does not exist."""

    def install(self, text: str | None) -> str:
        """With our entry, which is written anew if it is there already. Raises CannotEdit."""
        ...

    def uninstall(self, text: str) -> str | None:
        """Without our entry. None: we made the file, and nothing else is in it. Raises CannotEdit."""
        ...


def line_break(text: str) -> str:
    """What the file's lines end with. A `\\r` at its end would become one with our `\\n`."""
    return "\r\n" if "\r\n" in text or text.endswith("\r") else "\n"


def put_together(before: str, after: str, newline: str) -> str:
    """What stood around our lines, without the line break that we put before them; but two lines never become one."""
    bare = before.removesuffix(newline)
    apart = not after or not bare or bare.endswith("\n") or after.startswith(("\r", "\n"))
    return (bare if apart else before) + after


def position(text: str, offset: int) -> str:
    """`line 3, column 7`, as editors count."""
    before = text[:offset]
    line = before.count("\n") + 1
    return f"line {line}, column {offset - (before.rfind(chr(10)) + 1) + 1}"
