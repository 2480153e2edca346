"""Listeners to announcements, each with a small buffer. When it is full, the oldest announcement is dropped."""

import asyncio
from collections import deque
from collections.abc import Callable

from ..errors import BusClosed
from .base import Announcement
from .subjects import family, is_literal, matcher

MAX_BUFFERED = 1024
MAX_BUFFERED_BYTES = 4 * 1024 * 1024
"""Announcements buffered for one slow listener."""


class AnnouncementListener:
    """A listener to one pattern. `put` never waits."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._buffer: deque[Announcement] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._closed = False

    def put(self, announcement: Announcement) -> None:
        self._buffer.append(announcement)
        self._bytes += len(announcement.data)
        while len(self._buffer) > MAX_BUFFERED or (self._bytes > MAX_BUFFERED_BYTES and len(self._buffer) > 1):
            self._bytes -= len(self._buffer.popleft().data)
        self._changed.set()

    def close(self) -> None:
        self._closed = True
        self._changed.set()

    async def next(self) -> Announcement:
        """The oldest buffered announcement; raises BusClosed when the bus is closed."""
        while not self._buffer:
            if self._closed:
                raise BusClosed
            self._changed.clear()
            await self._changed.wait()
        announcement = self._buffer.popleft()
        self._bytes -= len(announcement.data)
        return announcement


class AnnouncementListeners:
    """All listeners in this process."""

    def __init__(self) -> None:
        self._exact: dict[str, set[AnnouncementListener]] = {}
        self._wild: dict[str, dict[AnnouncementListener, Callable[[str], bool]]] = {}

    def add(self, listener: AnnouncementListener) -> None:
        if is_literal(listener.pattern):
            self._exact.setdefault(listener.pattern, set()).add(listener)
        else:
            self._wild.setdefault(family(listener.pattern), {})[listener] = matcher(listener.pattern)

    def remove(self, listener: AnnouncementListener) -> None:
        if is_literal(listener.pattern):
            self._exact[listener.pattern].discard(listener)
            if not self._exact[listener.pattern]:
                del self._exact[listener.pattern]
        else:
            of_family = self._wild[family(listener.pattern)]
            del of_family[listener]
            if not of_family:
                del self._wild[family(listener.pattern)]

    def announce(self, announcement: Announcement) -> None:
        for listener in self._exact.get(announcement.subject, ()):
            listener.put(announcement)
        for listener, matches in self._wild.get(family(announcement.subject), {}).items():
            if matches(announcement.subject):
                listener.put(announcement)

    def close(self) -> None:
        for listeners in (*self._exact.values(), *self._wild.values()):
            for listener in listeners:
                listener.close()
