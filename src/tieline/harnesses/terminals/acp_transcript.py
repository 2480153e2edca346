"""Events from transcripts whose lines say what ACP's updates say, made by the ACP driver's normaliser.

A harness has a subclass of `AcpTranscriptEvents` that knows its lines.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal, cast

from msgspec.structs import replace

from ...drivers.acp.events import AcpNormaliser
from ...drivers.acp.tools import AcpToolCall
from ...drivers.acp_presets import Preset
from ...events import (
    AnyAction,
    Done,
    Error,
    Event,
    Init,
    Other,
    Outcome,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tokens,
    ToolResult,
    TurnStarted,
)
from ...sessions.attached_session import UNFINISHED
from ...wire.json_object import JsonDict
from .transcript_file import TranscriptCursor, TranscriptLine

ModelText = tuple[Literal["agent_thought_chunk", "agent_message_chunk"], str]
"""A thought or a text of the model, as a kind of update."""
TellAfter = list[tuple[Event, str]]
"""Events, each with the cursor from which a reader can go on when it is written, or none."""


class AcpTranscriptEvents:
    """The events of a transcript's lines, in order: `feed` line by line, from the cursor on."""

    harness: ClassVar[str]
    preset: ClassVar[Preset]

    def __init__(self, native_id: str, cwd: str, cursor: TranscriptCursor, *, since: float = 0.0) -> None:
        """Turns that began before `since` are left out."""
        self.native_id = native_id
        self.since = since
        self.turn: TurnStarted | None = None  # the one that is open
        self.began_at = 0.0  # of that turn, by the harness's clock
        self.open_calls: dict[str, AcpToolCall] = {}
        self._cwd = cwd
        self._cursor = self._last = cursor
        self._left_out = False  # the turn that the lines are of
        self._between: list[Event] = []  # what happened between turns is told with the next
        self._reset()

    def feed(self, line: TranscriptLine) -> TellAfter:
        raise NotImplementedError

    def _reset(self) -> None:
        """What is known of a turn."""
        self._made: list[Event] = []
        self._normaliser = AcpNormaliser(self.preset, self._cwd)
        self._normaliser.begin(self._made.append)
        self._spent: dict[str, Tokens] = {}  # by message
        self.answer = self._problem = ""
        self._answered = False  # the last thing that came is an answer
        self.closed_calls: dict[str, AcpToolCall] = {}
        self.open_calls = {}

    @property
    def cursor(self) -> str:
        """After the last line, whose turn is over."""
        return str(self._last)

    @property
    def may_be_over(self) -> bool:
        """An answer came last, and no call is known to run."""
        return self._answered and not self.open_calls

    # --- turns -----------------------------------------------------------------------------------------------

    def _begin(self, prompt: str, message: JsonDict, id: str) -> list[Event]:
        self._reset()
        self.turn = TurnStarted(prompt, id)
        self.began_at = time_of(message)
        between, self._between = self._between, []
        return [self.turn, *between]

    def end_turn(self, outcome: Outcome = "success") -> TellAfter:
        """Its end was told, or nothing more comes."""
        if self.turn is None:
            return []
        events: list[Event] = [ToolResult(call, "error", UNFINISHED) for call in self.open_calls]
        answer = self.answer if outcome == "success" else ""
        tokens = _sum(self._spent.values()) if self._spent else None
        usage = "complete" if tokens is not None else "unknown"
        events.append(Done(outcome, answer, self._problem, tokens, usage, self.native_id, turns=len(self._spent)))
        self._reset()
        self.turn = None
        self._cursor = self._last
        return [(event, str(self._cursor) if isinstance(event, Done) else "") for event in events]

    def _problem_events(self, code: str = "") -> TellAfter:
        """The error of the turn, if it has one, before its end."""
        if not self._problem:
            return []
        return self._with_cursor([Error(self._problem, code)], TranscriptLine(self._last.start, {}))

    def _with_cursor(self, events: list[Event], line: TranscriptLine) -> TellAfter:
        """Pair the events with cursors. An event that looks like another of its kind moves the cursor, so that it is
        not emitted again."""
        again, pairs = line.start < self._cursor.emitted, list[tuple[Event, str]]()
        for event in events:
            if not isinstance(event, Error | Other):
                pairs.append((event, ""))
            elif not again:
                self._cursor = TranscriptCursor(self._cursor.start, self._cursor.line, line.start + 1)
                pairs.append((event, str(self._cursor)))
        return pairs

    # --- what the model says and does ------------------------------------------------------------------------

    def _init(self, model: str) -> list[Event]:
        return [Init(self.harness, self.native_id, self._cwd, model)] if model else []

    def _text_events(self, id: str, texts: list[ModelText]) -> list[Event]:
        """Under ids that are the same whenever the message is read."""
        events: list[Event] = []
        for number, (kind, text) in enumerate(texts):
            item = f"{id}-{number}"
            self._normaliser.feed({"sessionUpdate": kind, "content": {"type": "text", "text": text}, "messageId": item})
            self._normaliser.end()
            events += [_named(event, item) for event in self._take()]
            if kind == "agent_message_chunk":
                self.answer, self._answered = text, True
        return events

    def mode(self, mode: str) -> list[Event]:
        self._normaliser.feed({"sessionUpdate": "current_mode_update", "currentModeId": mode})
        return self._take()

    def _take(self) -> list[Event]:
        made = [event for event in self._made if not isinstance(event, TextDelta | ThinkingDelta)]
        self._made.clear()
        return made

    def _open_call(
        self, id: str, name: str, arguments: JsonDict, kind: str, content: Sequence[JsonDict] = ()
    ) -> AcpToolCall:
        """`content`: of an edit whose input is not the change itself, what it changes."""
        self._answered = False
        meta: JsonDict = {}
        for step in reversed(self.preset.traits.name_path):
            meta = {step: meta or name}
        fields = {**meta, "toolCallId": id, "title": name, "kind": kind, "rawInput": arguments, "content": content}
        self.open_calls[id] = tool = self._normaliser.permission_requested({"toolCall": fields})
        return tool

    def _close_call(
        self, tool: AcpToolCall, status: Literal["ok", "error", "denied"], text: str, shown: JsonDict
    ) -> list[Event]:
        """`shown` is what the harness shows of it: of an edit, the file before and after it."""
        if status == "denied":
            self._normaliser.refuse(tool, text)
        else:
            content = [*changes(shown), {"type": "content", "content": {"type": "text", "text": text}}]
            update = {"toolCallId": tool.id, "status": "failed" if status == "error" else "completed"}
            self._normaliser.feed({"sessionUpdate": "tool_call_update", **update, "content": content})
        self.closed_calls[tool.id] = self.open_calls.pop(tool.id)
        return self._take()

    def action(self, tool: AcpToolCall) -> AnyAction:
        return self._normaliser.action(tool)


def changes(shown: JsonDict) -> list[JsonDict]:
    """What a call changes, or has changed, as content of ACP."""
    path, new = text_in(shown, "filePath"), shown.get("newContent")
    if not path or not isinstance(new, str):
        return []
    return [{"type": "diff", "path": path, "oldText": text_in(shown, "originalContent"), "newText": new}]


def tokens_of(used: JsonDict, *, input: str, output: str, cached: str, thoughts: str) -> Tokens:
    """By the names that the harness has for them; what was cached is a part of the input."""

    def number(name: str) -> int:
        value = used.get(name)
        return value if isinstance(value, int) else 0

    return Tokens(
        input=max(0, number(input) - number(cached)),
        output=number(output),
        cache_read=number(cached),
        reasoning=number(thoughts),
    )


def fields_in(values: Mapping[str, Any], name: str) -> JsonDict:
    value: Any = values.get(name)
    return cast("JsonDict", value) if isinstance(value, dict) else {}


def members(value: Any) -> list[JsonDict]:
    """The objects in a list."""
    elements = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("JsonDict", each) for each in elements if isinstance(each, dict)]


def text_in(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def time_of(message: JsonDict) -> float:
    """Infinite: it does not say."""
    return parse_time(text_in(message, "timestamp"))


def parse_time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return float("inf")


def _named(event: Event, item: str) -> Event:
    return replace(event, item=item) if isinstance(event, Text | Thinking) else event


def _sum(spent: Iterable[Tokens]) -> Tokens:
    parts = list(spent)
    return Tokens(
        input=sum(tokens.input or 0 for tokens in parts),
        output=sum(tokens.output or 0 for tokens in parts),
        cache_read=sum(tokens.cache_read or 0 for tokens in parts),
        reasoning=sum(tokens.reasoning or 0 for tokens in parts),
    )
