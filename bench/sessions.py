"""Durable sessions: a thousand at once, memory over many turns, and first turns from the warm pool."""

import asyncio
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from tieline.bus import open_bus
from tieline.config import Config, PoolConfig
from tieline.drivers.base import Driver
from tieline.drivers.scripted import Scripted
from tieline.events import Done
from tieline.policy import Policy
from tieline.script import Reply, Say
from tieline.sessions.manager import SessionManager
from tieline.testing.wait_for import eventually

from .agents import PROMPT, agents, setting
from .rows import Row, at_least, at_most

SESSIONS = 1000
TURNS = 100_000
FULL = Policy("allow", "allow", "allow")
REPLY: Reply = (Say("one two three four", chunks=4),)


class Endless(list[Reply]):
    """A script that never ends, in no memory."""

    def __len__(self) -> int:
        return sys.maxsize

    def __getitem__(self, index: object) -> Reply:  # type: ignore[override]
        return REPLY


@asynccontextmanager
async def managing(
    driver: Driver, *, env: dict[str, str] | None = None, pool: int = 0
) -> AsyncGenerator[SessionManager, None]:
    with tempfile.TemporaryDirectory() as scratch:
        async with (
            open_bus(f"sqlite://{scratch}/bus.db") as bus,
            SessionManager(
                bus,
                Config(environ=env or {}, pool=PoolConfig(number=pool)),
                drivers={driver.name: driver},
            ) as manager,
        ):
            yield manager


async def turn(manager: SessionManager, session: str, number: int, after: int = 0) -> int:
    """One prompt, and its end seen in the log after a cursor; where that is."""
    await manager.prompt(session, PROMPT, id=f"p{number}")
    async with aclosing(manager.events(session, after=after)) as entries:
        async for entry in entries:
            if isinstance(entry.event, Done):
                assert entry.event.status == "success", entry.event
                return entry.seq
    raise AssertionError("the log ended")


def resident_kb() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


async def many() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        async with managing(Scripted(Endless())) as manager:
            alone = await manager.create("scripted", cwd=folder, policy=FULL)
            after = await turn(manager, alone.id, 0)
            start = time.perf_counter()
            for number in range(1, 201):
                after = await turn(manager, alone.id, number, after)
            single = 200 / (time.perf_counter() - start)
            before = resident_kb()
            ids = [(await manager.create("scripted", cwd=folder, policy=FULL)).id for _ in range(SESSIONS)]
            start = time.perf_counter()
            async with asyncio.timeout(300):
                await asyncio.gather(*(turn(manager, id, 0) for id in ids))
            all_ = SESSIONS / (time.perf_counter() - start)
            grown = (resident_kb() - before) / SESSIONS
    return [
        at_least(f"{SESSIONS} sessions at once: turns per second", all_, single, 0.5, "against one session by itself"),
        at_most("… memory per idle session, KB", grown, 150, 1.0, "against 150 KB"),
    ]


async def long() -> list[Row]:
    """Resident memory after a tenth of the turns and after all of them."""
    with tempfile.TemporaryDirectory() as folder:
        async with managing(Scripted(Endless())) as manager:
            ids = [(await manager.create("scripted", cwd=folder, policy=FULL)).id for _ in range(100)]

            places = dict.fromkeys(ids, 0)

            async def work(id: str, first: int, count: int) -> None:
                for number in range(first, first + count):
                    places[id] = await turn(manager, id, number, places[id])

            tenth = TURNS // 10 // len(ids)
            await asyncio.gather(*(work(id, 0, tenth) for id in ids))
            early = resident_kb()
            await asyncio.gather(*(work(id, tenth, 9 * tenth) for id in ids))
            late = resident_kb()
    return [at_most(f"memory after {TURNS:,} turns", late / 1024, early / 1024, 1.1, f"against {TURNS // 10:,}, in MB")]


async def pooled(name: str) -> list[Row]:
    """The first turn of a new session whose agent was kept ready, against a later turn of the same session. The later
    ones are taken when the next agent is ready: until then its start takes their processor."""
    agent = next(agent for agent in agents() if agent.name == name)
    firsts: list[float] = []
    laters: list[float] = []
    async with setting(agent) as (rig, cwd, env):
        model = rig.options.get("model", "")
        async with managing(rig.driver, env=env, pool=2) as manager:
            await turn(manager, (await manager.create(name, cwd=cwd, policy=FULL, model=model)).id, 0)
            for _ in range(5):
                await eventually(lambda: len(manager.pool) > 0, "the pool is not filled", timeout=60)
                session = await manager.create(name, cwd=cwd, policy=FULL, model=model)
                after = 0
                for number in range(4):
                    if number:
                        await eventually(lambda: len(manager.pool) > 0, "the pool is not filled again", timeout=60)
                    start = time.perf_counter()
                    after = await turn(manager, session.id, number, after)
                    (firsts if number == 0 else laters).append(time.perf_counter() - start)
                await manager.close(session.id)
    note = "first turn of a new session : a later one"
    return [at_most(f"{name}: from the warm pool", statistics.median(firsts), statistics.median(laters), 2.0, note)]


async def measure() -> list[Row]:
    return [*await many(), *await long(), *await pooled("claude-code"), *await pooled("gemini")]


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["many"]
    for word in wanted:
        for row in asyncio.run(
            pooled(word) if word in ("claude-code", "gemini") else long() if word == "long" else many()
        ):
            print(row)
