"""The runners of the session manager, by session: limits idle agents and closes all of them."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from .records import AT_WORK, SessionRecord

Ending = Callable[[tuple[SessionRecord, ...]], None]
"""Told which turns are waited for at the end, each time it changes."""


LOOK_S = 1.0
"""How often it is looked whether the agents that have nothing to do still live."""


class SessionRunner(Protocol):
    """Who sees to one session: `SessionWorker` where we run its agent, `AttachedSession` where a person does."""

    record: SessionRecord

    @property
    def busy(self) -> bool:
        """Whether a turn of ours runs, whose end is waited for."""
        ...

    @property
    def resting(self) -> bool: ...

    def rest(self) -> None: ...

    def revive(self) -> None: ...

    def wake(self) -> None: ...

    def stop_starting(self) -> None: ...

    def asking(self, waits: bool) -> None: ...

    async def steer(self, text: str) -> None: ...

    async def abort(self) -> bool: ...

    async def close(self) -> None: ...


class RunningSessions(dict[str, SessionRunner]):
    def __init__(self) -> None:
        super().__init__()
        self.ending = False

    async def tend(self) -> None:
        """Bring back agents that die between two turns, until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            for runner in list(self.values()):
                runner.revive()

    def rest(self, number: int) -> None:
        """Agents are heavy: of those that have nothing to do only the last ones stay, as many as the pool holds."""
        idle = [runner for runner in self.values() if runner.resting]
        idle.sort(key=lambda runner: runner.record.active_at, reverse=True)
        for runner in idle[max(1, number) :]:
            runner.rest()

    def asking(self, session: str, waits: bool) -> None:
        if runner := self.get(session):
            runner.asking(waits)

    def wake(self, runner: SessionRunner) -> None:
        """Work on what waits, unless the end has begun: then it waits on, for the next start."""
        if not self.ending:
            runner.wake()

    def stop_starting(self) -> None:
        """The end begins: turns that run are not cut short by this, but no other begins."""
        self.ending = True
        for runner in self.values():
            runner.stop_starting()

    async def end(self, report: Ending) -> None:
        """Interrupt the running turns and end every agent. `report` is called with the sessions that still run."""
        self.stop_starting()
        running = {id: runner for id, runner in self.items() if runner.busy and runner.record.status in AT_WORK}

        async def close(id: str, runner: SessionRunner) -> None:
            try:
                await runner.close()
            finally:
                if running.pop(id, None) is not None:
                    report(tuple(runner.record for runner in running.values()))

        report(tuple(runner.record for runner in running.values()))
        await asyncio.gather(*(close(*item) for item in list(self.items())), return_exceptions=True)
