"""The lease that makes one process per bus the active one for a job; another takes over when it expires.

The holder renews the lease after a third of its time and stops by itself if that fails, before another may start.
A lease whose holder was a dead process of this machine is taken over at once.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from ..background_tasks import cancel_and_wait
from ..errors import BusError, Conflict
from ..ids import new_id
from .base import Table

KEY = "active"
RETRY_S = 2.0
"""How often a standby tries to acquire the lease."""
_holders_here: set[str] = set()
"""Holders in this process."""


class Holder(Struct, frozen=True):
    id: str
    machine: str
    pid: int
    began: str  # of the process: pids are used again
    host: str = ""

    @property
    def description(self) -> str:
        return f"process {self.pid} on {self.host}"

    @classmethod
    def new(cls) -> "Holder":
        return cls(new_id(), _machine(), os.getpid(), _process_start(os.getpid()), socket.gethostname())

    def is_dead(self) -> bool:
        """Whether the holder's process is known to be dead."""
        if not self.machine or self.machine != _machine():
            return False
        if self.pid == os.getpid() and self.began == _process_start(os.getpid()):
            return self.id not in _holders_here
        return _process_start(self.pid) != self.began


class ActiveLease:
    def __init__(self, table: Table, ttl_s: int) -> None:
        self.holder = Holder.new()
        self.other: Holder | None = None  # who holds it instead of us
        self._table = table
        self._ttl = ttl_s
        self._revision = 0
        self._until = 0.0

    @property
    def valid(self) -> bool:
        return _now() < self._until

    async def acquire(self) -> bool:
        """Whether the lease is ours now."""
        asked = _now()
        value = msgspec.json.encode(self.holder)
        try:
            entry = await self._table.get(KEY)
            expect, self.other = 0, None
            if entry is not None:
                holder = msgspec.json.decode(entry.value, type=Holder)
                if not holder.is_dead():
                    self.other = holder
                    return False
                expect = entry.revision
            self._revision = await self._table.put(KEY, value, expect=expect, ttl=self._ttl)
        except Conflict:
            return False
        self._until = asked + self._ttl * 0.8  # by our clock, before the table's expiry
        _holders_here.add(self.holder.id)
        return True

    async def renew(self) -> None:
        """Renew the lease; returns when it is lost."""
        value = msgspec.json.encode(self.holder)
        while True:
            await asyncio.sleep(max(0.01, min(self._ttl / 3, self._until - _now())))
            asked = _now()
            if asked >= self._until:
                return
            try:
                async with asyncio.timeout(self._until - asked):
                    self._revision = await self._table.put(KEY, value, expect=self._revision, ttl=self._ttl)
                self._until = asked + self._ttl * 0.8
            except Conflict:
                return
            except (BusError, TimeoutError):
                continue

    async def release(self) -> None:
        self._until = 0.0
        if self.holder.id in _holders_here:
            _holders_here.discard(self.holder.id)
            with contextlib.suppress(BusError, TimeoutError):
                async with asyncio.timeout(2.0):
                    await self._table.delete(KEY, expect=self._revision)

    async def run(
        self,
        active: Callable[[], Awaitable[None]],
        lost: Callable[[], Awaitable[None]],
        settled: Callable[[], None],
    ) -> None:
        """Runs until cancelled: acquire the lease, be active while it is held, repeat. `settled` is called when
        another process holds it."""
        while True:
            with contextlib.suppress(BusError):
                if await self.acquire():
                    try:
                        await self._run_active(active)
                    finally:
                        self._until = 0.0
                        await lost()
                    _holders_here.discard(self.holder.id)
                    continue  # renewed too late on a busy machine: unless another has it, it is ours again at once
                settled()
            await asyncio.sleep(min(self._ttl / 4, RETRY_S))

    async def _run_active(self, active: Callable[[], Awaitable[None]]) -> None:
        """Renews from the start, because activation may take long."""
        holding = asyncio.create_task(self.renew())
        try:
            await active()
            await holding
        finally:
            await cancel_and_wait(holding)


def _now() -> float:
    """Goes on while the machine sleeps, as the table's expiry does: who wakes up late must not take the lease for its
    own. `time.monotonic` stands still meanwhile."""
    return time.clock_gettime(_CLOCK)


_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""On a Mac it is CLOCK_MONOTONIC that counts sleep."""


def _machine() -> str:
    """Identifies this boot of this machine and its PID namespace."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}.{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115
    return ""


def _process_start(pid: int) -> str:
    """Start time of a process; empty if there is none."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""
