"""Conversations opened ahead of their first prompt, so that a new session's first turn costs a warm one.

One is kept ready per agent, directory, policy and options that are configured or were used lately; bounded in number,
memory and age. One that was prepared for other options is never used: the whole spec is the key. Nor is one that died,
nor one that was opened with instructions or settings that have changed since (its `fingerprint`).
"""

import asyncio
import os
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..config import PoolConfig
from ..drivers.base import Driver, Spec, agent_env
from ..errors import TielineError
from ..processes import spawn
from .session import Session
from .startup_files_fingerprint import fingerprint

LOOK_S = 30.0
"""How often it is looked whether those that wait still live, and how much they hold."""


class _Ready(Struct):
    session: Session
    since: float
    wanted: float  # when somebody last did
    fingerprint: bytes

    def pids(self) -> list[int]:
        """Of those that it still has."""
        live = spawn.live()
        return [live[mark] for mark in self.session.marks if mark in live]

    @property
    def usable(self) -> bool:
        live = spawn.live()
        return self.session.alive and not any(spawn.has_exited(mark) for mark in self.session.marks if mark in live)


class _Opening(Struct):
    task: asyncio.Task[None]
    begun: bool = False


class Pool:
    """`async with Pool(limits) as pool`: everything it holds ends with it."""

    def __init__(self, limits: PoolConfig | None = None) -> None:
        self._limits = limits or PoolConfig()
        self._ready: dict[bytes, _Ready] = {}
        self._always: dict[bytes, tuple[Driver, Spec]] = {}  # those that are configured
        self._opening: dict[bytes, _Opening] = {}
        self._one_at_a_time = asyncio.Lock()  # an agent that starts takes time from those that work
        self._looking: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._clock: asyncio.TimerHandle | None = None
        self._closed = False

    async def __aenter__(self) -> "Pool":
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = self.stop_opening()
        await asyncio.gather(*tasks, return_exceptions=True)
        for key in list(self._ready):
            self._evict(key)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def stop_opening(self) -> "list[asyncio.Task[None]]":
        """The end has begun: no agent is opened ahead any more. What was being opened; it is cancelled."""
        self._closed = True
        if self._clock is not None:
            self._clock.cancel()
        tasks = [opening.task for opening in self._opening.values()]
        if self._looking is not None:
            tasks.append(self._looking)
        for task in tasks:
            task.cancel()
        return tasks

    def __len__(self) -> int:
        return len(self._ready)

    async def take(self, driver: Driver, spec: Spec) -> Session | None:
        """One that is ready for exactly this, or is just being opened for it."""
        key = _key(driver, spec)
        if opening := self._opening.get(key):
            if opening.begun:
                await asyncio.wait({opening.task})
            else:  # it waits behind others: whoever wants it is faster alone
                opening.task.cancel()
        if key not in self._ready:
            return None
        now = await asyncio.to_thread(fingerprint, spec.cwd, agent_env(driver, spec.env))
        ready = self._ready.get(key)
        if ready is None:  # somebody else was faster
            return None
        if not ready.usable or ready.fingerprint != now or time.monotonic() - ready.since >= self._limits.age_s:
            self._evict(key)
            return None
        del self._ready[key]
        return ready.session

    def prepare(self, driver: Driver, spec: Spec, *, always: bool = False) -> None:
        """Have one ready, opened in the background. `always`: also when it was not used for long."""
        key = _key(driver, spec)
        if self._closed or self._limits.number < 1 or not driver.features.warm or spec.resume:
            return
        if always and len(self._always) < self._limits.number:
            self._always[key] = driver, spec
            self._tend()
        elif key in self._ready:
            self._ready[key].wanted = time.monotonic()
        elif key not in self._opening and (key in self._always or len(self._always) < self._limits.number):
            self._open_soon(key, driver, spec)

    def _open_soon(self, key: bytes, driver: Driver, spec: Spec, old: _Ready | None = None) -> None:
        """`old`: in whose place. It is wanted as little as that one, and drives nobody out."""
        opening = self._opening[key] = _Opening(asyncio.create_task(self._open(key, driver, spec, old)))
        opening.task.add_done_callback(lambda _: self._opening.pop(key, None))

    async def _open(self, key: bytes, driver: Driver, spec: Spec, old: _Ready | None) -> None:
        wanted = old.wanted if old else time.monotonic()
        async with self._one_at_a_time:
            self._opening[key].begun = True
            if old and len(self._ready) >= self._limits.number:
                return
            while len(self._ready) >= self._limits.number:
                await asyncio.wait({self._evict(self._last_wanted())})
            with suppress(TielineError, OSError):  # it fails again, and is told, when somebody really wants it
                before = await asyncio.to_thread(fingerprint, spec.cwd, agent_env(driver, spec.env))
                session = Session(driver, replace(spec, ahead=True), ask_expiry_s=None)
                async with AsyncExitStack() as stack:
                    await stack.enter_async_context(session)
                    await session.warm_up()
                    stack.pop_all()  # it is the pool's from here on
                since = old.since if old else time.monotonic()
                self._ready[key] = _Ready(session, since, wanted, before)
        self._tend()

    def _last_wanted(self) -> bytes:
        """Of those that are not configured, if there are any."""
        return min(self._ready, key=lambda key: (key in self._always, self._ready[key].wanted))

    def _tend(self, *, look: bool = False) -> None:
        """Let go of what is dead, too old or too much, and `look` whether the rest was opened with what is there now;
        again later."""
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        if self._closed:
            return
        now = time.monotonic()
        for key, ready in list(self._ready.items()):
            if not ready.usable or now - ready.since >= self._limits.age_s:
                self._evict(key)
        held = {key: memory_mb(ready.pids()) for key, ready in self._ready.items()}
        while held and sum(held.values()) > self._limits.memory_mb:
            key = self._last_wanted()
            del held[key]
            self._always.pop(key, None)  # it does not fit: opening it again would only be in vain again
            self._evict(key)
        for key, (driver, spec) in self._always.items():
            if key not in self._ready and key not in self._opening:
                self._open_soon(key, driver, spec)
        if look and (self._looking is None or self._looking.done()):  # a file system may keep the last look waiting
            self._looking = asyncio.create_task(self._look_again())
        if self._ready or self._always:
            oldest = min((ready.since for ready in self._ready.values()), default=now)
            wait = max(0.01, oldest + self._limits.age_s - now)
            self._clock = asyncio.get_running_loop().call_later(min(wait, LOOK_S), lambda: self._tend(look=True))

    async def _look_again(self) -> None:
        """Another one in the place of each whose fingerprint has changed."""
        for key, ready in list(self._ready.items()):
            driver, spec = ready.session.driver, ready.session.spec
            now = await asyncio.to_thread(fingerprint, spec.cwd, agent_env(driver, spec.env))
            if now != ready.fingerprint and self._ready.get(key) is ready:
                self._evict(key)
                self._open_soon(key, driver, spec, ready)

    def _evict(self, key: bytes) -> asyncio.Task[None]:
        task = asyncio.create_task(self._ready.pop(key).session.close())
        self._closing.add(task)
        task.add_done_callback(self._evicted)
        return task

    def _evicted(self, task: asyncio.Task[None]) -> None:
        self._closing.discard(task)
        if not task.cancelled():
            task.exception()  # nobody waits for it; what it held is killed in any case


def memory_mb(pids: list[int]) -> float:
    """The memory of these processes, each the leader of a session, and their descendants. 0: it is unknown."""
    total = 0
    for directory in Path("/proc").glob("[0-9]*") if pids else ():
        with suppress(OSError, ValueError, IndexError):
            after_name = (directory / "stat").read_text().rpartition(")")[2].split()
            if int(after_name[3]) in pids:
                total += int(after_name[21]) * os.sysconf("SC_PAGE_SIZE")
    return total / 1e6


def _key(driver: Driver, spec: Spec) -> bytes:
    return driver.name.encode() + b"\0" + msgspec.json.encode(spec, order="sorted")
