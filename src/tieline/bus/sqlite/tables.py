"""Tables: the latest value per key. A watcher holds one change per key at most, however slow it is."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

from ...errors import BusClosed, UsageError
from ..base import Change, Entry, check_put
from ..subjects import check_key, check_key_pattern, check_name, literal_prefix, matcher
from .database_file import SQL
from .log_follower import Bell, ReadFn
from .transactions import Changed, Transactions
from .writer_thread import WriterThread

PAGE = 500
LONGEST_SLEEP = 3600.0


class TableWatchers:
    """The watchers of all tables, and the timer of the next expiry."""

    def __init__(self, writer: WriterThread, read: "ReadFn[Any]") -> None:
        self.writer = writer
        self.read = read
        self._watchers: dict[str, list[_Watcher]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next = float("inf")

    def watch(self, table: str, watcher: "_Watcher") -> None:
        self._watchers.setdefault(table, []).append(watcher)

    def unwatch(self, table: str, watcher: "_Watcher") -> None:
        self._watchers[table].remove(watcher)
        if not self._watchers[table]:
            del self._watchers[table]

    def offer(self, changes: list[Changed]) -> None:
        for table, key, value, revision in changes:
            for watcher in self._watchers.get(table, ()):
                watcher.offer(Change(key, value, revision))

    def expires_at(self, when: float | None) -> None:
        """Something will be past its time then. A clock that is set back only makes the timer come too early."""
        if when is None or when >= self._next:
            return
        self._next = when
        if self._timer is not None:
            self._timer.cancel()
        delay = min(max(when - time.time(), 0.0), LONGEST_SLEEP)
        self._timer = asyncio.get_running_loop().call_later(delay, self._expire)

    def _expire(self) -> None:
        def done(future: "asyncio.Future[float | None]") -> None:
            self._next = float("inf")
            if future.cancelled():
                return
            # When it could not be written now (a full disk), it is tried again; `get` hides it meanwhile.
            self.expires_at(future.result() if future.exception() is None else time.time() + 5)

        try:
            self.writer.do(lambda store: store.expire()).add_done_callback(done)
        except BusClosed:
            return

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.closed = True
                watcher.bell.ring()


class _Watcher:
    def __init__(self, pattern: str) -> None:
        self._matches = matcher(pattern)
        self.changes: dict[str, Change] = {}
        self.bell = Bell()
        self.closed = False

    def offer(self, change: Change) -> None:
        if self._matches(change.key):
            self.changes.pop(change.key, None)  # so that the newest change comes last
            self.changes[change.key] = change
            self.bell.ring()


class SqliteTable:
    def __init__(self, tables: TableWatchers, name: str) -> None:
        self.name = check_name("table", name)
        self._tables = tables

    async def get(self, key: str) -> Entry | None:
        check_key(key)

        def look(connection: sqlite3.Connection) -> Entry | None:
            row = connection.execute(SQL["entry"], (self.name, key, time.time())).fetchone()
            return Entry(key, row[0], row[1]) if row else None

        return await self._tables.read(look)

    async def put(self, key: str, value: bytes, *, expect: int | None = None, ttl: int | None = None) -> int:
        check_key(key)
        check_put(value, expect, ttl)
        value = bytes(value)

        def job(store: Transactions) -> tuple[int, float | None]:
            return store.put(self.name, key, value, expect, ttl), store.now + ttl if ttl is not None else None

        revision, expires = await self._tables.writer.do(job)
        self._tables.expires_at(expires)
        return revision

    async def delete(self, key: str, *, expect: int | None = None) -> None:
        check_key(key)
        if expect is not None and expect < 1:
            raise UsageError("a deletion must expect a revision above 0", field="expect")
        await self._tables.writer.do(lambda store: store.delete(self.name, key, expect))

    async def watch(self, pattern: str = ">") -> AsyncGenerator[Change, None]:
        watcher = _Watcher(check_key_pattern(pattern))
        matches = matcher(pattern)
        self._tables.watch(self.name, watcher)
        try:
            last = 0
            while True:
                page = await self._tables.read(self._page(last))
                # After this, all that the page shows has also been offered, so what comes twice can be recognised.
                await self._tables.writer.do(lambda store: None)
                for key, value, revision in page:
                    newer = watcher.changes.get(key)
                    if newer is not None and newer.revision <= revision:
                        del watcher.changes[key]
                    if matches(key) and (newer is None or newer.revision <= revision):
                        yield Change(key, value, revision)
                if len(page) < PAGE:
                    break
                last = page[-1][2]
            while True:
                while watcher.changes:
                    yield watcher.changes.pop(next(iter(watcher.changes)))
                if watcher.closed:
                    raise BusClosed
                await watcher.bell.wait()
        finally:
            self._tables.unwatch(self.name, watcher)

    async def keys(self, pattern: str = ">") -> list[str]:
        return [key for (key,) in await self._select("keys", pattern)]

    async def entries(self, pattern: str = ">") -> list[Entry]:
        return [Entry(*row) for row in await self._select("entries", pattern)]

    async def _select(self, query: str, pattern: str) -> list[Any]:
        """Rows that begin with a key which matches."""
        matches = matcher(check_key_pattern(pattern))
        prefix = literal_prefix(pattern)

        def look(connection: sqlite3.Connection) -> list[Any]:
            matching: list[Any] = []
            rows = connection.execute(SQL[query], (self.name, prefix, time.time()))
            for row in rows:
                if not row[0].startswith(prefix):
                    break
                if matches(row[0]):
                    matching.append(row)
            rows.close()
            return matching

        return await self._tables.read(look)

    def _page(self, last: int) -> "Callable[[sqlite3.Connection], list[tuple[str, bytes, int]]]":
        return lambda connection: connection.execute(
            SQL["entries_after"], (self.name, last, time.time(), PAGE)
        ).fetchall()
