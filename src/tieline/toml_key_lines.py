"""On which line of a TOML file each key stands. `tomllib` does not say.

A file is cut into statements: the fewest lines that `tomllib` itself accepts are one. So whatever TOML allows inside a
statement is read right, without a parser of our own.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

KeyPath = tuple[str | int, ...]
"""`("channels", 0, "id")` is the id of the first channel."""


class Statement(NamedTuple):
    """A header, or a key with its value."""

    first: int
    """Its first line, counted from 1."""
    last: int
    header: bool
    content: dict[str, Any]
    """As tomllib reads it alone."""


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line of every table and key, counted from 1. The text is valid TOML."""
    lines: dict[KeyPath, int] = {}
    tables: dict[KeyPath, int] = {}  # arrays of tables → how many there are
    inside: KeyPath = ()
    for statement in statements(text):
        if statement.header:
            inside = _entered(statement.content, tables)
            _note(lines, inside, statement.first)
        else:
            for path in _paths(statement.content):
                _note(lines, (*inside, *path), statement.first)
    return lines


def line_of(path: KeyPath, lines: dict[KeyPath, int]) -> int:
    """The line of a key, or of the nearest table around it. 0: nowhere."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 0)


def dotted(path: KeyPath) -> str:
    """A path as people write it: `channels[0].config.token`."""
    words = ""
    for part in path:
        if isinstance(part, int):
            words += f"[{part}]"
        else:
            plain = part.isascii() and part.replace("-", "").replace("_", "").isalnum()
            words += ("." if words else "") + (part if plain else f'"{part}"')
    return words


def statements(text: str) -> Iterator[Statement]:
    """Of valid TOML."""
    import tomllib  # only where there is a file

    pending: list[str] = []
    start = 0
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if not pending:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            start = number
        pending.append(line)
        try:
            content = tomllib.loads("\n".join(pending))
        except tomllib.TOMLDecodeError:
            continue  # it goes on in the next line
        header = pending[0].lstrip().startswith("[")
        pending = []
        yield Statement(start, number, header, content)


def _entered(content: dict[str, Any], tables: dict[KeyPath, int]) -> KeyPath:
    """The table that a header enters: `[a.b]` or `[[a.b]]`, as tomllib reads it alone."""
    path: list[str | int] = []
    value: Any = content
    while isinstance(value, dict) and value:
        ((part, value),) = cast("dict[str, Any]", value).items()
        path.append(part)
        here: KeyPath = tuple(path)
        if isinstance(value, list):  # [[a.b]]: one more
            tables[here] = tables.get(here, 0) + 1
            return (*here, tables[here] - 1)
        if here in tables and value:  # [a.b] below an [[a]]: of its last one
            path.append(tables[here] - 1)
    return tuple(path)


def _paths(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    if path:
        yield path
    if isinstance(value, dict):
        for part, each in cast("dict[str, Any]", value).items():
            yield from _paths(each, (*path, part))
    elif isinstance(value, list):
        for index, each in enumerate(cast("list[Any]", value)):
            yield from _paths(each, (*path, index))


def _note(lines: dict[KeyPath, int], path: KeyPath, number: int) -> None:
    """Note the line of a key and of the tables around it, if an earlier line did not have them."""
    for length in range(1, len(path) + 1):
        lines.setdefault(path[:length], number)
