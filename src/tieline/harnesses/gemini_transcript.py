"""The record that Gemini CLI keeps of a session, followed: lines of JSON in `~/.gemini/tmp/PROJECT/chats`.

A message is written again, under its id, when more of it is known: its tokens, then its tool calls, once they are over.
After an interruption Gemini writes its whole history down again, under new ids; that is told by the context with which
each history begins. `GeminiEvents` makes events of the records by the normaliser of the driver, as updates of ACP.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ..drivers.acp.events import AcpNormaliser
from ..drivers.acp.tools import AcpToolCall
from ..drivers.acp_presets import PRESETS
from ..events import (
    AnyAction,
    Done,
    Error,
    Event,
    Init,
    Other,
    Outcome,
    Status,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tokens,
    ToolResult,
    TurnStarted,
)
from ..mesh.framing import NOTICE
from ..safe_file_read import read_regular
from ..sessions.attached_session import SAID, UNFINISHED
from .transcript_file import Message, TranscriptCursor, TranscriptFile, TranscriptLine

HARNESS = "gemini"
PRESET = PRESETS[HARNESS]
SOURCE = "gemini chats"
MAX_HEAD = 64 * 1024
"""The first line, which says when a session began."""
SESSION_CONTEXT, HOOK_CONTEXT = "<session_context>", "<hook_context>"
"""Before these parts of a message stands nothing that a person said."""
CANCELLED = "Request cancelled."
CONTINUED = "Agent execution blocked: "
"""The notice with which a turn goes on by a hook; its prompt follows."""
KINDS: Mapping[str, str] = {
    **dict.fromkeys(PRESET.tools["file_write"], "edit"),
    **dict.fromkeys(PRESET.tools["shell"], "execute"),
    **dict.fromkeys(PRESET.tools["network"], "fetch"),
    **dict.fromkeys(("read_file", "read_many_files"), "read"),
    **dict.fromkeys(("glob", "grep_search", "search_file_content", "list_directory"), "search"),
}
"""A tool → its kind in ACP, which the record does not have."""


class _Set(Struct, frozen=True):
    messages: msgspec.Raw = msgspec.Raw()  # read no further: it may be a whole history


class _Record(Struct, frozen=True):
    id: str = ""
    sessionId: str = ""
    startTime: datetime | None = None
    set: _Set | None = field(default=None, name="$set")
    rewind: str = field(default="", name="$rewindTo")


_RECORD = msgspec.json.Decoder(_Record)
_MESSAGE = msgspec.json.Decoder(dict[str, Any])
HISTORY: Message = {"type": "history"}
"""Stands for the line that ends a history written down again."""


class GeminiTranscriptFile(TranscriptFile):
    def decode(self, raw: bytes) -> Message | None:
        try:
            record = _RECORD.decode(raw)
            if record.set is not None:
                return HISTORY if bytes(record.set.messages) else None
            # The head of the file; and what was taken back: it has happened all the same.
            return None if record.sessionId or record.rewind else _MESSAGE.decode(raw)
        except msgspec.MsgspecError:
            return None


def head_of(path: Path) -> tuple[str, float]:
    """The session that a record is of, and when it began. Empty and 0: it does not say so yet."""
    try:
        line, end, _ = read_regular(path, MAX_HEAD).partition(b"\n")
        head = _RECORD.decode(line) if end else _Record()
    except (OSError, msgspec.MsgspecError):
        return "", 0.0
    return head.sessionId, head.startTime.timestamp() if head.startTime else 0.0


class GeminiEvents:
    """The events of a record's lines, in order: `feed` line by line, from the cursor on. Each comes with the cursor
    from which a reader can go on when it is written, or none."""

    def __init__(self, native_id: str, cwd: str, cursor: TranscriptCursor, *, since: float = 0.0) -> None:
        """Turns that began before `since` are left out."""
        self.native_id = native_id
        self.since = since
        self.turn: TurnStarted | None = None  # the one that is open
        self.began_at = 0.0  # of that turn, by Gemini's clock
        self.open_calls: dict[str, AcpToolCall] = {}
        self._cwd = cwd
        self._cursor = self._last = cursor
        self._left_out = self._retold = False
        self._reset()

    def _reset(self) -> None:
        self._made: list[Event] = []
        self._normaliser = AcpNormaliser(PRESET, self._cwd)
        self._normaliser.begin(self._made.append)
        self._told: set[str] = set()  # messages whose text was told
        self._tokens: dict[str, Message] = {}
        self._ids: dict[str, str] = {}  # Gemini's id of a call → ours
        self._recorded: dict[str, int] = {}  # digest of a call → how often the record has it in this turn
        self._announced: dict[str, int] = {}  # … and how often hooks told of it
        self._answer = self._problem = ""
        self._answered = False  # the last thing that came is an answer
        self._over: set[str] = set()  # calls
        self.open_calls = {}

    @property
    def cursor(self) -> str:
        """After the last line, whose turn is over."""
        return str(self._last)

    @property
    def may_be_over(self) -> bool:
        """An answer came last. Calls of tools are recorded when they are over: one may run of which no hook told."""
        return self._answered and not self.open_calls

    def feed(self, line: TranscriptLine) -> list[tuple[Event, str]]:
        message = line.message
        if message is HISTORY:
            self._retold = False
            return []
        kind = message.get("type")
        if kind == "user":
            return self._feed_user(line)
        live = kind != "gemini" or "model" in message
        if self._retold and not live:
            return []
        self._retold = False
        if self._left_out or _time(message) < self.since:
            return []
        if line.id:
            self._last = TranscriptCursor(line.start, line.id)
        match kind:
            case "gemini":
                events: list[Event] = []
                if self.turn is None:
                    if not _said(message):  # more of a message whose turn is over
                        return []
                    events += self._begin("", message)
                return self._with_cursor([*events, *self._feed_model(message)], line)
            case _ if self.turn is None:
                return []
            case "info" | "warning":
                return self._feed_notice(_words(message), line)
            case "error":
                self._problem = _words(message) or "the model did not answer"
                told = self._with_cursor([Error(self._problem)], line)
                return [*told, *self.end_turn("error")]
            case _:
                return self._with_cursor([Other(message, SOURCE)], line)

    def _feed_user(self, line: TranscriptLine) -> list[tuple[Event, str]]:
        message = line.message
        texts = _texts(message.get("content"))
        if texts and texts[0].startswith(SESSION_CONTEXT):
            self._retold = True
        if self._retold:
            return []
        said = [text for text in texts if not text.startswith((SESSION_CONTEXT, HOOK_CONTEXT))]
        if _has_results(message):
            words = "\n".join(said).strip()
            if not words or self.turn is None:
                return []
            self._last = TranscriptCursor(line.start, line.id)
            return self._with_cursor([Status(SAID, words)], line)
        if not said:
            return []
        ended = self.end_turn()
        self._left_out = _time(message) < self.since
        if self._left_out:
            return ended
        self._last = TranscriptCursor(line.start, line.id)
        shown = "\n".join(_texts(message.get("displayContent")))
        prompt = said[0] if said[0].startswith(NOTICE) or not shown else shown
        return [*ended, *self._with_cursor(self._begin(prompt, message), line)]

    def _begin(self, prompt: str, message: Message) -> list[Event]:
        self._reset()
        self.turn = TurnStarted(prompt, _text(message, "id"))
        self.began_at = _time(message)
        return [self.turn]

    def end_turn(self, outcome: Outcome = "success") -> list[tuple[Event, str]]:
        """Its end was told, or nothing more comes."""
        if self.turn is None:
            return []
        events: list[Event] = [ToolResult(call, "error", UNFINISHED) for call in self.open_calls]
        answer = self._answer if outcome == "success" else ""
        tokens = self._count()
        usage = "complete" if tokens is not None else "unknown"
        events.append(Done(outcome, answer, self._problem, tokens, usage, self.native_id, turns=len(self._tokens)))
        self._reset()
        self.turn = None
        self._cursor = self._last
        return [(event, str(self._cursor) if isinstance(event, Done) else "") for event in events]

    def _feed_notice(self, words: str, line: TranscriptLine) -> list[tuple[Event, str]]:
        if words == CANCELLED:
            return self.end_turn("interrupted")
        if words.startswith(CONTINUED):
            self._answered = False
            return []
        if not words:
            return []
        return self._with_cursor([Status(_text(line.message, "type"), words)], line)

    def _feed_model(self, message: Message) -> list[Event]:
        id, model = _text(message, "id"), _text(message, "model")
        events: list[Event] = [Init(HARNESS, self.native_id, self._cwd, model)] if model else []
        if isinstance(tokens := message.get("tokens"), dict):
            self._tokens[id] = cast("Message", tokens)
        if id not in self._told and (said := _said(message)):
            self._told.add(id)
            for number, (kind, text) in enumerate(said):
                content = {"type": "text", "text": text}
                update = {"sessionUpdate": kind, "content": content, "messageId": f"{id}-{number}"}
                events += [_named(event, f"{id}-{number}") for event in self._normalise(update)]
                if kind == "agent_message_chunk":
                    self._answer, self._answered = text, True
        for call in _calls(message):
            self._answered = False
            events += self._feed_call(call)
        return events

    def _normalise(self, update: Message) -> list[Event]:
        self._normaliser.feed(update)
        self._normaliser.end()
        return self._take()

    def _take(self) -> list[Event]:
        made = [event for event in self._made if not isinstance(event, TextDelta | ThinkingDelta)]
        self._made.clear()
        return made

    # --- tool calls ------------------------------------------------------------------------------------------

    def announce(self, name: str, arguments: Message) -> list[tuple[Event, str]]:
        """A hook told that this call begins. Calls have no id there, so ours is made of what both ways tell."""
        digest = _digest(name, arguments)
        number = self._announced.get(digest, 0)
        self._announced[digest] = number + 1
        if self.turn is None or number < self._recorded.get(digest, 0):
            return []
        self._answered = False
        self._open_call(_call_id(name, digest, number), name, arguments)
        return [(event, "") for event in self._take()]

    def _open_call(self, id: str, name: str, arguments: Message) -> AcpToolCall:
        fields = {"toolCallId": id, "title": name, "kind": KINDS.get(name, "other"), "rawInput": arguments}
        self.open_calls[id] = tool = self._normaliser.permission_requested({"toolCall": fields})
        return tool

    def action(self, tool: AcpToolCall) -> AnyAction:
        return self._normaliser.action(tool)

    def _feed_call(self, call: Message) -> list[Event]:
        native, name, arguments = _text(call, "id"), _text(call, "name"), _fields(call, "args")
        if (id := self._ids.get(native)) is None:
            digest = _digest(name, arguments)
            number = self._recorded.get(digest, 0)
            self._recorded[digest] = number + 1
            id = self._ids[native] = _call_id(name, digest, number)
        if id in self._over or (status := _text(call, "status")) not in ("success", "error", "cancelled"):
            return []
        tool = self.open_calls.get(id) or self._open_call(id, name, arguments)
        text, content = _result(call), changes(_fields(call, "resultDisplay"))
        if status == "cancelled" and "denied" in text:
            self._normaliser.refuse(tool, text)
        else:
            failed = status != "success" or _exit_code(text)
            content.append({"type": "content", "content": {"type": "text", "text": text}})
            update = {"toolCallId": id, "status": "failed" if failed else "completed", "content": content}
            self._normaliser.feed({"sessionUpdate": "tool_call_update", **update})
        self._over.add(id)
        del self.open_calls[id]
        return self._take()

    # --- inside ----------------------------------------------------------------------------------------------

    def _count(self) -> Tokens | None:
        if not self._tokens:
            return None

        def total(name: str) -> int:
            return sum(value for each in self._tokens.values() if isinstance(value := each.get(name), int))

        cached, thoughts = total("cached"), total("thoughts")
        return Tokens(
            input=max(0, total("input") - cached), output=total("output"), cache_read=cached, reasoning=thoughts
        )

    def _with_cursor(self, events: list[Event], line: TranscriptLine) -> list[tuple[Event, str]]:
        """An event that cannot be told from another of its kind moves the cursor: it is not told again."""
        again, told = line.start < self._cursor.told, list[tuple[Event, str]]()
        for event in events:
            if not isinstance(event, Error | Other):
                told.append((event, ""))
            elif not again:
                self._cursor = TranscriptCursor(self._cursor.start, self._cursor.line, line.start + 1)
                told.append((event, str(self._cursor)))
        return told


def _named(event: Event, item: str) -> Event:
    """Under an id that is the same whenever it is read."""
    return replace(event, item=item) if isinstance(event, Text | Thinking) else event


def _digest(name: str, arguments: Message) -> str:
    return hashlib.sha256(msgspec.json.encode([name, arguments], order="deterministic")).hexdigest()[:12]


def _call_id(name: str, digest: str, number: int) -> str:
    """In the form of Gemini's own, which begin with the name."""
    return f"{name}{PRESET.name_separator}{digest}-{number}"


def _said(message: Message) -> list[tuple[str, str]]:
    """The thoughts and the text of a message, as kinds of updates."""
    thoughts: Any = message.get("thoughts")
    said: list[tuple[str, str]] = []
    for thought in cast("list[Any]", thoughts) if isinstance(thoughts, list) else []:
        if isinstance(thought, dict):
            fields = cast("Message", thought)
            heading = f"**{subject}**" if (subject := _text(fields, "subject")) else ""
            if text := "\n".join(filter(None, (heading, _text(fields, "description")))):
                said.append(("agent_thought_chunk", text))
    if text := _words(message):
        said.append(("agent_message_chunk", text))
    return said


def _words(message: Message) -> str:
    return "".join(_texts(message.get("content"))).strip()


def _texts(content: Any) -> list[str]:
    """Of a text, of a part or of a list of them."""
    if isinstance(content, str):
        return [content] if content else []
    parts = cast("list[Any]", content) if isinstance(content, list) else [content]
    found: list[str] = []
    for part in parts:
        if isinstance(part, str | dict):
            found.append(part if isinstance(part, str) else _text(cast("Message", part), "text"))
    return [text for text in found if text]


def _has_results(message: Message) -> bool:
    content: Any = message.get("content")
    parts = cast("list[Any]", content) if isinstance(content, list) else [content]
    return any(isinstance(part, dict) and "functionResponse" in part for part in parts)


def _calls(message: Message) -> list[Message]:
    calls: Any = message.get("toolCalls")
    found = cast("list[Any]", calls) if isinstance(calls, list) else []
    return [cast("Message", call) for call in found if isinstance(call, dict)]


def _result(call: Message) -> str:
    """What it returned to the model, without Gemini's own marks."""
    results: Any = call.get("result")
    texts: list[str] = []
    for part in cast("list[Any]", results) if isinstance(results, list) else []:
        if isinstance(part, dict):
            response = _fields(_fields(cast("Message", part), "functionResponse"), "response")
            texts.append(_text(response, "output") or _text(response, "error"))
    text = "\n".join(filter(None, texts)).partition(f"\n\n{HOOK_CONTEXT}")[0]
    return text.removeprefix("<untrusted_context>\n").removesuffix("\n</untrusted_context>")


def _exit_code(text: str) -> bool:
    """Whether a command says that it failed."""
    return any(line.startswith("Exit Code: ") and line != "Exit Code: 0" for line in text.splitlines())


def changes(shown: Message) -> list[Message]:
    """What a call changes, or has changed, as content of ACP."""
    path, new = _text(shown, "filePath"), shown.get("newContent")
    if not path or not isinstance(new, str):
        return []
    return [{"type": "diff", "path": path, "oldText": _text(shown, "originalContent"), "newText": new}]


def _fields(values: Mapping[str, Any], name: str) -> Message:
    value: Any = values.get(name)
    return cast("Message", value) if isinstance(value, dict) else {}


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _time(message: Message) -> float:
    """Infinite: it does not say."""
    return parse_time(_text(message, "timestamp"))


def parse_time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return float("inf")
