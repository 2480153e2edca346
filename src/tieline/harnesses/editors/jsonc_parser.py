"""A reader of JSON with comments and trailing commas that knows where each value stands in the text."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from .base import CannotEdit, position

MAX_DEPTH = 200
BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
WORDS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Child:
    """A member of an object, or an item of an array (whose key is its number)."""

    key: str | int
    start: int
    """Where it begins: at the key of a member, at the value of an item."""
    value: "Node"
    comma: int
    """Where the comma after it stands; -1: there is none."""


@dataclass(frozen=True, slots=True)
class Node:
    start: int
    end: int
    value: Any
    """As `json.loads` gives it, but every number is a float."""
    children: list[Child] = field(default_factory=list[Child])


def parse(text: str) -> Node:
    """Raises CannotEdit, which names line and column."""
    return _Parser(text).document()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text

    def document(self) -> Node:
        node = self._value(self._blank(0), 0)
        end = self._blank(node.end)
        if end < len(self._text):
            raise self._error(end, "something follows the end of the value")
        return node

    def _value(self, at: int, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self._error(at, f"it is nested deeper than {MAX_DEPTH} levels")
        start = self._text[at : at + 1]
        if start == "{":
            return self._container(at, depth, "}")
        if start == "[":
            return self._container(at, depth, "]")
        if start == '"':
            return self._string(at)
        if number := NUMBER.match(self._text, at):
            return Node(at, number.end(), float(number[0]))  # it is only compared
        for word, value in WORDS.items():
            if self._text.startswith(word, at):
                return Node(at, at + len(word), value)
        raise self._error(at, "a value is missing" if start else "the file ends in the middle of a value")

    def _string(self, at: int) -> Node:
        match = STRING.match(self._text, at)
        if match is None:
            raise self._error(at, "this string is not valid")
        return Node(at, match.end(), json.loads(match[0]))

    def _container(self, start: int, depth: int, close: str) -> Node:
        children: list[Child] = []
        at = self._blank(start + 1)
        while self._text[at : at + 1] != close:
            if children and children[-1].comma < 0:
                raise self._error(at, f"a comma or {close} is missing")
            begin, key = at, len(children)
            if close == "}":
                if self._text[at : at + 1] != '"':
                    raise self._error(at, "a key in double quotes or } is missing")
                name = self._string(at)
                key, at = name.value, self._blank(name.end)
                if self._text[at : at + 1] != ":":
                    raise self._error(at, "a colon is missing")
                at = self._blank(at + 1)
            value = self._value(at, depth + 1)
            at = self._blank(value.end)
            comma = at if self._text[at : at + 1] == "," else -1
            children.append(Child(key, begin, value, comma))
            if comma >= 0:
                at = self._blank(at + 1)
        if close == "}":
            return Node(start, at + 1, {child.key: child.value.value for child in children}, children)
        return Node(start, at + 1, [child.value.value for child in children], children)

    def _blank(self, at: int) -> int:
        match = BLANK.match(self._text, at)
        return match.end() if match else at

    def _error(self, at: int, what: str) -> CannotEdit:
        return CannotEdit(f"it is not valid JSON: {what} ({position(self._text, at)})")
