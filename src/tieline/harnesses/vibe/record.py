"""The record that Mistral Vibe keeps of a session, followed: a folder in `~/.vibe/logs/session/unified`.

A generation is the session's whole state at one moment, its history in chunks; a segment of the journal has all that
happened after that, line by line, while it happens. Vibe makes a new generation when a turn is over and keeps the one
before it with its segment. So whoever begins with the older one has at least the last turn line by line; what was
before it is told by the history, which has neither how a turn ended nor its tokens.
"""

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ...safe_file_read import open_file, open_folder, read_inside
from ...wire.json_lines import decode_line
from ...wire.json_object import JsonDict
from ..terminals.acp_transcript import fields_in, members, text_in
from ..terminals.transcript_file import MAX_LINE, TranscriptCursor, TranscriptFile, TranscriptLine

META = "meta.json"
MAX_META = 1024 * 1024
MAX_ENTRIES = 1000
"""Of a folder: Vibe keeps a few."""
MAX_BEGUN = 100
"""Turns that are known to have begun: something of an earlier one may come late."""
DIGITS = 16
GENERATION, SEGMENT = re.compile(rf"[0-9]{{{DIGITS}}}"), re.compile(rf"[0-9]{{{DIGITS}}}\.jsonl")
CHUNK = re.compile(r"[0-9a-f]{64}")
RECORD_TYPES = frozenset(("projection_delta", "action_result", "callback_registered", "callback_resolved"))
"""The journal's records that say something of the conversation. The others are Vibe's own."""
ENDS = frozenset(("completed", "failed", "interrupted"))

Kind = Literal["begin", "entry", "usage", "asked", "answered", "end"]
"""A turn begins, a part of it was added or has changed, a model call has used tokens, an ask opens, the ask is
decided, the turn is over."""
RecordChange = tuple[Kind, JsonDict]


class VibeMeta(Struct, frozen=True):
    """`meta.json`, what we need of it."""

    session_id: str = ""
    parent_session_id: str | None = None
    start_time: str = ""
    environment: JsonDict = {}
    config: JsonDict | None = None

    @property
    def cwd(self) -> str:
        return text_in(self.environment, "working_directory")

    @property
    def model(self) -> str:
        return text_in(self.config or {}, "active_model")


class _Part(Struct, frozen=True):
    chunks: tuple[str, ...] = ()


class _Manifest(Struct, frozen=True):
    snapshot_sequence: int
    projection_state: _Part


class _VibeRecord(Struct, frozen=True):
    sequence: int
    type: str
    payload: msgspec.Raw


_RECORD = msgspec.json.Decoder(_VibeRecord)
_MESSAGE = msgspec.json.Decoder(JsonDict)


def read_meta(record: Path) -> VibeMeta | None:
    """None: there is none yet."""
    try:
        return msgspec.json.decode(read_inside(str(record), META, MAX_META), type=VibeMeta)
    except (OSError, msgspec.MsgspecError):
        return None


class VibeRecord(TranscriptFile):
    """Its lines are what happens in turns, each of a `Kind`. The last line of a turn has the turn's id: a reader can go
    on after it."""

    def __init__(self, path: Path, cursor: TranscriptCursor) -> None:
        super().__init__(path, cursor)
        self._next = 0  # the number of the journal's line that comes next; 0: begin with a generation
        self._segment: int = 0  # the one that is read, by the number of its first line
        self._chunks: deque[str] = deque()  # of the history, those that are not read yet
        self._state: JsonDict | None = None  # after the history
        self._at = 0  # the number of the line that is read
        self._turn = self._ended = ""  # the turn that began last, and the one that ended last
        self._begun: deque[str] = deque(maxlen=MAX_BEGUN)
        self._wanted = ""  # everything up to the end of this turn was emitted already
        self._reached = False

    def decode(self, raw: bytes) -> JsonDict | None:
        try:
            record = decode_line(_RECORD, raw)
            payload = decode_line(_MESSAGE, bytes(record.payload)) if record.type in RECORD_TYPES else {}
        except (msgspec.MsgspecError, RecursionError):
            return None
        return {"sequence": record.sequence, "type": record.type, "payload": payload}

    def read(self) -> tuple[list[TranscriptLine], bool]:
        try:
            if self._next == 0:
                self._begin()
                return [], True
            if self._chunks or self._state is not None:
                return self._tell(self._read_history()), True
            return self._read_journal()
        except (OSError, msgspec.MsgspecError, RecursionError) as error:  # a part of it may be gone
            self._next = 0
            raise error if isinstance(error, OSError) else OSError(f"{self.path} cannot be read: {error}") from error

    # --- a generation ----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """With the oldest generation."""
        oldest = min(filter(GENERATION.fullmatch, self._names("generations")), default="")
        if not oldest:
            raise FileNotFoundError(f"{self.path} has no generation yet")
        manifest = msgspec.json.decode(self._document(f"generations/{oldest}/manifest.json"), type=_Manifest)
        state = _MESSAGE.decode(self._document(f"generations/{oldest}/projection-state.json"))
        self._chunks = deque(filter(CHUNK.fullmatch, manifest.projection_state.chunks))
        self._state = fields_in(state, "snapshot")
        self._at = manifest.snapshot_sequence
        self._segment = 0
        self._turn = self._ended = ""
        self._begun.clear()
        self._wanted, self._reached = self._last.line, False
        self._next = self._at + 1

    def _read_history(self) -> Iterator[RecordChange]:
        """The next chunk, or after the last one the state."""
        if self._chunks:
            entries: Any = msgspec.json.decode(self._document(f"chunks/{self._chunks.popleft()}.json"))
            for entry in members(entries):
                if turn := text_in(entry, "turnId"):
                    began = {"id": turn, "startedAt": entry.get("createdAt"), "inputEntryId": entry.get("id")}
                    yield from self._begins(began, [entry])
                yield "entry", entry
        elif self._state is not None:
            turn, self._state = fields_in(self._state, "latestTurn"), None
            yield from self._begins(turn, [])
            yield from self._ends(turn)

    def _begins(self, turn: JsonDict, entries: list[JsonDict]) -> Iterator[RecordChange]:
        """Begin the turn if it is not the last one. The end of the last turn may be missing in the record: then it ends
        with this."""
        id = text_in(turn, "id")
        if not id or id in self._begun:
            return
        self._begun.append(id)
        self._turn = id
        inputs = (
            entry for entry in entries if entry.get("role") == "user" and entry.get("id") == turn.get("inputEntryId")
        )
        yield "begin", {**turn, "prompt": "".join(map(content_text, inputs))}

    def _ends(self, turn: JsonDict) -> Iterator[RecordChange]:
        if turn.get("status") in ENDS and text_in(turn, "id") != self._ended:
            yield "end", {**turn, "model": self._model()}

    def _model(self) -> str:
        """The journal does not name it, and in the first moments of a session nothing does."""
        meta = read_meta(self.path)
        return meta.model if meta else ""

    # --- the journal -----------------------------------------------------------------------------------------

    def _read_journal(self) -> tuple[list[TranscriptLine], bool]:
        segments = sorted(int(name[:DIGITS]) for name in self._names("journal") if SEGMENT.fullmatch(name))
        segment = max((first for first in segments if first <= self._next), default=0)
        if segment == 0:  # too much has happened meanwhile: the next read begins anew
            raise FileNotFoundError(f"{self.path} has no line {self._next} any more")
        if segment != self._segment:
            self._segment, self._offset, self._tail, self._skipping = segment, 0, b"", False
        descriptor = open_file(os.path.realpath(self.path), f"journal/{segment:0{DIGITS}}.jsonl")
        try:
            lines, more = self._read(descriptor)
        finally:
            os.close(descriptor)
        new_lines: list[TranscriptLine] = []
        for line in lines:
            number: int = line.message["sequence"]
            if number >= self._next:
                self._at, self._next = number, number + 1
                new_lines += self._tell(self._of_record(line.message))
        if not lines and not more and (later := [first for first in segments if first > self._next]):
            self._next, more = later[0], True  # lines between were too long, or are gone
        more = more or segment != segments[-1]
        # The turn that was emitted last is gone: go on with the next change, so that nothing is emitted twice.
        if not more and not self._reached:
            self._wanted = ""
        return new_lines, more

    def _of_record(self, record: JsonDict) -> Iterator[RecordChange]:
        payload = fields_in(record, "payload")
        match record["type"]:
            case "projection_delta":
                yield from self._of_delta(members(payload.get("delta")))
            case "action_result":
                result = fields_in(fields_in(payload, "result"), "result")
                if used := fields_in(result, "usage"):
                    yield "usage", {"id": text_in(payload, "action_id"), "usage": used, "model": self._model()}
            case "callback_registered":
                yield "asked", fields_in(payload, "routing")
            case "callback_resolved":
                yield "answered", {"id": text_in(payload, "callback_id"), **fields_in(payload, "result")}
            case _:
                pass

    def _of_delta(self, steps: list[JsonDict]) -> Iterator[RecordChange]:
        entries = [entry for step in steps if (entry := fields_in(step, "entry"))]
        for step in steps:  # all of them anew
            entries += [entry for entry in members(step.get("entries")) if entry.get("turnId") == self._turn]
        states = [fields_in(step, "state") for step in steps if step.get("op") == "set_envelope"]
        turn = fields_in(states[-1], "latestTurn") if states else {}
        yield from self._begins(turn, entries)
        for entry in entries:
            yield "entry", entry
        yield from self._ends(turn)

    def _tell(self, changes: Iterable[RecordChange]) -> list[TranscriptLine]:
        """The lines for the changes after the turn that was emitted last."""
        lines: list[TranscriptLine] = []
        for kind, message in changes:
            id = text_in(message, "id")
            if kind == "begin" and self._wanted:
                self._wanted = "" if self._reached else self._wanted
                self._reached = id == self._wanted
            if kind == "end":
                self._ended = id
            if not self._wanted:
                line = TranscriptLine(self._at, {"kind": kind, "told": message, "id": id if kind == "end" else ""})
                lines.append(line)
                if line.id:
                    self._last = TranscriptCursor(line.start, line.id)
            elif kind == "end" and id == self._wanted:
                self._wanted = ""
        return lines

    # --- files: no link in the folder is followed to elsewhere --------------------------------------------------

    def _names(self, folder: str) -> list[str]:
        descriptor = open_folder(os.path.realpath(self.path), folder)
        try:
            with os.scandir(descriptor) as entries:
                return [entry.name for entry in islice(entries, MAX_ENTRIES)]
        finally:
            os.close(descriptor)

    def _document(self, name: str) -> bytes:
        return read_inside(str(self.path), name, MAX_LINE)


def content_text(entry: JsonDict) -> str:
    return "\n".join(filter(None, (text_in(part, "text") for part in members(entry.get("content")))))
