"""The events that were said last, in memory: bounded in number and size, found by their place in the log."""

from bisect import bisect_right

from .encoded_frames import EncodedFrame

RING_EVENTS = 10_000
RING_SIZE = 16 * 1024 * 1024
"""Events that are kept, at most so many and so many bytes of them."""
BATCH = 256
SPARE = 1000
"""Places of events that are gone, before the list is moved together."""


class RingBuffer:
    """`floor` is a cursor: everything after it is here."""

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self._frames: list[EncodedFrame | None] = []
        self._start = 0
        self._size = 0

    def append(self, frame: EncodedFrame) -> None:
        self._frames.append(frame)
        self._size += frame.size
        while (count := len(self._frames) - self._start) > RING_EVENTS or (self._size > RING_SIZE and count > 1):
            gone = self._frames[self._start]
            assert gone is not None
            self._frames[self._start] = None
            self._start += 1
            self._size -= gone.size
            self.floor = gone.seq
        if self._start > SPARE and self._start * 2 > len(self._frames):
            del self._frames[: self._start]
            self._start = 0

    def after(self, cursor: int) -> list[EncodedFrame] | None:
        """The next events after a cursor, not all of them at once; None when it does not go back that far."""
        if cursor < self.floor:
            return None
        at = bisect_right(self._frames, cursor, lo=self._start, key=_seq)
        return [frame for frame in self._frames[at : at + BATCH] if frame is not None]


def _seq(frame: EncodedFrame | None) -> int:
    return 0 if frame is None else frame.seq
