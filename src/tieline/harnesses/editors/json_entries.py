"""Our entries in a JSON file (comments and trailing commas allowed): put in and taken out without touching the rest."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from .base import CannotEdit, line_break
from .jsonc import BOM, Child, Node, parse

Path = tuple[str | int, ...]
IsOurs = Callable[[Path, Any], bool]
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
        bare = text if text is None else self.uninstall(text)
        whole = _render({**self._frame, **self._entries})
        if bare is None:
            return whole + "\n"
        if _is_blank(bare):
            return f"{bare}{line_break(bare)}{whole}"
        edits: list[tuple[int, str]] = []
        _merge(bare, parse(bare), self._entries, (), self._is_ours, edits)
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

    def _is_ours_or_frame(self, path: Path, value: Any) -> bool:
        if self._is_ours(path, value):
            return True
        return len(path) == 1 and path[0] in self._frame and value == self._frame[str(path[0])]


def _is_blank(text: str) -> bool:
    return not text.removeprefix(BOM).strip(" \t\r\n")


def _render(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- putting in ----------------------------------------------------------------------------------------------


def _merge(text: str, node: Node, new: Any, path: Path, is_ours: IsOurs, edits: list[tuple[int, str]]) -> None:
    """What must be inserted where, so that `new` is in it. Nothing of ours is in it any more."""
    there: Any = node.value
    if isinstance(new, Mapping) and isinstance(there, dict) and not is_ours(path, new):
        missing: list[str] = []
        last = {child.key: child for child in node.children}  # of keys that are there twice the last one counts
        for key, value in cast("Mapping[str, Any]", new).items():
            if key in last:
                _merge(text, last[key].value, value, (*path, key), is_ours, edits)
            else:
                missing.append(f"{_render(key)}: {_render(value)}")
        if missing:
            edits.append(_insertion(text, node, missing))
    elif isinstance(new, list) and isinstance(there, list):
        edits.append(_insertion(text, node, [_render(each) for each in cast("list[Any]", new)]))
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
    """That of the first one inside, or one step more than the line of the bracket."""
    if container.children:
        begin = _line_start(text, container.children[0].start)
        own = text[begin : container.children[0].start]
        if begin > container.start and not own.strip(" \t"):
            return own
    found = INDENT.match(text, _line_start(text, container.start))
    outer = found[0] if found else ""
    return outer + ("\t" if outer.endswith("\t") else "  ")


def _outer(indent: str) -> str:
    return indent[:-1] if indent.endswith("\t") else indent[:-2]


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


# --- taking out ----------------------------------------------------------------------------------------------


def _goes(child: Child, path: Path, is_ours: IsOurs) -> bool:
    """Whether a child goes as a whole: an entry of ours, or a container that we made and that holds nothing else."""
    here = (*path, child.key)
    return is_ours(here, child.value.value) or _is_made_by_us(child.value, here, is_ours)


def _is_made_by_us(container: Node, path: Path, is_ours: IsOurs) -> bool:
    """Whether nothing but ours is in it, and the first of it follows the bracket at once (the rule of this package)."""
    children = container.children
    return (
        bool(children)
        and children[0].start == container.start + 1
        and all(_goes(child, path, is_ours) for child in children)
    )


def _cut(text: str, node: Node, path: Path, is_ours: IsOurs, cuts: list[tuple[int, int]]) -> None:
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
