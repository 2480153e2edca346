"""Our entries in a JSON file (comments and trailing commas allowed): put in and taken out without touching the rest."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from .base import CannotEdit, line_break
from .jsonc_parser import Child, Node, parse
from .kept_additions import is_written_by_us

JsonPath = tuple[str | int, ...]
IsOurs = Callable[[JsonPath, Any], bool]
"""Whether the value at a path is an entry of ours, to be taken out whole."""

REST_OF_LINE = re.compile(r"[ \t]*(?://[^\r\n]*)?(?=[\r\n])")
INDENT = re.compile(r"[ \t]*")


class JsonEntries:
    """`entries` is merged into the file: objects into objects of the same key, items into arrays.

    `frame` is what the file must have besides, as its version: it comes and goes with a file that we made.
    """

    def __init__(self, entries: Mapping[str, Any], is_ours: IsOurs, frame: Mapping[str, Any] | None = None) -> None:
        self._entries = entries
        self._is_ours = is_ours
        self._frame = frame or {}

    def install(self, text: str | None) -> str:
        new = self._renewed(text)
        if text is None or _is_blank(text) or parse(text).value != parse(new).value:
            return new
        return text  # it is in it, and written as its program or a person likes it

    def _renewed(self, text: str | None) -> str:
        bare = text if text is None else self.uninstall(text)
        render = _Renderer(text or "", self._is_ours)
        if bare is None or _is_blank(bare):
            whole = render({**self._frame, **self._entries}, ())
            return f"{whole}\n" if bare is None else f"{bare}{line_break(bare)}{whole}"
        edits: list[tuple[int, str]] = []
        _merge(bare, parse(bare), self._entries, (), render, edits)
        for at, added in sorted(edits, reverse=True):
            bare = bare[:at] + added + bare[at:]
        return bare

    def uninstall(self, text: str) -> str | None:
        if _is_blank(text):
            return text
        node = parse(text)
        if _is_made_by_us(node, (), self._is_ours_or_frame):
            if node.start == 0 and _is_blank(text[node.end :]):
                return None
            return text[: node.start].removesuffix(line_break(text)) + text[node.end :]  # it was put into an empty file
        cuts: list[tuple[int, int]] = []
        _cut(text, node, (), self._is_ours, cuts)
        for start, end in sorted(cuts, reverse=True):
            text = text[:start] + text[end:]
        return text

    def _is_ours_or_frame(self, path: JsonPath, value: Any) -> bool:
        if self._is_ours(path, value):
            return True
        return len(path) == 1 and path[0] in self._frame and value == self._frame[str(path[0])]


def _is_blank(text: str) -> bool:
    return not text.strip(" \t\r\n")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class _Renderer:
    """Our entries as text, each with what others have added to the one that is there."""

    def __init__(self, text: str, is_ours: IsOurs) -> None:
        self._text = text
        self.is_ours = is_ours
        self._there: dict[JsonPath, list[Node]] = {}
        if not _is_blank(text):
            self._collect(parse(text), ())

    def _collect(self, node: Node, path: JsonPath) -> None:
        for child in node.children:
            here = (*path, child.key)
            if self.is_ours(here, child.value.value):
                self._there.setdefault(_without_indexes(here), []).append(child.value)
            else:
                self._collect(child.value, here)

    def __call__(self, value: Any, path: JsonPath) -> str:
        if self.is_ours(path, value):
            there = self._there.get(_without_indexes(path), [])
            return self._entry(value, there.pop(0) if there else None)
        if isinstance(value, Mapping):
            members = cast("Mapping[str, Any]", value).items()
            return _object([f"{_dump(key)}: {self(each, (*path, key))}" for key, each in members])
        if isinstance(value, list):
            items = enumerate(cast("list[Any]", value))
            return f"[{', '.join(self(each, (*path, number)) for number, each in items)}]"
        return _dump(value)

    def _entry(self, ours: Any, there: Node | None) -> str:
        if isinstance(ours, Mapping):
            members = cast("Mapping[str, Any]", ours)
            last = {child.key: child for child in there.children} if there and isinstance(there.value, dict) else {}
            parts = [
                f"{_dump(key)}: {self._entry(value, last[key].value if key in last else None)}"
                for key, value in members.items()
            ]
            added = [child for key, child in last.items() if key not in members and not is_written_by_us(key)]
            return _object([*parts, *(self._text[child.start : child.value.end] for child in added)])
        if isinstance(ours, list):
            items = cast("list[Any]", ours)
            nodes = [child.value for child in there.children] if there else []
            known = nodes if len(nodes) == len(items) else [None] * len(items)
            return f"[{', '.join(self._entry(each, node) for each, node in zip(items, known, strict=True))}]"
        return _dump(ours)


def _without_indexes(path: JsonPath) -> JsonPath:
    """The path with 0 for every index: all items of an array count as one entry."""
    return tuple(0 if isinstance(part, int) else part for part in path)


def _object(members: Sequence[str]) -> str:
    return f"{{{', '.join(members)}}}"


# --- putting in ----------------------------------------------------------------------------------------------


def _merge(text: str, node: Node, new: Any, path: JsonPath, render: _Renderer, edits: list[tuple[int, str]]) -> None:
    """What must be inserted where, so that `new` is in it. Nothing of ours is in it any more."""
    there: Any = node.value
    if isinstance(new, Mapping) and isinstance(there, dict) and not render.is_ours(path, new):
        missing: list[str] = []
        last = {child.key: child for child in node.children}  # of keys that are there twice the last one counts
        for key, value in cast("Mapping[str, Any]", new).items():
            if key in last:
                _merge(text, last[key].value, value, (*path, key), render, edits)
            else:
                missing.append(f"{_dump(key)}: {render(value, (*path, key))}")
        if missing:
            edits.append(_insertion(text, node, missing))
    elif isinstance(new, list) and isinstance(there, list):
        items = [render(each, (*path, number)) for number, each in enumerate(cast("list[Any]", new))]
        edits.append(_insertion(text, node, items))
    else:
        where = ".".join(str(part) for part in path)
        raise CannotEdit(
            f"{where} is there already, and `tieline install` did not write it" if where else "it is not a JSON object",
            hint="Remove or rename it, and try again.",
        )


def _insertion(text: str, container: Node, parts: Sequence[str]) -> tuple[int, str]:
    """After the opening bracket, a line for each part."""
    newline = line_break(text)
    at = container.start + 1
    if (rest := REST_OF_LINE.match(text, at)) and container.children:
        at = rest.end()  # a comment behind the bracket stays there
    indent = _indent(text, container)
    if container.children:
        return at, "".join(f"{newline}{indent}{part}," for part in parts)
    lines = f",{newline}{indent}".join(parts)
    return at, f"{newline}{indent}{lines}{newline}{_outer(indent)}"


def _indent(text: str, container: Node) -> str:
    """The indentation of the first entry, or one step more than that of the line with the bracket."""
    if container.children:
        begin = _line_start(text, container.children[0].start)
        own = text[begin : container.children[0].start]
        if begin > container.start and not own.strip(" \t"):
            return own
    match = INDENT.match(text, _line_start(text, container.start))
    outer = match[0] if match else ""
    return outer + ("\t" if outer.endswith("\t") else "  ")


def _outer(indent: str) -> str:
    return indent[:-1] if indent.endswith("\t") else indent[:-2]


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


# --- taking out ----------------------------------------------------------------------------------------------


def _goes(child: Child, path: JsonPath, is_ours: IsOurs) -> bool:
    """Whether a child goes as a whole: an entry of ours, or a container that we made and that holds nothing else."""
    here = (*path, child.key)
    return is_ours(here, child.value.value) or _is_made_by_us(child.value, here, is_ours)


def _is_made_by_us(container: Node, path: JsonPath, is_ours: IsOurs) -> bool:
    """Whether nothing but ours is in it, and the first of it follows the bracket at once (the rule of this package)."""
    children = container.children
    return (
        bool(children)
        and children[0].start == container.start + 1
        and all(_goes(child, path, is_ours) for child in children)
    )


def _cut(text: str, node: Node, path: JsonPath, is_ours: IsOurs, cuts: list[tuple[int, int]]) -> None:
    gone = [_goes(child, path, is_ours) for child in node.children]
    kept = [child for child, goes in zip(node.children, gone, strict=True) if not goes]
    for child in kept:
        _cut(text, child.value, (*path, child.key), is_ours, cuts)
    for number, child in enumerate(node.children):
        if not gone[number]:
            continue
        start, end = _own_start(text, child.start), child.value.end
        if child.comma >= 0:
            if child.comma == end:
                end += 1
            else:  # something stands between it and its comma
                cuts.append((child.comma, child.comma + 1))
        elif kept and kept[-1].comma >= 0:  # the last one: the comma before it goes too
            cuts.append((kept[-1].comma, kept[-1].comma + 1))
        if not kept and number == len(node.children) - 1:
            end = _own_end(text, child, end)
        cuts.append((start, end))


def _own_start(text: str, start: int) -> int:
    """With the line break that we put before it."""
    begin = start
    while text[begin - 1 : begin] in (" ", "\t") and begin:
        begin -= 1
    newline = line_break(text)
    return begin - len(newline) if text[:begin].endswith(newline) else start


def _own_end(text: str, last: Child, end: int) -> int:
    """With the line break that we put before the closing bracket of what had been empty."""
    begin = _own_start(text, last.start)
    if begin == last.start:
        return end
    indent = text[begin + len(line_break(text)) : last.start]
    added = line_break(text) + _outer(indent)
    return end + len(added) if text.startswith(added, end) else end
