"""The hub's search over all sessions, messages and asks: feeds the index from the logs, keeps it bounded, and searches.

Each hub has an index of its own in its state directory, on whichever bus. What is trimmed from the logs, or belongs to
a session that is removed, leaves the index too. Without FTS5, or with a disk that takes no index, the hub runs without
it.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ...background_tasks import background, cancel_and_wait
from ...bus.base import Bus, Record
from ...errors import BusClosed, BusError, BusUnavailable
from ...protocol.search import SearchHit, SearchKind, SearchResults, SessionHit
from ...relay.storage.store import MESSAGE_LOG
from ...sessions.event_log import EventAssembler, happened_at
from ...sessions.records import SESSIONS, SessionRecord
from ..http.problems import RequestRefused
from .log_indexer import BATCH, LogIndexer
from .search_file import Document, IndexHit, SearchFile, remove
from .search_query import match_expression, plain_words, tag
from .searchable_text import of_event, of_message
from .session_lookup import SessionLookup

EVENTS = "events"
TIDY_S = 600.0
SEARCH_S = 5.0
"""How long a search may take."""
READERS = 2
MAX_WAITING = 16
"""Searches at a time, and how many wait for them."""
MAX_SESSION_HITS = 10
AGENT_ADDRESS = "relay.agent."
REBUILDING = "the search index is being rebuilt"

log = logging.getLogger("tieline.hub")
T = TypeVar("T")


class SearchIndex:
    """`open` comes first. `events` and `messages` are consumers of their logs."""

    def __init__(self, bus: Bus, path: Path, sessions: SessionLookup) -> None:
        self.problem = "the hub is starting"  # why there is no search; empty when there is
        self.events = SearchConsumer(self, EVENTS)
        self.messages = SearchConsumer(self, MESSAGE_LOG)
        self.indexers: tuple[LogIndexer, ...] = ()  # of the two, in this order
        self.probe: Callable[[str], None] = lambda moment: None  # tests end the process here
        self._bus = bus
        self._path = path
        self._lookup = sessions
        self._assembler = EventAssembler(bus)
        self._file: SearchFile | None = None  # None: see `problem`
        self._epoch = ""
        self._rebuild = False
        self._readers = asyncio.Semaphore(READERS)
        self._waiting = 0
        self._tidy_now = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self, epoch: str) -> None:
        """`epoch` is the id of the logs. Never fails: without an index, `problem` says why."""
        self._epoch = epoch
        await self._open()
        self._task = background(self._tidy(), "search-tidy")

    async def _open(self) -> None:
        try:
            file = await asyncio.to_thread(SearchFile, self._path, self._epoch)
            file.probe = self.probe
            for consumer in (self.events, self.messages):
                consumer.cursor = await asyncio.to_thread(file.cursor, consumer.family)
            self._file, self.problem = file, ""
        except (sqlite3.Error, OSError) as error:
            self.problem = str(error) or type(error).__name__
            log.error("search is unavailable: %s", error)

    async def close(self) -> None:
        if self._task is not None:
            await cancel_and_wait(self._task)
        if self._file is not None:
            await asyncio.to_thread(self._file.close)

    # --- searching -----------------------------------------------------------------------------------------

    async def search(
        self,
        query: str,
        *,
        agent: str = "",
        project: str = "",
        session: str = "",
        kind: SearchKind | None = None,
        since: float = 0.0,
        until: float = 0.0,
        before: int = 0,
        limit: int = 50,
        sessions: Mapping[str, SessionRecord],
    ) -> SearchResults:
        """`sessions` are those that exist now: hits of other sessions are left out. Raises UsageError,
        RequestRefused."""
        filters = (("s", session), ("a", agent), ("p", project.casefold()), ("k", kind or ""))
        match = match_expression(query, [tag(name, value) for name, value in filters if value])
        file = self._file
        if file is None:
            if self._rebuild:
                raise _rebuilding()
            raise RequestRefused("Unsupported", f"search is unavailable: {self.problem}", hint="See the hub's log.")
        try:
            index_hits = await self._in_time(
                lambda: file.search(match, before=before, since=since, until=until, limit=limit + 1)
            )
        except sqlite3.Error as error:
            self._schedule_rebuild(file, error)
            raise _rebuilding() from None
        hits = [
            await self._hit(hit, sessions) for hit in index_hits[:limit] if not hit.session or hit.session in sessions
        ]
        titles = () if any((kind, before)) else _by_title(query, sessions, agent, session)
        return SearchResults(hits=tuple(hits), sessions=titles, more=len(index_hits) > limit, indexed=self.indexed())

    def indexed(self) -> float:
        """How much of the logs is in the index."""
        parts = [
            (consumer.cursor - consumer.began) / (indexer.goal - consumer.began)
            for consumer, indexer in zip((self.events, self.messages), self.indexers, strict=False)
            if indexer.goal > consumer.cursor + BATCH  # what was just said is not worth a word
        ]
        return min(parts, default=1.0)

    async def _in_time(self, work: Callable[[], T]) -> T:
        if self._waiting >= MAX_WAITING:
            raise RequestRefused("TooManyRequests", "too many searches at once", hint="Retry in a moment.", retry_s=1.0)
        self._waiting += 1
        try:
            async with asyncio.timeout(SEARCH_S):
                await self._readers.acquire()
                running = asyncio.ensure_future(asyncio.to_thread(work))
                running.add_done_callback(self._searched)
                return await asyncio.shield(running)
        except TimeoutError:
            raise RequestRefused(
                "TooManyRequests",
                "the search took too long",
                hint="Search for rarer words, or since a day.",
                retry_s=5.0,
            ) from None
        finally:
            self._waiting -= 1

    def _searched(self, task: "asyncio.Task[Any]") -> None:
        """Its thread is free again, also when nobody waited for it any longer."""
        self._readers.release()
        if not task.cancelled():
            task.exception()

    async def _hit(self, hit: IndexHit, sessions: Mapping[str, SessionRecord]) -> SearchHit:
        record = sessions.get(hit.session)
        project = (await self._lookup.about(hit.session)).project if record else ""
        return SearchHit(
            id=hit.id,
            kind=hit.kind,
            at=hit.at,
            seq=hit.seq,
            session=hit.session,
            message=hit.message,
            thread=hit.thread,
            agent=record.agent if record else "",
            project=project,
            title=record.title if record else "",
            snippet=hit.snippet,
        )

    # --- feeding -------------------------------------------------------------------------------------------

    async def take(self, family: str, records: Sequence[Record], upto: int) -> int:
        """Adds records of a log. Gives the new cursor."""
        file = self._file
        if file is None:
            if self._rebuild:
                raise BusUnavailable(REBUILDING)
            return upto  # there is none
        documents: list[Document] = []
        for record in records:
            document = await (self._of_event(record) if family == EVENTS else self._of_message(record))
            if document is not None:
                documents.append(document)
        try:
            cursor = await asyncio.to_thread(file.add, family, documents, upto)
        except sqlite3.Error as error:
            if not isinstance(error, sqlite3.OperationalError):  # no full disk and no lock
                self._schedule_rebuild(file, error)
            raise BusUnavailable(f"the search index cannot be written: {error}") from None
        if file is not self._file:
            raise BusUnavailable(REBUILDING)
        return cursor

    async def _of_event(self, record: Record) -> Document | None:
        event = await self._assembler.join(record)
        searchable = of_event(event.data) if event is not None else None
        if event is None or searchable is None:
            return None
        about = await self._lookup.about(event.session)
        if not about.exists:
            return None  # removed meanwhile
        tags = (tag("s", event.session), tag("a", about.agent), tag("p", about.project))
        return Document(
            family=EVENTS,
            seq=event.seq,
            at=event.at,
            kind=searchable.kind,
            text=searchable.text,
            session=event.session,
            tags=tags,
        )

    async def _of_message(self, record: Record) -> Document | None:
        searchable = of_message(record.data)
        if searchable is None:
            return None
        ends = (searchable.sender, record.subject.partition(".")[2])
        tags = tuple(tag("s", end.removeprefix(AGENT_ADDRESS)) for end in ends if end.startswith(AGENT_ADDRESS))
        return Document(
            family=MESSAGE_LOG,
            seq=record.seq,
            at=happened_at(record),
            kind="message",
            text=searchable.text,
            message=searchable.message,
            thread=searchable.thread,
            tags=tags,
        )

    # --- tidying -------------------------------------------------------------------------------------------

    def session_removed(self, session: str) -> None:
        self._lookup.forget(session)
        self._tidy_now.set()

    async def _tidy(self) -> None:
        while True:
            try:
                if self._rebuild:
                    await self._build_again()
                await self.tidy()
            except BusClosed:
                raise
            except (BusError, sqlite3.Error) as error:
                log.warning("the search index is not tidied for now: %s", error)
            try:
                async with asyncio.timeout(TIDY_S):
                    await self._tidy_now.wait()
            except TimeoutError:
                continue
            self._tidy_now.clear()

    async def tidy(self) -> int:
        """Removes what is no longer in the logs. Says how many documents."""
        file = self._file
        if file is None:
            return 0
        removed = 0
        there = set(await self._bus.table(SESSIONS).keys())
        for session in await asyncio.to_thread(file.sessions):
            if session not in there and await self._bus.table(SESSIONS).get(session) is None:
                removed += await asyncio.to_thread(file.remove_session, session)
        for consumer in (self.events, self.messages):
            # Nothing is there any more: all that was read is gone.
            first = await self._bus.first(f"{consumer.family}.>") or consumer.cursor + 1
            removed += await asyncio.to_thread(file.remove_before, consumer.family, first)
        return removed

    def _schedule_rebuild(self, file: SearchFile, error: sqlite3.Error) -> None:
        if file is self._file and not self._rebuild:
            log.warning("the search index is damaged and is being rebuilt: %s", error)
            self._rebuild = True
            self._tidy_now.set()

    async def _build_again(self) -> None:
        file, self._file, self.problem = self._file, None, REBUILDING
        if file is not None:
            await asyncio.to_thread(file.close)
        await asyncio.to_thread(remove, self._path)
        await self._open()
        self._rebuild = False


def _rebuilding() -> RequestRefused:
    return RequestRefused("SearchRebuilding", REBUILDING, hint="Retry in a moment.", retry_s=5.0)


class SearchConsumer:
    """One log's way into the index."""

    def __init__(self, index: SearchIndex, family: str) -> None:
        self.family = family
        self.began = 0
        self._cursor = 0
        self._index = index

    @property
    def cursor(self) -> int:
        return self._cursor

    @cursor.setter
    def cursor(self, cursor: int) -> None:
        self.began = self._cursor = cursor

    async def take(self, records: Sequence[Record], upto: int) -> None:
        self._cursor = await self._index.take(self.family, records, upto)


def _by_title(query: str, sessions: Mapping[str, SessionRecord], agent: str, session: str) -> tuple[SessionHit, ...]:
    words = plain_words(query)
    matching = [
        record
        for record in sessions.values()
        if agent in ("", record.agent)
        and session in ("", record.id)
        and all(word in f"{record.title} {record.cwd} {record.branch}".casefold() for word in words)
    ]
    matching.sort(key=lambda record: record.active_at, reverse=True)
    return tuple(
        SessionHit(
            session=record.id, title=record.title, agent=record.agent, cwd=record.cwd, active_at=record.active_at
        )
        for record in matching[:MAX_SESSION_HITS]
    )
