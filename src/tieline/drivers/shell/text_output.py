"""The output of a command that speaks no JSON."""

import codecs

from ...events import Event, Text, TextDelta


class TextOutput:
    """Standard output as the answer, told in pieces as it comes. The newlines that end it are not part of it."""

    item = "text-1"

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._parts: list[str] = []
        self._held = ""  # newlines that are part of the text only if more follows
        self.size = 0

    def feed(self, chunk: bytes, *, last: bool = False) -> list[Event]:
        self.size += len(chunk)
        text = self._held + self._decoder.decode(chunk, last)
        piece = text.rstrip("\r\n")
        self._held = text[len(piece) :]
        if not piece:
            return []
        self._parts.append(piece)
        return [TextDelta(piece, self.item)]

    def finish(self) -> list[Event]:
        events = self.feed(b"", last=True)
        text = "".join(self._parts)
        return [*events, Text(text, self.item)] if text else events
