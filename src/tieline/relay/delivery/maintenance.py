"""What the active relay does by the way: note how far everything is over, and remove what is older than is kept."""

import asyncio
import contextlib
import time

from ...errors import BusError
from ..storage.store import RelayStore
from .dispatcher import Dispatcher

NOTE_S = 5.0
TRIM_S = 3600.0


class Maintenance:
    def __init__(self, ledger: RelayStore, dispatch: Dispatcher) -> None:
        self._ledger = ledger
        self._dispatch = dispatch
        self._low = -1

    async def run(self) -> None:
        """For ever."""
        trimmed = 0.0
        while True:
            await asyncio.sleep(NOTE_S)
            await self.note()
            if time.monotonic() - trimmed >= TRIM_S:
                with contextlib.suppress(BusError):
                    await self._ledger.trim(self._dispatch.last, self._dispatch.needed())
                    trimmed = time.monotonic()

    async def note(self) -> None:
        low = self._dispatch.low()
        if low > self._low:
            with contextlib.suppress(BusError):
                await self._ledger.keep_low(low)
                self._low = low
