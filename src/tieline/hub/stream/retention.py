"""What is known about the log as a whole: which one it is, how far it was trimmed. Kept on the bus, for all hubs."""

import asyncio
import logging
import time
from collections.abc import Callable

from ...bus.base import Bus
from ...errors import BusClosed, BusError, Conflict
from ...ids import new_id
from ...sessions.event_log import last_before

TABLE = "hub"
EPOCH = "epoch"
TRIMMED = "trimmed"
TRIM_EVERY_S = 3600.0

log = logging.getLogger("tieline.hub")


class Retention:
    def __init__(self, bus: Bus, keep_days: float) -> None:
        self._bus = bus
        self._table = bus.table(TABLE)
        self._keep_days = keep_days
        self.keep_after: Callable[[], int] | None = None  # the cursor of who still has to read the log

    async def epoch(self) -> str:
        """The log's id; the first hub makes it."""
        return await self._get_or_create(EPOCH, new_id())

    async def trimmed(self) -> int:
        """The last event that was removed; 0 for none."""
        return int(await self._get_or_create(TRIMMED, "0"))

    async def run(self) -> None:
        """Remove what is too old, for as long as it is run. 0 days: nothing ever is."""
        while self._keep_days > 0:
            try:
                await self.trim(time.time() - self._keep_days * 86400)
            except BusClosed:
                raise
            except BusError as error:
                log.warning("old events stay for now: %s", error)
            await asyncio.sleep(TRIM_EVERY_S)

    async def trim(self, older_than: float) -> int:
        """Remove the events from before a time. Says how many records."""
        last = await last_before(self._bus, older_than, self.keep_after() if self.keep_after is not None else None)
        if not last:
            return 0
        await self._table.put(TRIMMED, str(last).encode())  # first: whoever comes later is told in any case
        return await self._bus.trim("events.>", before=last + 1)

    async def _get_or_create(self, key: str, otherwise: str) -> str:
        entry = await self._table.get(key)
        if entry is None:
            try:
                await self._table.put(key, otherwise.encode(), expect=0)
                return otherwise
            except Conflict:
                entry = await self._table.get(key)
        return entry.value.decode() if entry is not None else otherwise
