"""Starts agents at the times of their schedules.

Of several hubs on a bus one keeps the time; people may change schedules through any of them. A time is claimed by
putting its run into a table, where it can be put only once; then it is started. The session and the prompt have ids
that follow from the schedule and the time. So whoever is killed in between, the next one starts what was claimed, and
a start that happens twice is one start.
"""

import asyncio
import logging
import time
from contextlib import AsyncExitStack, aclosing, suppress

from msgspec.structs import replace

from ..background_tasks import background, cancel_and_wait
from ..bus.active_lease import ActiveLease
from ..bus.base import Bus, Change
from ..bus.table_cache import TableCache
from ..channels.base import SessionRequest, SessionService
from ..errors import BusClosed, BusError, Conflict, TielineError, UsageError
from ..protocol.schedules import ScheduleRun
from ..relay.scheduled_messages import SENDER
from ..sessions.turn_follower import TurnFollower
from .clock import Clock
from .due_times import NEVER, last_due, next_time
from .records import KeptRun, ScheduleRecord, ScheduleStore, UnknownSchedule, decode_run, decode_schedule, new_run

log = logging.getLogger("tieline.schedules")

LEASE_S = 30
LONGEST_WAIT_S = 30.0
"""Longest sleep before the clock is read again: it may be set, and a machine may be suspended."""
LATE_S = 300.0
"""A time is in time for so long: a hub may be restarted at that moment."""
GIVE_UP_S = 24 * 3600.0
"""How long a run is tried to be started, unless the next one is due before."""
LONGEST_RUN_S = 7 * 24 * 3600.0
"""How long a run's end is waited for; a prompt that is over is not remembered for longer."""
RETRY_S = 5.0
MAX_WAITING = 10
"""Runs of one schedule that wait for the one before."""
MAX_TEXT = 2_000
"""Characters that are kept of an answer; all of it is in the session."""


class Scheduler:
    """`async with Scheduler(bus, sessions)`."""

    def __init__(
        self, bus: Bus, sessions: SessionService, *, clock: Clock | None = None, lease_s: int = LEASE_S
    ) -> None:
        self.store = ScheduleStore(bus)
        self.clock = clock or Clock()
        self._sessions = sessions
        self._turns = TurnFollower(bus)
        self._lease = ActiveLease(bus.table("schedules-lease"), lease_s)
        self._schedules: dict[str, ScheduleRecord] = {}
        self._changed = asyncio.Event()
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()  # schedules with news while their worker may have been ending
        self._stack = AsyncExitStack()
        self._active = AsyncExitStack()

    async def __aenter__(self) -> "Scheduler":
        await self._stack.enter_async_context(self._turns)
        leading = asyncio.create_task(self._lease.run(self._activate, self._deactivate, lambda: None))
        self._stack.push_async_callback(self._lease.release)
        self._stack.push_async_callback(cancel_and_wait, leading)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    # --- the one that keeps the time ---

    async def _activate(self) -> None:
        self._schedules.clear()
        await self._active.enter_async_context(TableCache(self.store.schedules, self._on_schedule))
        tasks = background(self._watch_runs(), "schedule-runs"), background(self._keep_time(), "schedule-times")
        self._active.push_async_callback(cancel_and_wait, *tasks)

    async def _deactivate(self) -> None:
        await self._active.aclose()
        await cancel_and_wait(*self._workers.values())
        self._workers.clear()

    def _on_schedule(self, id: str, value: bytes | None, news: bool) -> None:
        if value is None:
            self._schedules.pop(id, None)
        else:
            self._schedules[id] = decode_schedule(value)
        self._changed.set()

    async def _keep_time(self) -> None:
        while True:
            self._changed.clear()
            try:
                for record in [each for each in self._schedules.values() if not each.paused]:
                    if due := last_due(record, self.clock.now()):
                        await self._claim(record, due)
            except BusClosed:
                return
            except BusError as error:  # claimed times stay claimed; the others are still due
                log.warning("schedules wait for the bus: %s", error)
                await self.clock.wait(RETRY_S, asyncio.Event())
                continue
            await self.clock.wait(self._until_next(), self._changed)

    def _until_next(self) -> float:
        times = (next_time(each, each.handled_at) for each in self._schedules.values() if not each.paused)
        return max(0.0, min(min(times, default=NEVER) - self.clock.now(), LONGEST_WAIT_S))

    async def _claim(self, record: ScheduleRecord, due: float) -> None:
        try:
            current, revision = await self.store.get(record.id)
        except UnknownSchedule:
            self._schedules.pop(record.id, None)
            return
        if current != record:  # it was changed, or paused, a moment ago: what is due is seen anew
            self._schedules[record.id] = current
            self._changed.set()
            return
        run = new_run(record.id, due)
        if record.missed == "never" and self.clock.now() - due > LATE_S:
            run = replace(run, state="missed", problem="no hub ran at that time", ended_at=self.clock.now())
        else:
            run = after_others(record, run, [kept.run for kept in await self.store.runs_of(record.id)])
            if not run.is_open:
                run = replace(run, ended_at=self.clock.now())
        await self.store.claim(run)  # another hub may have been quicker
        with suppress(Conflict):  # somebody has just changed it; this time is claimed
            handled = replace(record, handled_at=due)
            await self.store.put(handled, expect=revision)
            self._schedules[record.id] = handled

    # --- runs ---

    async def _watch_runs(self) -> None:
        """A worker for each schedule that has open runs."""
        while True:
            try:
                async with aclosing(self.store.runs.watch()) as changes:
                    async for change in changes:
                        self._on_run(change)
            except BusClosed:
                return
            except BusError:
                await self.clock.wait(RETRY_S, asyncio.Event())

    def _on_run(self, change: Change) -> None:
        if change.value is None or not (run := decode_run(change.value)).is_open:
            return
        if run.schedule in self._workers:
            self._again.add(run.schedule)
        else:
            self._workers[run.schedule] = background(self._work(run.schedule), f"schedule-{run.schedule}")

    async def _work(self, schedule: str) -> None:
        """Carries out the open runs of a schedule, one after the other."""
        while True:
            self._again.discard(schedule)
            try:
                runs = [kept for kept in await self.store.runs_of(schedule) if kept.run.is_open]
                if runs:
                    # One that runs goes first, also if a person wanted it before an older one was due.
                    await self._carry_out(min(runs, key=lambda kept: kept.run.state != "running"))
                    continue
                await self.store.trim(schedule)
            except BusClosed:
                return
            except Conflict:
                continue  # another hub was at it, or the schedule was removed: look again
            except BusError:
                await self.clock.wait(RETRY_S, asyncio.Event())
                continue
            if schedule not in self._again:  # no await from here on, so that no change is missed
                del self._workers[schedule]
                return

    async def _carry_out(self, kept: KeptRun) -> None:
        if kept.run.state != "running":
            try:
                record, _ = await self.store.get(kept.run.schedule)
            except UnknownSchedule:
                await self.store.forget(kept)
                return
            kept = await self.store.save(kept, await self._start(record, kept.run))
        if kept.run.state == "running":
            over = await self._follow(kept.run)
            await self._clean_up(kept.run)  # before its end is kept: after a crash in between it is done again
            await self.store.save(kept, over)

    async def _start(self, record: ScheduleRecord, run: ScheduleRun) -> ScheduleRun:
        now = self.clock.now()
        # One that waited for the run before is not late when its turn comes.
        began = now if run.state == "waiting" and now - run.due_at < GIVE_UP_S else run.due_at
        give_up = LATE_S if record.missed == "never" else min(GIVE_UP_S, next_time(record, began) - began)
        problem = "no hub ran at that time"
        while self.clock.now() - began <= give_up:
            try:
                await self._sessions.create(run.session, _request(record, run))
                await self._sessions.prompt(
                    run.session,
                    run.prompt,
                    record.prompt,
                    attachments=record.attachments,
                    timeout_s=record.timeout_s,
                    by=f"{SENDER}.{record.name}",
                )
                return replace(run, state="running", started_at=self.clock.now())
            except BusError:
                raise
            except UsageError as error:
                return self._over(run, state="failed", problem=f"{error.message}. {error.hint}".strip())
            except TielineError as error:  # its machine is away
                problem = error.message
                await self.clock.wait(RETRY_S, asyncio.Event())
        return self._over(run, state="missed", problem=problem)

    async def _follow(self, run: ScheduleRun) -> ScheduleRun:
        try:
            async with asyncio.timeout(max(0.0, LONGEST_RUN_S - (self.clock.now() - run.started_at))):
                end = await self._turns.end(run.session, run.prompt, after=0)
        except TimeoutError:
            return self._over(run, state="ended", outcome="indeterminate", problem="its end is not known")
        return self._over(run, state="ended", outcome=end.status, text=end.text[:MAX_TEXT], problem=end.error)

    async def _clean_up(self, run: ScheduleRun) -> None:
        """A run that changed nothing leaves no worktree behind. What one has made is a person's to merge or discard."""
        try:
            record, _ = await self.store.get(run.schedule)
            if record.worktree or record.branch:
                await self._sessions.remove_unused_worktree(run.session)
        except BusError:
            raise
        except TielineError as error:  # its machine is away, somebody goes on in it, git failed: it stays
            log.info("the worktree of a run of %s stays: %s", run.schedule, error.message)

    def _over(self, run: ScheduleRun, **changes: object) -> ScheduleRun:
        return replace(run, ended_at=self.clock.now(), **changes)


def after_others(record: ScheduleRecord, run: ScheduleRun, others: list[ScheduleRun]) -> ScheduleRun:
    """The run as it is to be claimed, beside the runs that there are."""
    ahead = [other for other in others if other.is_open and other.id != run.id]
    if not ahead:
        return run
    running = any(other.state == "running" for other in ahead)
    if record.overlap == "skip" and running:
        return replace(run, state="skipped", problem="the run before has not ended")
    if len(ahead) > MAX_WAITING:
        return replace(run, state="skipped", problem=f"{len(ahead)} runs have not ended")
    return replace(run, state="waiting")  # where nothing could be started yet, this one takes its place


def branch_of_run(branch: str, due_at: float) -> str:
    """One for each time: runs do not stand in each other's way, and none goes on with what another has left."""
    return f"{branch}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime(due_at))}" if branch else ""


def _request(record: ScheduleRecord, run: ScheduleRun) -> SessionRequest:
    return SessionRequest(
        agent=record.agent,
        cwd=record.cwd,
        title=record.name,
        node=record.node,
        fork_of=record.resume,
        worktree=record.worktree or bool(record.branch),
        branch=branch_of_run(record.branch, run.due_at),
        **record.agent_options(),
    )
