"""The transcript of a harness's session, followed: lines of JSON that the harness adds as the conversation goes on.

`TranscriptFile` reads what was added, bounded, from wherever it left off; a subclass knows which lines say something.
"""

import os
import re
import stat
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ...safe_file_read import read_regular
from ...wire.json_object import JsonDict

READ_BYTES = 512 * 1024
"""Read at once, if a line is not longer."""
LINE_BYTES = 16 * 1024
"""Read at once where one line is wanted."""
MAX_LINE = 64 * 1024 * 1024
"""A longer line is left out."""
MAX_HEAD = 64 * 1024
"""The first lines, which say when a session began."""
TAIL_BYTES = 64
"""The end of what was read last. If it is not there any more, the file was written anew."""
MAX_PROJECTS = 10_000


class _Time(Struct, frozen=True):
    timestamp: datetime | None = None


_TIME = msgspec.json.Decoder(_Time)


class TranscriptCursor(Struct, frozen=True):
    """How far a transcript is read: up to the end of the line with this id, which began at this byte. In the turn after
    that, events that look alike were emitted for the lines that begin before byte `emitted`."""

    start: int = 0
    line: str = ""
    emitted: int = 0

    @classmethod
    def parse(cls, text: str) -> "TranscriptCursor":
        try:
            start, line, emitted = text.split(":")
            return cls(int(start), line, int(emitted))
        except ValueError:
            return cls()

    def __str__(self) -> str:
        return f"{self.start}:{self.line}:{self.emitted}"


class TranscriptLine(Struct, frozen=True):
    start: int
    """Its first byte."""
    message: JsonDict

    @property
    def id(self) -> str:
        """The id of the line. Empty: it has no id from which a reader could go on."""
        value: Any = self.message.get("uuid") or self.message.get("id")
        return value if isinstance(value, str) else ""


class TranscriptFile:
    """Blocking: for a thread."""

    def __init__(self, path: Path, cursor: TranscriptCursor) -> None:
        self.path = path
        self._offset = 0
        self._inode = 0
        self._tail = b""  # before the offset
        self._last = cursor  # the last line that was read
        self._skipping = False  # the rest of a line that is too long

    def decode(self, raw: bytes) -> JsonDict | None:
        """None: the line says nothing to us, or is none."""
        raise NotImplementedError

    def open(self) -> int:
        """A descriptor. It never waits, also where the path is a pipe's."""
        return os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)

    def read(self) -> tuple[list[TranscriptLine], bool]:
        """What was added, as far as it is whole; and whether there is more. Raises OSError."""
        descriptor = self.open()
        try:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                raise OSError(f"{self.path} is not a regular file")
            if about.st_ino != self._inode or about.st_size < self._offset or not self._at_line(descriptor):
                # It is new to us, or another one, or the harness has taken lines out of it.
                self._inode = about.st_ino
                self._locate(descriptor, about.st_size)
            return self._read(descriptor)
        finally:
            os.close(descriptor)

    def _at_line(self, descriptor: int) -> bool:
        return os.pread(descriptor, len(self._tail), self._offset - len(self._tail)) == self._tail

    def _read(self, descriptor: int) -> tuple[list[TranscriptLine], bool]:
        data, more = _whole_lines(descriptor, self._offset)
        if data is None:
            self._offset += MAX_LINE
            self._skipping, self._tail = True, b""
            return [], True
        start, lines = self._offset, list[TranscriptLine]()
        self._offset += len(data)
        self._tail = data[-TAIL_BYTES:] or self._tail
        for raw in data.splitlines(keepends=True):
            begin, start = start, start + len(raw)
            if self._skipping:
                self._skipping = False
                continue
            if (message := self.decode(raw)) is not None:
                line = TranscriptLine(begin, message)
                lines.append(line)
                if line.id:
                    self._last = TranscriptCursor(begin, line.id)
        return lines, more

    def _locate(self, descriptor: int, size: int) -> bool:
        """Go on after the last line that was read, wherever it is now. Where it is no more (False), at the end: nothing
        is told twice."""
        self._offset, self._skipping, self._tail = 0, False, b""
        wanted = self._last
        if not wanted.line:
            return True
        line = _line_at(descriptor, wanted.start) if wanted.start < size else b""
        if wanted.line.encode() in line and TranscriptLine(0, self.decode(line) or {}).id == wanted.line:
            self._go_on_after(wanted.start, line)
            return True
        while True:
            lines, more = self._read(descriptor)
            for line in lines:
                if line.id == wanted.line:
                    self._last = TranscriptCursor(line.start, line.id)
                    self._go_on_after(line.start, _line_at(descriptor, line.start))
                    return True
            if not more:
                return False

    def _go_on_after(self, start: int, line: bytes) -> None:
        self._offset, self._tail = start + len(line), line[-TAIL_BYTES:]


def transcript_path(projects: Path, cwd: str, session: str, folder: str = "") -> Path:
    """Where the transcript is, or will be: in that folder of its project's. The session's id must be a plain name."""
    name = Path(folder, f"{session}.jsonl")
    expected = projects / re.sub(r"[^a-zA-Z0-9]", "-", cwd) / name
    if expected.exists():
        return expected
    try:
        with os.scandir(projects) as entries:
            for _, entry in zip(range(MAX_PROJECTS), entries, strict=False):
                if (path := Path(entry.path, name)).exists():
                    return path
    except OSError:
        pass
    return expected


def first_line(path: Path) -> bytes:
    """Of a transcript that says in it whose it is. Empty: it is not whole yet, or cannot be read."""
    try:
        line, end, _ = read_regular(path, MAX_HEAD).partition(b"\n")
    except OSError:
        return b""
    return line if end else b""


def began_at(path: Path) -> float:
    """When the session began, as its first lines say. 0: it has said nothing yet."""
    try:
        return first_time(read_regular(path, MAX_HEAD))
    except OSError:
        return 0.0


def first_time(head: bytes) -> float:
    """Of these lines. 0: none has one."""
    for raw in head.splitlines():
        with suppress(msgspec.MsgspecError):
            if at := _TIME.decode(raw).timestamp:
                return at.timestamp()
    return 0.0


def _whole_lines(descriptor: int, offset: int) -> tuple[bytes | None, bool]:
    """The whole lines from there on, of about READ_BYTES, and whether there is more. None: one is too long."""
    size = READ_BYTES
    while True:
        data = os.pread(descriptor, size, offset)
        if (end := data.rfind(b"\n")) >= 0 or len(data) < size:
            return data[: end + 1], len(data) == size
        if size >= MAX_LINE:
            return None, True
        size = min(size * 4, MAX_LINE)


def _line_at(descriptor: int, offset: int) -> bytes:
    """The line that begins there, without what follows it. Empty: it has no end, or is too long."""
    line = b""
    while len(line) < MAX_LINE and (part := os.pread(descriptor, LINE_BYTES, offset + len(line))):
        end = part.find(b"\n") + 1
        line += part[: end or None]
        if end:
            return line
    return b""
