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

from ...drivers.acp_presets import PRESETS
from ...events import Error, Event, Other, Status
from ...mesh.framing import NOTICE
from ...sessions.attached_session import SAID
from ...wire.json_lines import decode_line
from ...wire.json_object import JsonDict
from ..terminals.acp_transcript import (
    AcpTranscriptEvents,
    ModelText,
    TellAfter,
    fields_in,
    members,
    text_in,
    time_of,
    tokens_of,
)
from ..terminals.transcript_file import TranscriptCursor, TranscriptFile, TranscriptLine, first_line

HARNESS = "gemini"
PRESET = PRESETS[HARNESS]
SOURCE = "gemini chats"
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


class _GeminiRecord(Struct, frozen=True):
    id: str = ""
    sessionId: str = ""
    startTime: datetime | None = None
    set: _Set | None = field(default=None, name="$set")
    rewind: str = field(default="", name="$rewindTo")


_RECORD = msgspec.json.Decoder(_GeminiRecord)
_MESSAGE = msgspec.json.Decoder(dict[str, Any])
HISTORY: JsonDict = {"type": "history"}
"""Stands for the line that ends a history written down again."""


class GeminiTranscriptFile(TranscriptFile):
    def decode(self, raw: bytes) -> JsonDict | None:
        try:
            record = decode_line(_RECORD, raw)
            if record.set is not None:
                return HISTORY if bytes(record.set.messages) else None
            # The head of the file; and what was taken back: it has happened all the same.
            return None if record.sessionId or record.rewind else decode_line(_MESSAGE, raw)
        except msgspec.MsgspecError:
            return None


def head_of(path: Path) -> tuple[str, float]:
    """The session that a record is of, and when it began. Empty and 0: it does not say so yet."""
    try:
        head = _RECORD.decode(first_line(path))
    except msgspec.MsgspecError:
        return "", 0.0
    return head.sessionId, head.startTime.timestamp() if head.startTime else 0.0


class GeminiEvents(AcpTranscriptEvents):
    harness = HARNESS
    preset = PRESET

    def __init__(self, native_id: str, cwd: str, cursor: TranscriptCursor, *, since: float = 0.0) -> None:
        self._retold = False
        super().__init__(native_id, cwd, cursor, since=since)

    def _reset(self) -> None:
        super()._reset()
        self._emitted: set[str] = set()  # ids of the messages whose text was emitted
        self._ids: dict[str, str] = {}  # Gemini's id of a call → ours
        self._recorded: dict[str, int] = {}  # digest of a call → how often the record has it in this turn
        self._announced: dict[str, int] = {}  # … and how often hooks told of it

    def feed(self, line: TranscriptLine) -> TellAfter:
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
        if self._left_out or time_of(message) < self.since:
            return []
        if line.id:
            self._last = TranscriptCursor(line.start, line.id)
        match kind:
            case "gemini":
                events: list[Event] = []
                if self.turn is None:
                    if not _model_texts(message):  # more of a message whose turn is over
                        return []
                    events += self._begin("", message, line.id)
                return self._with_cursor([*events, *self._feed_model(message)], line)
            case _ if self.turn is None:
                return []
            case "info" | "warning":
                return self._feed_notice(_words(message), line)
            case "error":
                self._problem = _words(message) or "the model did not answer"
                pairs = self._with_cursor([Error(self._problem)], line)
                return [*pairs, *self.end_turn("error")]
            case _:
                return self._with_cursor([Other(message, SOURCE)], line)

    def _feed_user(self, line: TranscriptLine) -> TellAfter:
        message = line.message
        texts = _texts(message.get("content"))
        if texts and texts[0].startswith(SESSION_CONTEXT):
            self._retold = True
        if self._retold:
            return []
        own_texts = [text for text in texts if not text.startswith((SESSION_CONTEXT, HOOK_CONTEXT))]
        if _has_results(message):
            words = "\n".join(own_texts).strip()
            if not words or self.turn is None:
                return []
            self._last = TranscriptCursor(line.start, line.id)
            return self._with_cursor([Status(SAID, words)], line)
        if not own_texts:
            return []
        ended = self.end_turn()
        self._left_out = time_of(message) < self.since
        if self._left_out:
            return ended
        self._last = TranscriptCursor(line.start, line.id)
        shown = "\n".join(_texts(message.get("displayContent")))
        prompt = own_texts[0] if own_texts[0].startswith(NOTICE) or not shown else shown
        return [*ended, *self._with_cursor(self._begin(prompt, message, line.id), line)]

    def _feed_notice(self, words: str, line: TranscriptLine) -> TellAfter:
        if words == CANCELLED:
            return self.end_turn("interrupted")
        if words.startswith(CONTINUED):
            self._answered = False
            return []
        if not words:
            return []
        return self._with_cursor([Status(text_in(line.message, "type"), words)], line)

    def _feed_model(self, message: JsonDict) -> list[Event]:
        id = text_in(message, "id")
        events = self._init(text_in(message, "model"))
        if isinstance(used := message.get("tokens"), dict):
            used = cast("JsonDict", used)
            self._spent[id] = tokens_of(used, input="input", output="output", cached="cached", thoughts="thoughts")
        if id not in self._emitted and (texts := _model_texts(message)):
            self._emitted.add(id)
            events += self._text_events(id, texts)
        for call in members(message.get("toolCalls")):
            self._answered = False
            events += self._feed_call(call)
        return events

    # --- tool calls ------------------------------------------------------------------------------------------

    def announce(self, name: str, arguments: JsonDict) -> TellAfter:
        """A hook told that this call begins. Calls have no id there, so ours is made of what both ways tell."""
        digest = _digest(name, arguments)
        number = self._announced.get(digest, 0)
        self._announced[digest] = number + 1
        if self.turn is None or number < self._recorded.get(digest, 0):
            return []
        self._open_call(_call_id(name, digest, number), name, arguments, KINDS.get(name, "other"))
        return [(event, "") for event in self._take()]

    def _feed_call(self, call: JsonDict) -> list[Event]:
        native, name, arguments = text_in(call, "id"), text_in(call, "name"), fields_in(call, "args")
        if (id := self._ids.get(native)) is None:
            digest = _digest(name, arguments)
            number = self._recorded.get(digest, 0)
            self._recorded[digest] = number + 1
            id = self._ids[native] = _call_id(name, digest, number)
        if id in self.closed_calls or (status := text_in(call, "status")) not in ("success", "error", "cancelled"):
            return []
        tool = self.open_calls.get(id) or self._open_call(id, name, arguments, KINDS.get(name, "other"))
        text = _result(call)
        if status == "cancelled" and "denied" in text:
            return self._close_call(tool, "denied", text, {})
        failed = status != "success" or _exit_code(text)
        return self._close_call(tool, "error" if failed else "ok", text, fields_in(call, "resultDisplay"))


def _digest(name: str, arguments: JsonDict) -> str:
    return hashlib.sha256(msgspec.json.encode([name, arguments], order="deterministic")).hexdigest()[:12]


def _call_id(name: str, digest: str, number: int) -> str:
    """In the form of Gemini's own, which begin with the name."""
    return f"{name}{PRESET.name_separator}{digest}-{number}"


def _model_texts(message: JsonDict) -> list[ModelText]:
    """The thoughts and the text of a message."""
    texts: list[ModelText] = []
    for thought in members(message.get("thoughts")):
        heading = f"**{subject}**" if (subject := text_in(thought, "subject")) else ""
        if text := "\n".join(filter(None, (heading, text_in(thought, "description")))):
            texts.append(("agent_thought_chunk", text))
    if text := _words(message):
        texts.append(("agent_message_chunk", text))
    return texts


def _words(message: JsonDict) -> str:
    return "".join(_texts(message.get("content"))).strip()


def _texts(content: Any) -> list[str]:
    """The texts in a message's content: a text, a part or a list of both."""
    if isinstance(content, str):
        return [content] if content else []
    parts = cast("list[Any]", content) if isinstance(content, list) else [content]
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str | dict):
            texts.append(part if isinstance(part, str) else text_in(cast("JsonDict", part), "text"))
    return [text for text in texts if text]


def _has_results(message: JsonDict) -> bool:
    content: Any = message.get("content")
    parts = cast("list[Any]", content) if isinstance(content, list) else [content]
    return any(isinstance(part, dict) and "functionResponse" in part for part in parts)


def _result(call: JsonDict) -> str:
    """What it returned to the model, without Gemini's own marks."""
    texts: list[str] = []
    for part in members(call.get("result")):
        response = fields_in(fields_in(part, "functionResponse"), "response")
        texts.append(text_in(response, "output") or text_in(response, "error"))
    text = "\n".join(filter(None, texts)).partition(f"\n\n{HOOK_CONTEXT}")[0]
    return text.removeprefix("<untrusted_context>\n").removesuffix("\n</untrusted_context>")


def _exit_code(text: str) -> bool:
    """Whether a command says that it failed."""
    return any(line.startswith("Exit Code: ") and line != "Exit Code: 0" for line in text.splitlines())
