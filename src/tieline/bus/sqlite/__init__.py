"""The bus in one SQLite file, owned by one process. `docs/bus.md` says how it keeps its promises."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

from ...errors import BusClosed, BusError, UsageError
from ..announcement_listeners import AnnouncementListener, AnnouncementListeners
from ..base import (
    MAX_RECORD,
    Announcement,
    Record,
    Stats,
    check_data,
    check_headers,
    check_id,
    check_trim,
)
from ..subjects import check_pattern, check_subject
from .database_file import SQL, connect, migrate, owned, translate
from .log_follower import Bell, LogFollower, LogFollowers
from .record_query import RecordQuery
from .tables import SqliteTable, TableWatchers
from .transactions import Changed, Row, Transactions
from .writer_thread import WriterThread

T = TypeVar("T")

READERS = 2
"""Threads that read. WAL lets them read while the writer writes; more would only wait for the interpreter."""

MEMORY = ":memory:"


@asynccontextmanager
async def open_bus(url: str) -> AsyncGenerator["SqliteBus"]:
    target = url.removeprefix("sqlite://")
    if not target or target == "/" or target.endswith("/"):
        raise UsageError(f"{url} names no file", field="bus", hint="Use sqlite:///path or sqlite://:memory:.")
    if target[0] == "/":
        target = "/" + target.lstrip("/")
    path = Path(target) if target == MEMORY else Path(target).absolute()
    async with AsyncExitStack() as stack:
        if target != MEMORY:
            try:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                stack.enter_context(owned(path))
                path.touch(mode=0o600)  # what people and agents say is in it
            except OSError as error:
                raise BusError(f"cannot open {path}: {error.strerror}", hint="Look at its permissions.") from error
        try:
            bus = await asyncio.to_thread(_prepare, str(path))
        except sqlite3.Error as error:
            raise translate(error, str(path)) from error
        bus.start()
        stack.push_async_callback(_closed, bus)
        yield bus


async def _closed(bus: "SqliteBus") -> None:
    """Also when the caller is cancelled: the lock is released after the writer is done, not before."""
    closing = asyncio.ensure_future(bus.close())
    cancelled: asyncio.CancelledError | None = None
    while not closing.done():
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    closing.result()


def _prepare(path: str) -> "SqliteBus":
    connection = connect(path)
    try:
        migrate(connection, path)
        store = Transactions(connection)
        return SqliteBus(path, store)
    except BaseException:
        connection.close()
        raise


class SqliteBus:
    """Made by `open_bus`."""

    def __init__(self, path: str, store: Transactions) -> None:
        self._path = path
        self._store = store
        self._followers = LogFollowers()
        self._listeners = AnnouncementListeners()
        self._bells: set[Bell] = set()
        self._closed = False
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="tieline-bus-reader")

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._writer = WriterThread(self._store, self._path, self._committed)
        self._tables = TableWatchers(self._writer, self._read)
        self._tables.expires_at(self._store.execute(SQL["next_expiry"]).fetchone()[0])

    async def close(self) -> None:
        self._closed = True
        for bell in self._bells:
            bell.ring()
        self._listeners.close()
        self._tables.close()
        await self._writer.close()
        await asyncio.to_thread(self._readers.shutdown)
        for connection in self._connections:
            connection.close()
        await asyncio.to_thread(self._store.connection.close)  # the last one folds the write-ahead log into the file

    # --- records ---

    async def publish(
        self, subject: str, data: bytes, *, id: str | None = None, headers: Mapping[str, str] | None = None
    ) -> int:
        return await self.publish_nowait(subject, data, id=id, headers=headers)

    def publish_nowait(
        self, subject: str, data: bytes, *, id: str | None = None, headers: Mapping[str, str] | None = None
    ) -> "asyncio.Future[int]":
        check_subject(subject)
        if type(data) is not bytes:
            data = bytes(data)
        if len(data) > MAX_RECORD:
            check_data(data)
        if id is not None:
            check_id(id)
        if headers:
            check_headers(headers)
            headers = dict(headers)
        return self._writer.publish((subject, data, id, headers))

    async def read(self, pattern: str, *, after: int = 0, follow: bool = True) -> AsyncGenerator[Record, None]:
        bell = Bell()
        follower = LogFollower(check_pattern(pattern), after, bell.ring)
        self._bells.add(bell)
        self._followers.add(follower)
        try:
            while True:
                while follower.buffer:
                    yield follower.take()
                if self._closed:
                    raise BusClosed
                if follower.behind:
                    await follower.replay(self._read)
                elif follow:
                    await bell.wait()
                else:
                    return
        finally:
            self._followers.remove(follower)
            self._bells.discard(bell)

    def table(self, name: str) -> SqliteTable:
        return SqliteTable(self._tables, name)

    async def trim(self, pattern: str, *, keep: int | None = None, before: int | None = None) -> int:
        selection = RecordQuery(check_pattern(pattern))
        check_trim(keep, before)

        def look(connection: sqlite3.Connection) -> tuple[list[int], int]:
            numbers = list(selection.numbers(connection))
            if keep is None:
                return numbers, before or 0
            if keep == 0:
                return numbers, connection.execute(SQL["newest"]).fetchone()[0] + 1
            newest: list[int] = []
            for number in numbers:
                newest += [seq for (seq,) in connection.execute(SQL["newest_of"], (number, keep))]
                newest = sorted(newest, reverse=True)[:keep]
            return numbers, newest[-1] if len(newest) == keep else 0

        await self._writer.do(lambda store: store.index())
        numbers, below = await self._read(look)
        removed = 0
        for number in numbers:
            ended = False
            while not ended:  # in steps, so that publishers wait for one at most
                step, ended = await self._writer.do(lambda store, number=number: store.trim(number, below))
                removed += step
        return removed

    async def first(self, pattern: str) -> int:
        selection = RecordQuery(check_pattern(pattern))
        return await self._read(selection.oldest)

    async def last(self, pattern: str) -> int:
        selection = RecordQuery(check_pattern(pattern))
        return await self._read(selection.newest)

    # --- announcements: one process owns the file, so every listener is in it ---

    async def announce(self, subject: str, data: bytes) -> None:
        check_subject(subject)
        check_data(data)
        if self._closed:
            raise BusClosed
        self._listeners.announce(Announcement(subject, bytes(data)))

    async def listen(self, pattern: str) -> AsyncGenerator[Announcement, None]:
        listener = AnnouncementListener(check_pattern(pattern))
        if self._closed:
            raise BusClosed
        self._listeners.add(listener)
        try:
            while True:
                yield await listener.next()
        finally:
            self._listeners.remove(listener)

    async def stats(self) -> Stats:
        return await self._read(self._look_around)

    # --- inside ---

    def _committed(self, rows: list[Row], changes: list[Changed]) -> None:
        if rows:
            self._followers.offer(rows)
        if changes:
            self._tables.offer(changes)

    async def _read(self, look: Callable[[sqlite3.Connection], T]) -> T:
        if self._closed:
            raise BusClosed
        try:
            if self._path == MEMORY:  # a memory database has one connection
                return await self._writer.do(lambda store: (store.flush(), look(store.connection))[1])
            return await self._loop.run_in_executor(self._readers, self._look, look)
        except sqlite3.Error as error:
            raise translate(error, self._path) from error

    def _look(self, look: Callable[[sqlite3.Connection], T]) -> T:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self._path, read_only=True)
            self._connections.append(connection)
        return look(connection)

    def _look_around(self, connection: sqlite3.Connection) -> Stats:
        def number(query: str) -> int:
            return connection.execute(SQL[query]).fetchone()[0]

        size = number("pages") * number("page_size")
        return Stats(number("count_records"), number("count_subjects"), size, number("last"))
