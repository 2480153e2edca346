"""Conversations opened ahead of their first prompt, so that a new session's first turn costs a warm one.

One is kept ready per agent, directory, policy and options that were used lately or are configured; bounded in number,
memory and age. One that was prepared for other options is never used: the whole spec is the key.
"""

import asyncio
import time
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from msgspec import Struct

from ..drivers.base import Driver, Spec
from ..errors import TielineError
from ..wire import launch
from .session import Session

PAGE = 4096


class PoolLimits(Struct, frozen=True):
    number: int = 2
    memory_mb: int = 1500
    age_s: float = 900.0


class _Ready(Struct):
    session: Session
    since: float
    pids: tuple[int, ...]


class Pool:
    """`async with Pool(limits) as pool`: everything it holds ends with it."""

    def __init__(self, limits: PoolLimits | None = None) -> None:
        self._limits = limits or PoolLimits()
        self._ready: OrderedDict[bytes, _Ready] = OrderedDict()
        self._opening: dict[bytes, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._clock: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> "Pool":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._clock is not None:
            self._clock.cancel()
        for task in self._opening.values():
            task.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        await asyncio.gather(*(ready.session.close() for ready in self._ready.values()), return_exceptions=True)
        await asyncio.gather(*self._closing, return_exceptions=True)
        self._ready.clear()

    def __len__(self) -> int:
        return len(self._ready)

    async def take(self, driver: Driver, spec: Spec) -> Session | None:
        """One that is ready for exactly this, or is just being opened for it."""
        key = _key(driver, spec)
        if opening := self._opening.get(key):
            await asyncio.wait({opening})
        ready = self._ready.pop(key, None)
        return ready.session if ready else None

    def prepare(self, driver: Driver, spec: Spec) -> None:
        """Open one in the background, unless there is one, or no room even after the oldest went."""
        key = _key(driver, spec)
        if self._limits.number < 1 or not driver.features.warm or spec.resume:
            return
        if key in self._ready:
            self._ready.move_to_end(key)
        elif key not in self._opening:
            task = asyncio.create_task(self._open(key, driver, spec))
            self._opening[key] = task
            task.add_done_callback(lambda _: self._opening.pop(key, None))

    async def _open(self, key: bytes, driver: Driver, spec: Spec) -> None:
        while len(self._ready) >= self._limits.number:
            self._evict(next(iter(self._ready)))
        before = set(launch.live())
        session = Session(driver, spec)
        with suppress(TielineError):  # it fails again, and is told, when somebody really wants it
            await session.__aenter__()
            pids = tuple(pid for mark, pid in launch.live().items() if mark not in before)
            self._ready[key] = _Ready(session, time.monotonic(), pids)
            self._tend()

    def _tend(self) -> None:
        """Let go of what is too old or too much; look again when the next one will be."""
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        now = time.monotonic()
        for key, ready in list(self._ready.items()):
            if now - ready.since >= self._limits.age_s:
                self._evict(key)
        while self._ready and sum(map(memory_mb, self._ready.values())) > self._limits.memory_mb:
            self._evict(next(iter(self._ready)))
        if self._ready:
            oldest = min(ready.since for ready in self._ready.values())
            wait = max(0.01, oldest + self._limits.age_s - now)
            self._clock = asyncio.get_running_loop().call_later(min(wait, 30.0), self._tend)

    def _evict(self, key: bytes) -> None:
        task = asyncio.create_task(self._ready.pop(key).session.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def memory_mb(ready: _Ready) -> float:
    """What its processes hold; 0 where it cannot be told."""
    total = 0
    for pid in ready.pids:
        with suppress(OSError, ValueError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    return total / 1e6


def _key(driver: Driver, spec: Spec) -> bytes:
    import msgspec

    return driver.name.encode() + b"\0" + msgspec.json.encode(spec, order="sorted")
