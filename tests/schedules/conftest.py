"""A hub with schedules whose agents play scripts, and a clock that the test sets."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.relay.conftest import url as url

from tieline.bootstrap.relay import HubSessions
from tieline.bus import Bus, open_bus
from tieline.channels.base import SessionService
from tieline.config import Config
from tieline.drivers.scripted import Scripted
from tieline.hub.hub import Hub
from tieline.policy import Policy
from tieline.protocol.schedules import NewSchedule, ScheduleRun, ScheduleView
from tieline.schedules.clock import Clock
from tieline.schedules.due_times import last_due
from tieline.schedules.manager import ScheduleManager
from tieline.schedules.records import ScheduleStore
from tieline.schedules.scheduler import Scheduler
from tieline.script import Reply, Say
from tieline.sessions.manager import SessionManager
from tieline.testing.in_process_hub import hub_around

BOUND = 60.0
LOOK_S = 0.02
MONDAY = datetime(2026, 11, 16, 8, 0, tzinfo=UTC).timestamp()
HOUR = 3600.0


class SetClock(Clock):
    def __init__(self, now: float = MONDAY) -> None:
        self._now = now
        self._moved = asyncio.Event()

    def now(self) -> float:
        return self._now

    def move(self, seconds: float) -> None:
        self._now += seconds
        self._moved.set()
        self._moved = asyncio.Event()

    async def wait(self, seconds: float, wake: asyncio.Event) -> None:
        until = self._now + seconds
        while self._now < until and not wake.is_set():
            tasks = [asyncio.create_task(event.wait()) for event in (self._moved, wake)]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()


class SchedulesHere:
    def __init__(self, bus: Bus, sessions: SessionManager, hub: Hub, clock: SetClock, folder: Path) -> None:
        self.bus = bus
        self.sessions = sessions
        self.hub = hub
        self.clock = clock
        self.folder = folder
        self.manager = ScheduleManager(bus, clock=clock)
        self.heard: list[str] = []  # the prompts that reached the agent

    async def add(self, cron: str = "0 9 * * *", **more: object) -> ScheduleView:
        whole: dict[str, object] = {"agent": "bot", "cwd": str(self.folder), "prompt": "look around"} | more
        if "once" not in whole:
            whole["cron"] = cron
        new = NewSchedule(**whole)  # type: ignore[arg-type]
        return await self.manager.add(new, policy=Policy(), node="local", by="owner")

    async def until(self, id: str, holds: Callable[[Sequence[ScheduleRun]], bool]) -> Sequence[ScheduleRun]:
        """Its runs, the newest first, once that holds of them."""
        runs: Sequence[ScheduleRun] = ()
        try:
            async with asyncio.timeout(BOUND):
                while not holds(runs := (await self.manager.view(id)).runs):  # noqa: ASYNC110 (a table has no event)
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise AssertionError(f"not so within {BOUND:g} s: {runs}") from None
        return runs

    async def until_states(self, id: str, *states: str) -> Sequence[ScheduleRun]:
        """The states of its runs, the newest first."""
        return await self.until(id, lambda runs: tuple(str(run.outcome or run.state) for run in runs) == states)

    async def looked(self, id: str) -> None:
        """Until the scheduler has claimed its times up to now."""
        moment = self.clock.now()
        async with asyncio.timeout(BOUND):
            while last_due((await ScheduleStore(self.bus).get(id))[0], moment):  # noqa: ASYNC110 (a table has no event)
                await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def hub_on(
    url: str, folder: Path, clock: SetClock, replies: Sequence[Reply] = ((Say("All is well."),),)
) -> AsyncGenerator[SchedulesHere, None]:
    """Without a scheduler."""
    folder.mkdir(exist_ok=True)
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TIELINE_HOME": str(folder / "state")}
    config = Config(environ=env)
    heard: list[str] = []
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(open_bus(url))
        drivers = {"bot": Scripted(replies, on_model_input=heard.append)}
        sessions = await stack.enter_async_context(SessionManager(bus, config, drivers=drivers))
        hub = await stack.enter_async_context(hub_around(sessions, bus, config))
        here = SchedulesHere(bus, sessions, hub, clock, folder)
        here.heard = heard
        yield here


@asynccontextmanager
async def scheduling(
    here: SchedulesHere, sessions: SessionService | None = None, *, lease_s: int = 30
) -> AsyncGenerator[Scheduler, None]:
    service = sessions or HubSessions(here.hub)
    async with Scheduler(here.bus, service, clock=here.clock, lease_s=lease_s) as scheduler:
        yield scheduler


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/bus.db"
