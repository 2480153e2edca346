"""What a command line prints as JSON lines, as events: read by the fields that the configuration names.

A field is a path: `item.text` is the `text` of the `item`; `message.content[].text` is the `text` of each element of
the list `content`, joined. A match is a table of paths and the values they must have (`"*"`: anything but null, `""`:
nothing, be it null, empty or missing); a list of tables matches when one of them does.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Struct

from ...config import setting
from ...events import Event, Other, Text, TextDelta, Thinking, Tokens

MAX_TEXT = 64 * 1024 * 1024
"""The most plain text a turn may print. More is not an answer anybody meant; it would only eat the memory."""
MAX_KINDS = 1000
"""How many values of `type` are remembered with their rules; an agent has a few dozen."""

Match = Mapping[str, Any] | tuple[Mapping[str, Any], ...]
Getter = Callable[[Any], Any]
Role = Literal["error", "done", "text", "thinking", "delta"]

_PATH = re.compile(r"[^.\[\]]+(\[\])?(\.[^.\[\]]+(\[\])?)*")


class BadPath(ValueError):
    """Not a field path."""


class OutputFields(Struct, frozen=True, kw_only=True):
    """Where in the JSON lines things are. `*_when` narrows a field down to the messages that match."""

    done_when: Annotated[Match, setting("Match: the message that ends the turn.", {"type": "done"})] = ()
    error_when: Annotated[Match, setting("Match: the message that ends the turn as an error.", {"type": "error"})] = ()
    error_field: Annotated[str, setting("Path of the error's text.", "error.message")] = ""
    text_field: Annotated[str, setting("Path of a whole text.", "item.text")] = ""
    text_when: Annotated[Match, setting("Match: the messages that have `text_field`.", {"type": "answer"})] = ()
    delta_field: Annotated[str, setting("Path of a piece of a text that is being written.", "delta.text")] = ""
    delta_when: Annotated[Match, setting("Match: the messages that have `delta_field`.", {"type": "delta"})] = ()
    thinking_field: Annotated[str, setting("Path of a whole thought.", "item.thought")] = ""
    thinking_when: Annotated[
        Match, setting("Match: the messages that have `thinking_field`.", {"type": "thought"})
    ] = ()
    session_field: Annotated[
        str, setting("Path of the agent's id of the conversation. `resume_args` needs it.", "session_id")
    ] = ""
    usage: Annotated[
        Mapping[str, str],
        setting(
            "Paths of `input`, `output`, `cache_read`, `cache_write`, `reasoning` and `cost_usd` in the message that "
            "ends the turn.",
            {"input": "usage.in"},
        ),
    ] = {}


class ShellTurnEnd(Struct, frozen=True):
    """The agent's own word that the turn is over."""

    failed: bool
    error: str = ""
    tokens: Tokens | None = None


class ShellNormaliser:
    """JSON lines into events, for one turn. Synchronous: what it learns besides is in `native_id` and `end`."""

    def __init__(self, fields: OutputFields, *, source: str) -> None:
        self.native_id = ""
        self.end: ShellTurnEnd | None = None
        self.tokens: Tokens | None = None
        self.understood = 0
        """How many lines were JSON objects."""
        self._source = source
        self._count = 0
        self._text_item = self._new_item("text")
        self._wholes = bool(fields.text_field)
        self._pieces: list[str] = []
        """The deltas since the last whole text; without such texts, since the last message of another kind."""
        self._session = compile_path(fields.session_field) if fields.session_field else None
        self._usage = {name: compile_path(path) for name, path in fields.usage.items()}
        self._usage_at_end = bool(fields.done_when)
        self._error_text = compile_path(fields.error_field) if fields.error_field else None
        rules: list[tuple[Role, Match, Getter | None]] = [
            ("error", fields.error_when, None),
            ("text", fields.text_when, compile_path(fields.text_field) if fields.text_field else None),
            ("thinking", fields.thinking_when, compile_path(fields.thinking_field) if fields.thinking_field else None),
            ("delta", fields.delta_when, compile_path(fields.delta_field) if fields.delta_field else None),
            ("done", fields.done_when, None),
        ]
        self._rules: list[_Rule] = [
            (role, _tables(match), field)
            for role, match, field in rules
            if field or (match and role in ("error", "done"))
        ]
        self._by_kind: dict[str | None, list[_Rule]] = {}

    def line(self, line: bytes) -> list[Event]:
        """The events of one line of output; what is no JSON object is kept as it came."""
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            text = line.decode(errors="replace")
            return [Other(text, self._source)] if text.strip() else []
        if not isinstance(message, dict):
            return [Other(message, self._source)]
        return self.feed(cast("dict[str, Any]", message))

    def feed(self, message: dict[str, Any]) -> list[Event]:
        self.understood += 1
        kind = message.get("type")
        if kind.__class__ is not str:
            kind = None
        rules = self._by_kind.get(kind)
        if rules is None:
            rules = self._rules_for(kind)
        if self._session is not None and not self.native_id:
            session_id = self._session(message)
            if isinstance(session_id, str):
                self.native_id = session_id
        if self._usage and not self._usage_at_end:
            self.tokens = self._tokens(message) or self.tokens
        events: list[Event] = []
        for role, tables, field in rules:
            if tables and not _any_matches(tables, message):
                continue
            if field is None:
                self._ended(role, message)
                if role == "error":
                    break
                continue
            text = field(message)
            if text.__class__ is not str:
                text = _joined(text) if text else ""
            if not text:
                continue
            if role == "text":
                events += self._whole(text)
            elif role == "delta":
                events.append(TextDelta(text, self._text_item))
                self._pieces.append(text)
                if not self._wholes:
                    return events
            else:
                events.append(Thinking(text, self._new_item("thinking")))
        if not events and self.end is None:
            events.append(Other(message, self._source))
        if self._pieces and not self._wholes:
            events.insert(0, self._flush_deltas())
        return events

    def _whole(self, text: str) -> list[Event]:
        """The whole text that deltas announced. If they announced another text (an answer was cut off and begun anew),
        that text becomes an item of its own: an event is never taken back."""
        events: list[Event] = []
        if self._pieces:
            streamed = self._flush_deltas()
            if streamed.text.strip() == text.strip():
                return [streamed]
            events.append(streamed)
        events.append(Text(text, self._text_item))
        self._text_item = self._new_item("text")
        return events

    def _flush_deltas(self) -> Text:
        """The deltas since the last whole text, as one item."""
        item = Text("".join(self._pieces), self._text_item)
        self._pieces.clear()
        self._text_item = self._new_item("text")
        return item

    def _new_item(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"

    def _rules_for(self, kind: str | None) -> list["_Rule"]:
        """The rules that a message of this `type` can match at all: most match few, and most messages none."""
        rules: list[_Rule] = []
        for role, tables, field in self._rules:
            possible = [
                [condition for condition in table if condition[0] != "type" or condition[1] != kind]
                for table in tables
                if all(
                    path != "type" or value == kind or value == "*" or value.__class__ is not str
                    for path, value, _ in table
                )
            ]
            if possible or not tables:
                rules.append((role, [] if any(not table for table in possible) else possible, field))
        if len(self._by_kind) < MAX_KINDS:
            self._by_kind[kind] = rules
        return rules

    def _ended(self, role: Role, message: dict[str, Any]) -> None:
        tokens = self._tokens(message) if self._usage else None
        error = ""
        if role == "error":
            reason = self._error_text(message) if self._error_text else None
            error = _joined(reason) or msgspec.json.encode(message)[:2000].decode(errors="replace")
        self.end = ShellTurnEnd(role == "error", error, tokens)

    def _tokens(self, message: dict[str, Any]) -> Tokens | None:
        fields: dict[str, Any] = {}
        for name, get in self._usage.items():
            value = get(message)
            if isinstance(value, int | float) and not isinstance(value, bool):
                fields[name] = float(value) if name == "cost_usd" else int(value)
        return Tokens(**fields) if fields else None


# --- fields and matches ------------------------------------------------------------------------------------

_Conditions = list[tuple[str, Any, Getter]]
_Rule = tuple[Role, list[_Conditions], Getter | None]


def compile_path(path: str) -> Getter:
    """A function that reads the field from a message: None if the message does not have it. Raises BadPath."""
    if not _PATH.fullmatch(path):
        raise BadPath(f"{path!r} is not a field path such as item.text or message.content[].text")
    head, many, rest = path.partition("[]")
    if not many:
        return _compile_keys(head.split("."))
    each = compile_path(rest[1:]) if rest else None
    lists = _compile_keys(head.split("."))
    nested = "[]" in rest

    def get(message: Any) -> Any:
        elements = lists(message)
        if elements.__class__ is not list:
            return None
        if each is None:
            return elements
        values: list[Any] = []
        for element in elements:
            value = each(element)
            if nested:
                values.extend(value or ())
            elif value is not None:
                values.append(value)
        return values

    return get


def _compile_keys(steps: Sequence[str]) -> Getter:
    if len(steps) == 1:
        (only,) = steps

        def get_one(message: Any) -> Any:
            return message.get(only) if message.__class__ is dict else None

        return get_one

    def get(message: Any) -> Any:
        for step in steps:
            if message.__class__ is not dict:
                return None
            message = message.get(step)
        return message

    return get


def _tables(match: Match) -> list[_Conditions]:
    tables = [match] if isinstance(match, Mapping) else list(match)
    return [[(path, value, compile_path(path)) for path, value in table.items()] for table in tables if table]


def _any_matches(tables: list[_Conditions], message: dict[str, Any]) -> bool:
    for table in tables:
        for _, value, get in table:
            actual = get(message)
            if actual != value and (actual is None if value == "*" else value != "" or actual is not None):
                break
        else:
            return True
    return False


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in cast("list[Any]", value) if isinstance(part, str))
    return value if isinstance(value, str) else ""
