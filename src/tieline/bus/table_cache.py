"""A bus table, kept in memory: what is there, then what changes, without a gap between the two."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing

import msgspec

from ..background_tasks import background, cancel_and_wait
from ..errors import BusClosed, BusError
from .base import Change, Entry, Table

AGAIN_S = 1.0
"""Between two tries to read a table of a bus that is out of reach."""

log = logging.getLogger("tieline.hub")

Apply = Callable[[str, bytes | None, bool], None]
"""A key, its value (None: it is gone), and whether it is news: what was there at the start is not."""


class TableCache:
    """`async with TableCache(table, apply)`: inside, all that is present has been applied, and what changes is."""

    def __init__(self, table: Table, apply: Apply) -> None:
        self._table = table
        self._apply = apply
        self._keys: set[str] = set()
        self._loaded = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "TableCache":
        self.start()
        try:
            await self.wait_loaded()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def start(self) -> None:
        """For callers that start several at once: they call `wait_loaded` and `stop`, too."""
        self._task = background(self._run(), f"state-{self._table.name}")

    async def wait_loaded(self) -> None:
        """All values that were present at the start have been applied. Raises BusClosed when they never will be."""
        assert self._task is not None
        loaded = asyncio.ensure_future(self._loaded.wait())
        try:
            await asyncio.wait({loaded, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if self._task.done():
                self._task.result()  # its failure is ours
        finally:
            loaded.cancel()

    async def stop(self) -> None:
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except BusClosed:
                raise
            except BusError as error:  # the values stay; missed changes are applied when the bus is back
                log.warning("the table %s is out of reach: %s", self._table.name, error)
                await asyncio.sleep(AGAIN_S)

    async def _follow(self) -> None:
        async with aclosing(self._table.watch()) as changes:
            # The watch begins before the values are read, so that it tells what goes away meanwhile.
            first = asyncio.ensure_future(anext(changes))
            try:
                await asyncio.sleep(0)
                known = {entry.key: entry.revision for entry in self._load(await self._table.entries())}
                self._loaded.set()
                change = await first
            finally:
                await cancel_and_wait(first)
            self._changed(change, known)
            async for change in changes:
                self._changed(change, known)

    def _load(self, present: list[Entry]) -> list[Entry]:
        again = self._loaded.is_set()
        for key in self._keys - {entry.key for entry in present}:
            self._set(key, None, again)
        for entry in present:
            self._set(entry.key, entry.value, again)
        return present

    def _changed(self, change: Change, known: dict[str, int]) -> None:
        # The watch repeats values that were just read, and may lag behind them.
        read = known.get(change.key, -1)
        if change.revision >= read:
            known.pop(change.key, None)
        if change.revision <= read:
            return
        self._set(change.key, change.value, is_news=True)

    def _set(self, key: str, value: bytes | None, is_news: bool) -> None:
        (self._keys.discard if value is None else self._keys.add)(key)
        try:
            self._apply(key, value, is_news)
        except msgspec.MsgspecError as error:  # an unknown version, or damaged: the other values are kept up to date
            log.warning("%s: the value of %s is not understood: %s", self._table.name, key, error)
