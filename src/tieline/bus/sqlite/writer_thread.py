"""The writer thread. Work that arrives while it commits goes into the next transaction: one fsync for all of it.

The loop hands over what gathered in one of its rounds, not each piece, so that the thread is not woken for the first of
many; and gets all outcomes of a transaction in one call.
"""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from ...errors import BusClosed, TielineError
from .database_file import lay_out, translate
from .loop_waker import LoopWaker
from .transactions import Changed, Publication, Row, Transactions

T = TypeVar("T")

MOST_AT_ONCE = 1024
"""Pieces of work in one transaction: a bound on what one failure undoes and does again."""

LAY_OUT_AFTER = 20
"""Transactions until it is worth it to lay out the write-ahead log: a short-lived process does not wait."""

LONELY = 8
"""After so many transactions of one piece each, the next piece is handed over at once instead of after the round."""

Work = tuple["asyncio.Future[Any]", Callable[[Transactions], Any] | None, Publication | None]
Committed = Callable[[list[Row], list[Changed]], None]


class WriterThread:
    def __init__(self, store: Transactions, path: str, committed: Committed) -> None:
        self._store = store
        self._path = path
        self._committed = committed  # called in the loop after each transaction
        self._loop = asyncio.get_running_loop()
        self._gathered: list[Work] = []
        self._alone = 0  # transactions of late that were one piece of work
        self._queue: SimpleQueue[list[Work] | None] = SimpleQueue()
        self._closed = False
        self._done: LoopWaker[tuple[list[Row], list[Changed], list[Work], list[Any]]] = LoopWaker(
            self._loop, self._finish
        )
        self._thread = threading.Thread(target=self._run, name="tieline-bus-writer", daemon=True)
        self._thread.start()

    def publish(self, publication: Publication) -> "asyncio.Future[int]":
        if self._closed:
            raise BusClosed
        future: asyncio.Future[int] = self._loop.create_future()
        self._gather((future, None, publication))
        return future

    def do(self, job: Callable[[Transactions], T]) -> "asyncio.Future[T]":
        """Does a job inside a transaction. It may be done twice, the first time undone: it changes the store alone."""
        if self._closed:
            raise BusClosed
        future: asyncio.Future[T] = self._loop.create_future()
        self._gather((future, job, None))
        return future

    async def close(self) -> None:
        if not self._closed:
            self._hand_over()
            self._closed = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._done.close()

    def _gather(self, work: Work) -> None:
        self._gathered.append(work)
        if self._alone >= LONELY:  # no other work will join it in this round either
            self._alone = LONELY - 1
            self._hand_over()
        elif len(self._gathered) == 1:
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        if self._gathered:
            self._queue.put(self._gathered)
            self._gathered = []

    # --- in the thread ---

    def _run(self) -> None:
        ended = laid_out = False
        transactions = 0
        while not ended:
            if not laid_out and transactions >= LAY_OUT_AFTER:
                laid_out = lay_out(self._path)
            works = self._queue.get()
            if works is None:
                return
            while len(works) < MOST_AT_ONCE and not self._queue.empty():
                more = self._queue.get()
                if more is None:
                    ended = True
                    break
                works += more
            for start in range(0, len(works), MOST_AT_ONCE):
                self._together(works[start : start + MOST_AT_ONCE])
                transactions += 1

    def _together(self, works: list[Work]) -> None:
        store = self._store
        outcomes: list[Any] = []
        try:
            first = works[0][2]
            if len(works) == 1 and first is not None and (seq := store.add(first)) is not None:
                self._done.put((store.rows, store.changes, works, [seq]))
                return
            store.begin()
            gathered: list[Publication] = []
            for _, job, publication in works:
                if publication is not None:
                    gathered.append(publication)
                elif job is not None:
                    outcomes += store.publish(gathered)
                    gathered.clear()
                    try:
                        outcomes.append(job(store))
                    except TielineError as error:  # refused before it changed anything
                        outcomes.append(_Failure(error))
            outcomes += store.publish(gathered)
            store.commit()
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                store.rollback()
            if len(works) > 1:
                for work in works:  # one of them is to blame, or none gets through: alone each gets its own answer
                    self._together([work])
                return
            self._done.put(([], [], works, [_Failure(self._translated(error))]))
        else:
            self._done.put((store.rows, store.changes, works, outcomes))

    def _translated(self, error: BaseException) -> BaseException:
        return translate(error, self._path) if isinstance(error, sqlite3.Error) else error

    def _finish(self, done: tuple[list[Row], list[Changed], list[Work], list[Any]]) -> None:
        rows, changes, works, outcomes = done
        self._alone = self._alone + 1 if len(works) == 1 else 0
        self._committed(rows, changes)  # followers first: publishers only go on to publish more
        for (future, _, _), outcome in zip(works, outcomes, strict=True):
            if not future.done():
                if type(outcome) is _Failure:
                    future.set_exception(outcome.error)
                else:
                    future.set_result(outcome)


class _Failure:
    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error
