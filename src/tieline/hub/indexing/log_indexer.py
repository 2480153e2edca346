"""Reads a family of records, in batches and in order, for those that derive something from it.

Each consumer has a cursor of its own, which it keeps in the same write as what it derived: after a crash it goes on
there, so nothing is missed and nothing counts twice. Records are gathered for a moment before they are read, so that a
busy log costs its writers a few reads a second and not one for each event.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Protocol

from ...background_tasks import background, cancel_and_wait
from ...bus.base import Bus, Record
from ...errors import BusClosed, BusError

GATHER_S = 0.5
"""How long new records are gathered."""
BATCH = 500
BATCH_BYTES = 4 * 1024 * 1024
"""Records that a consumer is given at once, at most, and their bytes."""
RETRY_S = 2.0
SYNC_S = 2.0
"""How long a request waits for what was written just before it."""

log = logging.getLogger("tieline.hub")


class LogConsumer(Protocol):
    @property
    def cursor(self) -> int:
        """All records up to it are taken."""
        ...

    async def take(self, records: Sequence[Record], upto: int) -> None:
        """Records after its cursor, in order, and the new cursor. Raises BusError for what can be tried again."""
        ...


class LogIndexer:
    """`async with LogIndexer(bus, "events.>", consumers)`: inside, they are kept up to date."""

    def __init__(self, bus: Bus, pattern: str, consumers: Sequence[LogConsumer]) -> None:
        self.goal = 0  # where the log ended when it was last looked at
        self._bus = bus
        self._pattern = pattern
        self._consumers = tuple(consumers)
        self._hurry = asyncio.Event()
        self._advanced = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "LogIndexer":
        self._task = background(self._run(), f"index-{self._pattern}")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            await cancel_and_wait(self._task)

    @property
    def cursor(self) -> int:
        """How far all of its consumers are."""
        return min(consumer.cursor for consumer in self._consumers)

    async def sync(self, seconds: float = SYNC_S) -> bool:
        """Wait until all that is in the log now is taken, but not for long. Says whether it is."""
        goal = await self._bus.last(self._pattern)
        self._hurry.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._advanced:
                await self._advanced.wait_for(lambda: self.cursor >= goal)
        return self.cursor >= goal

    async def _run(self) -> None:
        while True:
            try:
                await self._catch_up()
                await self._wait_for_news()
            except BusClosed:
                raise
            except BusError as error:
                log.warning("%s is not indexed for now: %s", self._pattern, error)
                await asyncio.sleep(RETRY_S)

    async def _wait_for_news(self) -> None:
        """Until there is a record after the cursor, and a moment longer for those that follow it."""
        async with aclosing(self._bus.read(self._pattern, after=self.cursor)) as records:
            async for _ in records:
                break
        with suppress(TimeoutError):
            async with asyncio.timeout(GATHER_S):
                await self._hurry.wait()
        self._hurry.clear()

    async def _catch_up(self) -> None:
        self.goal = await self._bus.last(self._pattern)
        batch: list[Record] = []
        size = 0
        async with aclosing(self._bus.read(self._pattern, after=self.cursor, follow=False)) as records:
            began = time.monotonic()
            async for record in records:
                batch.append(record)
                size += len(record.data)
                if len(batch) >= BATCH or size >= BATCH_BYTES:
                    await self._give(batch)
                    batch, size = [], 0
                    # A long log is half of our time: whoever uses the hub meanwhile has the other half.
                    await asyncio.sleep(time.monotonic() - began)
                    began = time.monotonic()
        if batch:
            await self._give(batch)
        async with self._advanced:
            self._advanced.notify_all()

    async def _give(self, batch: Sequence[Record]) -> None:
        upto = batch[-1].seq
        for consumer in self._consumers:
            if consumer.cursor < upto:
                await consumer.take([record for record in batch if record.seq > consumer.cursor], upto)
        self.goal = max(self.goal, upto)
        async with self._advanced:
            self._advanced.notify_all()
