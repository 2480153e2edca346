"""The transcript of a Claude Code session, followed: lines of JSON that Claude Code adds as the conversation goes on.

`ClaudeCodeTranscriptFile` knows the lines that say something. `TranscriptEvents` makes events of it, by the
driver's own normaliser, since the lines hold the messages that the driver gets from Claude Code's output.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from ...drivers.claude_code.events import INTERRUPTED, ClaudeCodeNormaliser
from ...drivers.claude_code.usage import ClaudeCodeUsageMeter
from ...events import Done, Error, Event, Init, Other, Outcome, Status, Text, TurnStarted
from ...safe_file_read import read_regular
from ...sessions.attached_session import MODE, SAID
from ...wire.json_lines import decode_line
from ...wire.json_object import JsonDict
from ..terminals.transcript_file import TranscriptCursor, TranscriptFile, TranscriptLine

MAX_RESULTS = 200
"""Results of calls that are kept: a prompt is settled by them, though its turn may be over by then."""
MAX_TAIL = 4 * 1024 * 1024
"""The last lines, in which a message is looked for that may have gone to the model."""
HARNESS = "claude-code"


class _Kind(Struct, frozen=True):
    type: str = ""


class _Attachment(Struct, frozen=True):
    type: str = ""


class _Attached(Struct, frozen=True):
    attachment: _Attachment = _Attachment()


_KIND = msgspec.json.Decoder(_Kind)
_ATTACHED = msgspec.json.Decoder(_Attached)
_MESSAGE = msgspec.json.Decoder(dict[str, Any])
KINDS = frozenset({"user", "assistant", "system"})
"""Lines that say something; the others are Claude Code's own bookkeeping, and are many."""
QUEUED = "queued_command"
"""The attachment with what somebody said in the middle of a turn."""
BEFORE_PEER, AFTER_PEER = "Another Claude session sent a message:\n", "\n\nThis came from another Claude session"
"""What the model reads around words that came by the socket."""
TURN_OVER = "turn_duration"


class ClaudeCodeTranscriptFile(TranscriptFile):
    def decode(self, raw: bytes) -> JsonDict | None:
        return message_of(raw)


def message_of(raw: bytes) -> JsonDict | None:
    """None: it says nothing to us, or is none."""
    try:
        kind = decode_line(_KIND, raw).type
        says = kind in KINDS or (kind == "attachment" and decode_line(_ATTACHED, raw).attachment.type == QUEUED)
        return decode_line(_MESSAGE, raw) if says else None
    except msgspec.MsgspecError:
        return None


class TranscriptCall(Struct, frozen=True):
    digest: bytes  # `digest_of_call`
    ended_at: float | None = None  # infinite: its line does not say


class TranscriptEvents:
    """The events of a transcript's lines, in order: `feed` line by line, from the cursor on."""

    def __init__(self, native_id: str, cursor: TranscriptCursor, *, since: float = 0.0) -> None:
        """Turns that began before `since` are left out."""
        self.native_id = native_id
        self.since = since
        self.results: dict[str, bool] = {}  # latest calls, also of turns that are over → whether they were let through
        self.calls: dict[str, TranscriptCall] = {}  # the same ones, and those of this turn without a result
        self.turn: TurnStarted | None = None  # the one that is open
        self._cursor = cursor
        self._last = cursor
        self._meter = ClaudeCodeUsageMeter()
        self._normaliser = ClaudeCodeNormaliser(HARNESS, meter=self._meter)
        self._prompt = ""  # the words of the last line that may begin a turn
        self._left_out = False  # the turn that the lines are of
        self._between: list[Event] = []  # what happened between turns is told with the next
        self._model_call = self._model = ""
        self._outcome: Outcome = "success"
        self._answer = ""
        self._problem = ""

    @property
    def cursor(self) -> str:
        """After the last line, whose turn is over."""
        return str(self._last)

    def feed(self, line: TranscriptLine) -> list[tuple[Event, str]]:
        """The events, each with the cursor from which a reader can go on when it is written, or none."""
        message = line.message
        if message.get("isSidechain") or self._leave_out(message):
            return []
        ended = self.end_turn() if message["type"] == "user" and _begins_turn(message) else []
        if line.id:
            self._last = TranscriptCursor(line.start, line.id)
        if message.get("subtype") == TURN_OVER:
            return self.end_turn()
        if message["type"] == "attachment":
            words = _queued_prompt(message)
            return self._with_cursor([Status(SAID, words)], line) if words and self.turn else []
        events: list[Event] = []
        if message["type"] == "user" and (words := _words(message)) is not None:
            if words.startswith(INTERRUPTED):
                self._outcome = "interrupted" if self.turn else "success"
                return []
            if not message.get("isCompactSummary") and (not message.get("isMeta") or _begins_turn(message)):
                self._prompt = _as_typed(message, words) or self._prompt
            if not _begins_turn(message):
                return []
            return [*ended, *self._with_cursor(self._begin(line.id, _text(message, "permissionMode")), line)]
        if message["type"] == "assistant" and self.turn is None:
            if message.get("isApiErrorMessage") and not self._prompt:
                return []
            events += self._begin(line.id)
        events += self._feed(message)
        if self.turn is None:
            self._between += [event for event in events if not isinstance(event, Error)]
            return []
        return self._with_cursor(events, line)

    def _leave_out(self, message: JsonDict) -> bool:
        before, over = self.since > 0 and _time(message) < self.since, message.get("subtype") == TURN_OVER
        if over or (message["type"] == "user" and _begins_turn(message)):
            self._left_out = before and not over
        return before or self._left_out

    def end_turn(self) -> list[tuple[Event, str]]:
        """Its end was told, or nothing more comes."""
        if self.turn is None:
            return []
        answer = self._answer if self._outcome == "success" else ""
        events: list[Event] = [*self._normaliser.turn_diff()]
        tokens = self._meter.tokens()
        events.append(Done(self._outcome, answer, self._problem, tokens, "partial", self.native_id))
        self._normaliser.next_turn()
        self.turn, self._outcome, self._answer, self._problem = None, "success", "", ""
        self.calls = {id: call for id, call in self.calls.items() if id in self.results}
        self._cursor = self._last
        return [(event, str(self._cursor) if isinstance(event, Done) else "") for event in events]

    def _begin(self, id: str, mode: str = "") -> list[Event]:
        self.turn = TurnStarted(self._prompt, id)
        self._prompt = ""
        between, self._between = self._between, []
        return [self.turn, *([Status(MODE, mode)] if mode else []), *between]

    def _feed(self, message: JsonDict) -> list[Event]:
        events: list[Event] = []
        if message["type"] == "assistant":
            events += self._init(message)
            self._count(message)
            if message.get("isApiErrorMessage"):
                self._outcome, self._problem = "error", _words(message) or "the model did not answer"
                return [*events, Error(self._problem, str(message.get("apiErrorStatus") or ""))]
        for event in self._normaliser.feed(stream_message(message)):
            match event:
                case Other():  # Claude Code's own; what people said is in the turn's start
                    continue
                case Text(text=text, parent=""):
                    self._answer, self._outcome, self._problem = text, "success", ""
                case _:
                    pass
            events.append(event)
        self._note_calls(message)
        return events

    def _init(self, message: JsonDict) -> list[Event]:
        """With each model: a person may choose another at the terminal."""
        model = _text(_inner(message), "model")
        if model in (self._model, "<synthetic>"):
            return []
        self._model = model
        return [Init(HARNESS, self.native_id, _text(message, "cwd"), model, _text(message, "version"))]

    def _count(self, message: JsonDict) -> None:
        """A model call has a line for each of its parts, all with its usage."""
        inner = _inner(message)
        if (call := _text(inner, "id")) and call != self._model_call:
            self._model_call = call
            usage: Any = inner.get("usage")
            self._meter.model_call_started(usage)
            self._meter.model_call_ended(usage)

    def _note_calls(self, message: JsonDict) -> None:
        for block in _blocks(message):
            match block:
                case {"type": "tool_use", "id": str(id)}:
                    self.calls[id] = TranscriptCall(digest_of_call(block.get("name"), block.get("input")))
                    self.results.pop(id, None)
                case {"type": "tool_result", "tool_use_id": str(id)}:
                    self.results[id] = not _refusal(message)
                    if call := self.calls.get(id):
                        self.calls[id] = TranscriptCall(call.digest, _time(message))
                    if len(self.results) > MAX_RESULTS:
                        oldest = next(iter(self.results))
                        del self.results[oldest]
                        self.calls.pop(oldest, None)
                case _:
                    pass

    def _with_cursor(self, events: list[Event], line: TranscriptLine) -> list[tuple[Event, str]]:
        """Pair the events with cursors. An event that looks like another of its kind moves the cursor, so that it is
        not emitted again."""
        again, pairs = line.start < self._cursor.emitted, list[tuple[Event, str]]()
        for event in events:
            if not isinstance(event, Error):
                pairs.append((event, ""))
            elif not again:
                self._cursor = TranscriptCursor(self._cursor.start, self._cursor.line, line.start + 1)
                pairs.append((event, str(self._cursor)))
        return pairs


def stream_message(line: JsonDict) -> JsonDict:
    """A line as the message that Claude Code prints for programs: the transcript has other names for some fields."""
    message = {**line, "tool_use_result": line.get("toolUseResult"), "compact_metadata": line.get("compactMetadata")}
    if refusal := _refusal(line):
        message["tool_result_meta"] = [
            {"id": block.get("tool_use_id"), "non_execution_kind": refusal} for block in _blocks(line)
        ]
    return message


def digest_of_call(name: object, input: object) -> bytes:
    """The same for the same call: an input may be long."""
    return hashlib.blake2b(msgspec.json.encode((name, input), order="sorted"), digest_size=16).digest()


def messages_in(path: Path, ids: Collection[str]) -> set[str]:
    """The ids of those messages of the mesh that went to the model: Claude Code also writes down waiting messages."""
    try:
        tail = read_regular(path, MAX_TAIL, last=True)
    except OSError:
        return set()
    marks = {id: f'id=\\"{id}\\"'.encode() for id in ids}
    sent: set[str] = set()
    for raw in tail.splitlines():
        here = {id for id, mark in marks.items() if mark in raw}
        if here - sent and message_of(raw) is not None:
            sent |= here
    return sent


def _words(message: JsonDict) -> str | None:
    """What somebody said; None for the results of tools."""
    if isinstance(content := _inner(message).get("content"), str):
        return content
    parts = _blocks(message)
    if not parts or any(block.get("type") == "tool_result" for block in parts):
        return None
    return "\n".join(_text(block, "text") or f"[{block.get('type')}]" for block in parts)


def _queued_prompt(message: JsonDict) -> str:
    """The prompt that a person typed during a turn. Empty: the message is a notice of Claude Code's own."""
    attachment: JsonDict = message["attachment"]
    if attachment.get("commandMode") != "prompt":
        return ""
    return _words({"message": {"content": attachment.get("prompt")}}) or ""


def _inner(message: JsonDict) -> JsonDict:
    inner: Any = message.get("message")
    return cast("JsonDict", inner) if isinstance(inner, dict) else {}


def _blocks(message: JsonDict) -> list[JsonDict]:
    content: Any = _inner(message).get("content")
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    return [cast("JsonDict", block) for block in blocks if isinstance(block, dict)]


def _begins_turn(message: JsonDict) -> bool:
    if message.get("isSidechain") or message.get("isCompactSummary") or message.get("turnCompanion"):
        return False
    return "turnPosition" in message or (message.get("origin") is not None and _words(message) is not None)


def _as_typed(message: JsonDict, words: str) -> str:
    """Commands, and what came by the socket, stand in words of Claude Code's own. Empty: the output of a command."""
    match message.get("origin"):
        case {"kind": "peer"}:
            return words.removeprefix(BEFORE_PEER).rpartition(AFTER_PEER)[0] or words
        case _:
            pass
    if command := re.match(r"\s*<bash-input>(.*)</bash-input>", words, re.DOTALL):
        return f"! {command[1]}"
    if name := re.search(r"^\s*<command-name>(.*?)</command-name>", words, re.MULTILINE):
        arguments = re.search(r"<command-args>(.*?)</command-args>", words, re.DOTALL)
        return f"{name[1]} {arguments[1] if arguments else ''}".strip()
    return "" if re.match(r"\s*<(bash-stdout|bash-stderr|local-command-)", words) else words


def _time(message: JsonDict) -> float:
    """Infinite: it does not say."""
    try:
        return datetime.fromisoformat(_text(message, "timestamp")).timestamp()
    except ValueError:
        return float("inf")


def _refusal(message: JsonDict) -> str:
    """Why a call was not carried out."""
    match message.get("permissionDecision"):
        case {"decision": "reject"}:
            return "user-rejected"
        case _:
            pass
    return _text(message, "toolDenialKind")


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""
