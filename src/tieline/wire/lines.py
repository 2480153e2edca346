"""Bytes into lines, with a bound on purpose.

asyncio's own line reader breaks at 64 KiB; agents print lines of megabytes (a whole file in one JSON message).
"""

MAX_LINE = 64 * 1024 * 1024
"""The longest line we take. Longer ones are not JSON anybody meant; they would only eat the memory."""


class LineTooLong(ValueError):
    """A line went past the bound. `start` is what it began with, `before` the lines that came before it."""

    def __init__(self, start: bytes, limit: int, before: list[bytes]) -> None:
        super().__init__(f"a line of more than {limit} bytes, starting {start[:200]!r}")
        self.start = start[:200]
        self.limit = limit
        self.before = before


class LineSplitter:
    """Feed it chunks as they come; get the lines that they complete, without their newline."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that the data completes. Raises LineTooLong as soon as a line is too long; nothing more can be read
        from the stream then."""
        *lines, rest = data.split(b"\n")
        if lines and self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
        if self._size > self._limit or (lines and max(map(len, lines)) > self._limit):
            position = next((i for i, line in enumerate(lines) if len(line) > self._limit), len(lines))
            start = lines[position] if position < len(lines) else b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            raise LineTooLong(start, self._limit, lines[:position])
        return lines

    def end(self) -> list[bytes]:
        """The last line, if the stream ended without a newline."""
        rest = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return [rest] if rest else []
