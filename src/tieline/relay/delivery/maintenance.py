"""Periodic work of the active relay: saves the low-water mark and trims old messages."""

import asyncio
import contextlib
import time

from ...errors import BusError
from ..storage.store import RelayStore
from .dispatcher import Dispatcher

SAVE_INTERVAL_S = 5.0
TRIM_INTERVAL_S = 3600.0


class Maintenance:
    def __init__(self, store: RelayStore, dispatcher: Dispatcher) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._saved_mark = -1

    async def run(self) -> None:
        """Runs until cancelled."""
        trimmed = 0.0
        while True:
            await asyncio.sleep(SAVE_INTERVAL_S)
            await self.save_low_water_mark()
            if time.monotonic() - trimmed >= TRIM_INTERVAL_S:
                with contextlib.suppress(BusError):
                    await self._store.trim(self._dispatcher.last_seq, self._dispatcher.oldest_needed())
                    trimmed = time.monotonic()

    async def save_low_water_mark(self) -> None:
        low = self._dispatcher.low_water_mark()
        if low > self._saved_mark:
            with contextlib.suppress(BusError):
                await self._store.save_low_water_mark(low)
                self._saved_mark = low
