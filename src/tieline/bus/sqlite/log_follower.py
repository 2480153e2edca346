"""Followers of the log: the records after a cursor, then new ones as they are committed, each once.

A follower that keeps up is handed records as they are committed. A slow one keeps what fits into its buffer and reads
the log from there later, so its memory is bounded and it delays no other.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from ..base import Record
from ..subjects import family, is_literal, matcher
from .record_query import CHUNK_BYTES, CHUNK_RECORDS, RecordQuery
from .transactions import Row

T = TypeVar("T")
ReadFn = Callable[[Callable[[sqlite3.Connection], T]], Awaitable[T]]


class LogFollower:
    """One pattern from one cursor on."""

    def __init__(self, pattern: str, after: int, wake: Callable[[], None]) -> None:
        self.pattern = pattern
        self.buffer: deque[Record] = deque()
        self.behind = True  # there may be more in the log than in the buffer
        self._selection = RecordQuery(pattern)
        self._cursor = after
        self._bytes = 0
        self._wake = wake
        self._reading = False
        self._meanwhile: deque[Record] = deque()  # committed while the log was being read
        self._missed = False

    def take(self) -> Record:
        record = self.buffer.popleft()
        self._bytes -= len(record.data)
        return record

    def offer(self, record: Record) -> None:
        """A record was committed."""
        if self.behind:
            if self._reading and not self._missed:
                self._missed = len(self._meanwhile) >= CHUNK_RECORDS or self._full(record)
                if not self._missed:
                    self._meanwhile.append(record)
                    self._bytes += len(record.data)
        elif len(self.buffer) >= CHUNK_RECORDS or self._full(record):
            self.behind = True
        elif record.seq > self._cursor:
            self._append(record)
            if len(self.buffer) == 1:
                self._wake()

    async def replay(self, read: "ReadFn[tuple[list[Record], int, bool]]") -> None:
        """The next chunk of the log into the (empty) buffer; with its end the follower is live."""
        self._reading, self._missed, self._bytes = True, False, 0
        self._meanwhile.clear()
        try:
            after = self._cursor
            records, upto, ended = await read(lambda connection: self._selection.read(connection, after))
        finally:
            self._reading = False
        meanwhile, self._meanwhile, self._bytes = self._meanwhile, deque(), 0
        for record in records:
            self._append(record)
        self._cursor = upto
        if ended and not self._missed:
            self.behind = False
            for record in meanwhile:
                if record.seq > upto:
                    self._append(record)

    def _append(self, record: Record) -> None:
        self.buffer.append(record)
        self._bytes += len(record.data)
        self._cursor = record.seq

    def _full(self, record: Record) -> bool:
        return self._bytes > 0 and self._bytes + len(record.data) > CHUNK_BYTES


class LogFollowers:
    """All followers. A Record is only made of a row that is followed."""

    def __init__(self) -> None:
        self._exact: dict[str, list[LogFollower]] = {}
        self._wild: dict[str, list[tuple[Callable[[str], bool], LogFollower]]] = {}

    def add(self, follower: LogFollower) -> None:
        if is_literal(follower.pattern):
            self._exact.setdefault(follower.pattern, []).append(follower)
        else:
            self._wild.setdefault(family(follower.pattern), []).append((matcher(follower.pattern), follower))

    def remove(self, follower: LogFollower) -> None:
        if is_literal(follower.pattern):
            rest = [other for other in self._exact[follower.pattern] if other is not follower]
            if rest:
                self._exact[follower.pattern] = rest
            else:
                del self._exact[follower.pattern]
        else:
            of_family = self._wild[family(follower.pattern)]
            of_family[:] = [item for item in of_family if item[1] is not follower]
            if not of_family:
                del self._wild[family(follower.pattern)]

    def offer(self, rows: Iterable[Row]) -> None:
        if not self._exact and not self._wild:
            return
        for seq, subject, at, headers, data in rows:
            exact = self._exact.get(subject)
            wild = self._wild.get(family(subject)) if self._wild else None
            if exact is None and wild is None:
                continue
            record = Record(subject, seq, data, headers or {}, at)
            for follower in exact or ():
                follower.offer(record)
            for matches, follower in wild or ():
                if matches(subject):
                    follower.offer(record)


class Bell:
    """Wakes its waiter, or, if there is none, the next one at once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._rung = False

    def ring(self) -> None:
        if self._waiter is None or self._waiter.done():
            self._rung = True
        else:
            self._waiter.set_result(None)

    def wait(self) -> "asyncio.Future[None]":
        """To be awaited at once: it is done when the bell was rung since the last time."""
        future = self._waiter = self._loop.create_future()
        if self._rung:
            self._rung = False
            future.set_result(None)
        return future
