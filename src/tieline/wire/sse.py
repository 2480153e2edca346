"""Server-sent events: bytes in, events out, however the bytes are cut.

The format is the one of the HTML standard: lines that end in LF, CR or CRLF, fields `data`, `event`, `id`,
comments, an empty line that ends an event. Nothing here reconnects: who reads the stream knows what it missed.
"""

from msgspec import Struct

from .lines import MAX_LINE, LineSplitter, LineTooLong

_BOM = b"\xef\xbb\xbf"


class EventTooLong(ValueError):
    """An event went past the bound, in one line or in many."""


class SentEvent(Struct, frozen=True):
    """One event. `data` is left as bytes: nearly always it is JSON, which is decoded from bytes."""

    data: bytes
    event: str = "message"
    id: str = ""  # the last one seen, as the standard has it


class SseParser:
    """Feed it chunks as they come; get the events that they complete."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._lines = LineSplitter(limit)
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id = ""
        self._after_cr = False
        self._fresh = True

    def feed(self, chunk: bytes) -> list[SentEvent]:
        """Raises EventTooLong; the stream is of no use after that."""
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[:1] == b"\n":  # the second half of a CRLF that was cut in two
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        try:
            lines = self._lines.feed(chunk)
        except LineTooLong as error:
            raise EventTooLong(str(error)) from None
        events: list[SentEvent] = []
        for line in lines:
            if line[:6] == b"data: ":  # all that most servers ever send
                self._add(line[6:])
            elif not line:
                if self._data:
                    events.append(self._whole())
                self._event = ""
            else:
                self._field(line)
            self._fresh = False
        return events

    def _whole(self) -> SentEvent:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data.clear()
        self._size = 0
        return SentEvent(data, self._event or "message", self._id)

    def _add(self, data: bytes) -> None:
        self._data.append(data)
        self._size += len(data) + 1
        if self._size > self._limit + 1:
            raise EventTooLong(f"an event of more than {self._limit} bytes, starting {self._data[0][:200]!r}")

    def _field(self, line: bytes) -> None:
        if self._fresh and line[:3] == _BOM:
            line = line[3:]
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        match name:
            case b"data":
                self._add(value)
            case b"event":
                self._event = value.decode(errors="replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")
            case _:
                pass  # comments, and fields that the standard tells to ignore
