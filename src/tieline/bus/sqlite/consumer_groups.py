"""Consumers: a group leases records to whoever waits, again when a lease runs out, later when a retry says so.

Each group has one task that serves its waiting consumers, and sleeps while there is nothing to give: new records,
settled deliveries and the next lease's end ring its bell. Leases are durable before they are handed out, so that
deliveries are counted even when the consumer takes the whole process down.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

from ...errors import BusClosed
from ..base import Delivery, Record
from .database_file import SQL
from .log_follower import Bell, LogFollower, LogFollowers, ReadFn
from .transactions import LeaseClaim, Transactions
from .writer_thread import WriterThread

LONGEST_SLEEP = 3600.0
"""Clocks are set at times: nothing sleeps longer than this on the word of one."""

Key = tuple[str, str]


class ConsumeOptions(NamedTuple):
    lease_s: float
    max_deliveries: int
    max_pending: int


class ConsumerGroups:
    def __init__(self, writer: WriterThread, read: "ReadFn[Any]", feeds: LogFollowers) -> None:
        self.writer = writer
        self.read = read
        self.feeds = feeds
        self._groups: dict[Key, _Group] = {}

    async def consume(self, name: str, pattern: str, options: ConsumeOptions) -> AsyncGenerator[Delivery, None]:
        group = await self._join((name, pattern), options)
        try:
            while True:
                record, attempt = await group.next()
                lease = SqliteLease(self, group, record, attempt, options.lease_s)
                yield Delivery(record, attempt, lease, last=attempt >= options.max_deliveries)
        finally:
            await self._leave((name, pattern), group)

    async def _join(self, key: Key, options: ConsumeOptions) -> "_Group":
        while (group := self._groups.get(key)) is not None and group.stopping:
            await group.stopped.wait()
        if group is None:
            group = self._groups[key] = _Group(self, key, options)
        group.options = options
        group.consumers += 1
        try:
            await group.opened()
        except BaseException:
            await self._leave(key, group)
            raise
        return group

    async def _leave(self, key: Key, group: "_Group") -> None:
        group.consumers -= 1
        if group.consumers == 0:
            await group.stop()
            if self._groups.get(key) is group:
                del self._groups[key]

    def touched(self, key: Key) -> None:
        """A delivery of the group was settled or given back."""
        if group := self._groups.get(key):
            group.look_again()

    async def close(self) -> None:
        for group in list(self._groups.values()):
            await group.stop(BusClosed())


class _Group:
    def __init__(self, groups: ConsumerGroups, key: Key, options: ConsumeOptions) -> None:
        self.key = key
        self.options = options
        self.number = 0
        self.consumers = 0
        self.stopping = False
        self.stopped = asyncio.Event()
        self._groups = groups
        self._waiters: deque[asyncio.Future[tuple[Record, int]]] = deque()
        self._bell = Bell()
        self._room = True
        self._next_due: float | None = 0.0  # not known yet
        self._timer: asyncio.TimerHandle | None = None
        self._task = asyncio.get_running_loop().create_task(self._serve(), name=f"tieline-bus-group {key[0]}")
        self._open: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def opened(self) -> None:
        await asyncio.shield(self._open)

    async def next(self) -> tuple[Record, int]:
        if self.stopping:
            raise BusClosed
        waiter: asyncio.Future[tuple[Record, int]] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._bell.ring()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.give_back(*waiter.result())
            raise

    def look_again(self) -> None:
        self._room = True
        self._next_due = 0.0
        self._bell.ring()

    async def stop(self, error: Exception | None = None) -> None:
        """Not by cancelling: a claim on its way must come back, so that what it leased can be given back."""
        self.stopping = True
        self._fail(error or BusClosed())
        self._bell.ring()
        await self.stopped.wait()

    def give_back(self, record: Record, attempt: int) -> None:
        """Nobody is there to take it any more: it never was delivered."""
        number, key, groups = self.number, self.key, self._groups

        def job(store: Transactions) -> None:
            store.execute(SQL["give_back"], (store.now, number, record.seq, attempt))

        def done(future: "asyncio.Future[None]") -> None:
            if not future.cancelled() and future.exception() is None:  # else its lease runs out
                groups.touched(key)

        groups.writer.do(job).add_done_callback(done)

    # --- the task ---

    async def _serve(self) -> None:
        feed: LogFollower | None = None
        try:
            self.number, cursor = await self._groups.writer.do(lambda store: store.group(*self.key))
            feed = LogFollower(self.key[1], cursor, self._bell.ring)
            self._groups.feeds.add(feed)
            self._open.set_result(None)
            while not self.stopping:
                try:
                    await self._round(feed)
                except Exception as error:
                    self._fail(error)
        except Exception as error:
            self.stopping = True
            self._open.set_exception(error)
            self._open.exception()  # whoever waits for it has it; nobody may
        finally:
            if feed is not None:
                self._groups.feeds.remove(feed)
            if self._timer is not None:
                self._timer.cancel()
            self._fail(BusClosed())
            self.stopped.set()

    async def _round(self, feed: LogFollower) -> None:
        while self._waiters and self._waiters[0].done():
            self._waiters.popleft()
        want = sum(not waiter.done() for waiter in self._waiters)
        if not want:
            await self._bell.wait()
            return
        if feed.behind and not feed.buffer:
            await feed.replay(self._groups.read)
        due = self._next_due is not None and self._next_due <= time.time()
        if not due and not (self._room and feed.buffer):
            if not feed.behind or not self._room:
                self._sleep()
                await self._bell.wait()
            return
        fresh = [feed.buffer[n] for n in range(min(want, len(feed.buffer)))]
        self._room = True
        self._next_due = None
        claim = await self._groups.writer.do(self._claim(fresh, want))
        for _ in range(claim.used):
            feed.take()
        if claim.outstanding >= self.options.max_pending:
            self._room = False
        if self._next_due is None:  # else something was settled while the claim was on its way
            self._next_due = claim.next_due
        self._hand_out(claim.deliveries)

    def _claim(self, fresh: list[Record], want: int) -> Callable[[Transactions], LeaseClaim]:
        lease_s, most, max_pending = self.options
        return lambda store: store.claim(self.number, self.key[0], fresh, want, lease_s, most, max_pending)

    def _hand_out(self, deliveries: list[tuple[Record, int]]) -> None:
        for record, attempt in deliveries:
            while self._waiters:
                waiter = self._waiters.popleft()
                if not waiter.done():
                    waiter.set_result((record, attempt))
                    break
            else:
                self.give_back(record, attempt)

    def _sleep(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._next_due is not None:
            delay = min(max(self._next_due - time.time(), 0.0), LONGEST_SLEEP)
            self._timer = asyncio.get_running_loop().call_later(delay, self._bell.ring)

    def _fail(self, error: Exception) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(error)


class SqliteLease:
    def __init__(self, groups: ConsumerGroups, group: _Group, record: Record, attempt: int, lease_s: float) -> None:
        self._groups = groups
        self._key = group.key
        self._number = group.number
        self._record = record
        self._attempt = attempt
        self._lease_s = lease_s

    async def ack(self) -> None:
        await self._do(lambda store: store.execute(SQL["settle"], (self._number, self._record.seq)))

    async def retry(self, delay_s: float) -> None:
        place = (self._number, self._record.seq, self._attempt)
        await self._do(lambda store: store.execute(SQL["retry"], (store.now + delay_s, *place)))

    async def reject(self, reason: str) -> None:
        name, record, attempt = self._key[0], self._record, self._attempt
        await self._do(lambda store: store.bury(self._number, name, record, attempt, reason))

    async def extend(self) -> None:
        place = (self._number, self._record.seq, self._attempt)
        await self._do(lambda store: store.execute(SQL["extend"], (store.now + self._lease_s, *place)))

    async def _do(self, job: Callable[[Transactions], object]) -> None:
        def work(store: Transactions) -> None:
            job(store)

        future = self._groups.writer.do(work)
        future.add_done_callback(lambda _: self._groups.touched(self._key))
        await future
