"""Our table, or our tables of an array, in a TOML file of another program, which may write the file anew around them.

Codex puts its own tables between our comments, takes the first comment away, and makes `env = { … }` a table of its
own. So what is ours is known by the table and its keys, wherever they stand; the comments are for people.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from ...toml_key_lines import Statement, dotted, statements
from .base import CannotEdit, line_break, put_together
from .kept_additions import with_added
from .marks import END, OPENING, opening

LINE = re.compile(r"[^\n]*\n|[^\n]+")
PLAIN = re.compile(r"[A-Za-z0-9_-]+")
FIRST_MARK = re.compile(rf"# {OPENING.pattern}\s*\Z")
ANY_MARK = re.compile(rf"# (?:{OPENING.pattern}|{END})\s*\Z")

TablePath = tuple[str, ...]


class TomlTable:
    """One table, put at the end of the file. What others added to it stays when it is renewed, and goes with it."""

    def __init__(
        self, harness: str, path: TablePath, values: Mapping[str, Any], is_ours: Callable[[Mapping[str, Any]], bool]
    ) -> None:
        self._harness = harness
        self._path = path
        self._values = values
        self._is_ours = is_ours

    def install(self, text: str | None) -> str:
        if text is None:
            return self._block("\n")
        file = _File(text)
        there = file.table(self._path)
        if there and not self._is_ours(there) and not file.is_marked:
            raise _taken(self._path)
        header = next((each for each, path in file.statements if each.header and path == self._path), None)
        if header is None:
            bare = file.without(())
            newline = line_break(bare)
            return self._checked(f"{bare}{newline}{self._block(newline)}")
        wanted = with_added(self._values, there)
        renewed = {key for key in wanted if there.get(key) != wanted[key]} | {key for key in there if key not in wanted}
        gone = [each for each, path in file.statements if self._key_in(path) in renewed]
        return self._checked(
            file.renewed(header, gone, assignments({key: wanted[key] for key in wanted if key in renewed}))
        )

    def uninstall(self, text: str) -> str | None:
        file = _File(text)
        try:
            there = file.table(self._path)
        except CannotEdit:
            return text  # something else has the name
        if not file.is_marked and not self._is_ours(there):
            return text
        left = file.without([each for each, path in file.statements if path[: len(self._path)] == self._path])
        if _File(left).table(self._path):
            raise self._inline()
        made = text.startswith((f"# {opening({self._harness})}", self._header))
        return None if made and not left.strip() else left

    @property
    def _header(self) -> str:
        return f"[{dotted(self._path)}]"

    def _block(self, newline: str) -> str:
        return newline.join([f"# {opening({self._harness})}", self._header, *assignments(self._values), f"# {END}", ""])

    def _key_in(self, path: TablePath) -> str:
        """The key of our table that a statement is about. Empty: none."""
        inside = path[: len(self._path)] == self._path and len(path) > len(self._path)
        return path[len(self._path)] if inside else ""

    def _checked(self, text: str) -> str:
        try:
            tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            raise self._inline() from None
        return text

    def _inline(self) -> CannotEdit:
        words = "\n".join([self._header, *assignments(self._values)])
        return CannotEdit(
            "a table of it is written inline, so that nothing can be added to it or taken out of it",
            hint=f"Write it as [table] headings, or change this by hand:\n{words}",
        )


class TomlArray:
    """Tables of an array (`[[hooks]]`), put at the end of the file. Their content says which are ours."""

    def __init__(
        self, harness: str, name: str, tables: Sequence[Mapping[str, Any]], is_ours: Callable[[Mapping[str, Any]], bool]
    ) -> None:
        self._harness = harness
        self._name = name
        self._tables = tables
        self._is_ours = is_ours

    def install(self, text: str | None) -> str:
        if text is None:
            return self._block("\n")
        file = _File(text)
        if self._there(file) == list(self._tables):
            return text  # written as its program or a person likes it
        bare = file.without(self._statements(file))
        newline = line_break(bare)
        new = f"{bare}{newline}{self._block(newline)}"
        try:
            tomllib.loads(new)
        except tomllib.TOMLDecodeError:
            raise self._not_an_array() from None
        return new

    def uninstall(self, text: str) -> str | None:
        file = _File(text)
        if not self._there(file):
            return text
        left = file.without(self._statements(file))
        if self._there(_File(left)):
            raise self._not_an_array()
        made = text.startswith((f"# {opening({self._harness})}", self._header))
        return None if made and not left.strip() else left

    @property
    def _header(self) -> str:
        return f"[[{dotted((self._name,))}]]"

    def _block(self, newline: str) -> str:
        tables = [line for table in self._tables for line in (self._header, *assignments(table))]
        return newline.join([f"# {opening({self._harness})}", *tables, f"# {END}", ""])

    def _there(self, file: "_File") -> list[Mapping[str, Any]]:
        return [each for each in file.array(self._name) if self._is_ours(each)]

    def _statements(self, file: "_File") -> list[Statement]:
        """The statements of our tables."""
        tables = iter(self._is_ours(table) for table in file.array(self._name))
        own: list[Statement] = []
        inside = ours = False
        for statement, path in file.statements:
            if statement.header:
                inside = path[:1] == (self._name,)
                if path == (self._name,):
                    ours = next(tables, False)
            if inside and ours:
                own.append(statement)
        return own

    def _not_an_array(self) -> CannotEdit:
        words = self._block("\n")
        return CannotEdit(
            f"`{self._name}` is written in another form than {self._header}, so that nothing can be added to it",
            hint=f"Write it as {self._header} tables, or change this by hand:\n{words}",
        )


class _File:
    def __init__(self, text: str) -> None:
        try:
            self._content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise CannotEdit(f"it is not valid TOML: {error}") from None
        self._lines = [line[0] for line in LINE.finditer(text)]
        self._newline = line_break(text)
        self.statements = list(_with_paths(text))
        inside = {number for each, _ in self.statements for number in _numbers(each)}
        comments = [number for number in range(len(self._lines)) if number not in inside]
        self._marks = {number for number in comments if ANY_MARK.match(self._lines[number])}
        self._first = next((number for number in comments if FIRST_MARK.match(self._lines[number])), None)

    @property
    def is_marked(self) -> bool:
        return self._first is not None

    def table(self, path: TablePath) -> dict[str, Any]:
        """Empty: it is not there. Raises CannotEdit where something else has its name."""
        table = self._content
        for length, key in enumerate(path, start=1):
            value: Any = table.get(key, {})
            if not isinstance(value, dict):
                raise _taken(path[:length])
            table = cast("dict[str, Any]", value)
        return table

    def array(self, name: str) -> list[Mapping[str, Any]]:
        """The tables of an array. Empty: there is none of this form."""
        tables: Any = self._content.get(name)
        if not isinstance(tables, list):
            return []
        return [cast("Mapping[str, Any]", each) for each in cast("list[Any]", tables) if isinstance(each, dict)]

    def without(self, gone: Sequence[Statement]) -> str:
        """The file without these statements and without our comments."""
        removed = self._marks | {number for each in gone for number in _numbers(each)}
        kept = [(number, line) for number, line in enumerate(self._lines) if number not in removed]
        if self._first is None:
            return "".join(line for _, line in kept)
        before = "".join(line for number, line in kept if number < self._first)
        return put_together(before, "".join(line for number, line in kept if number > self._first), self._newline)

    def renewed(self, header: Statement, gone: Sequence[Statement], lines: Sequence[str]) -> str:
        """The file with these lines right below a header instead of some statements."""
        removed = {number for each in gone for number in _numbers(each)}
        written: list[str] = []
        for number, line in enumerate(self._lines):
            if number not in removed:
                written.append(line)
            if number == header.last - 1 and lines:
                end = "" if line.endswith("\n") else self._newline
                written.append(end + "".join(f"{each}{self._newline}" for each in lines))
        return "".join(written)


def _numbers(statement: Statement) -> range:
    """Of its lines, counted from 0."""
    return range(statement.first - 1, statement.last)


def _with_paths(text: str) -> Iterator[tuple[Statement, TablePath]]:
    """Each statement with the table that it begins, or with the key that it sets."""
    inside: TablePath = ()
    for statement in statements(text):
        path = _path_of(statement.content)
        if statement.header:
            inside = path
        yield statement, path if statement.header else (*inside, *path)


def _path_of(content: Any) -> TablePath:
    """As far as it leads one way: `a.b = 1`, `[a.b]`, `[[a.b]]`, `a = { b = 1 }`."""
    path: list[str] = []
    while isinstance(content, dict) and len(members := cast("dict[str, Any]", content)) == 1:
        ((key, content),) = members.items()
        path.append(key)
    return tuple(path)


def _taken(path: TablePath) -> CannotEdit:
    return CannotEdit(
        f"[{dotted(path)}] is there already, and `tieline install` did not write it",
        hint="Remove or rename it, and try again.",
    )


def assignments(values: Mapping[str, Any]) -> list[str]:
    """A table's keys with their values."""
    return [f"{_key(key)} = {_render(value)}" for key, value in values.items()]


def _key(name: str) -> str:
    return name if PLAIN.fullmatch(name) else _render(name)


def _render(value: Any) -> str:
    """Strings are escaped as in JSON."""
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value).items()
        return f"{{ {', '.join(f'{_key(key)} = {_render(each)}' for key, each in members)} }}"
    if isinstance(value, list):
        return f"[{', '.join(_render(each) for each in cast('list[Any]', value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
