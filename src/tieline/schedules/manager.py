"""Adds, changes, removes, lists and runs schedules, through any hub of the bus."""

from contextlib import suppress

from msgspec.structs import asdict, replace

from ..bus.base import Bus
from ..errors import ConcurrentChange, Conflict, UsageError
from ..ids import new_id
from ..policy import Policy
from ..protocol.schedules import NewSchedule, ScheduleChange, ScheduleFields, ScheduleRun, ScheduleView
from .clock import Clock
from .due_times import check, check_when, coming, name_from, times_after
from .records import KEEP_RUNS, ScheduleRecord, ScheduleStore, new_run, wanted_mark
from .scheduler import after_others

MAX_SCHEDULES = 500
COMING = 5
"""Coming times that are shown of one schedule."""
TRIES = 10
"""A change is made again when the schedule was changed meanwhile."""
_WHEN = ("cron", "once", "zone")
_LIMITS = frozenset({"timeout_s", "max_turns", "max_budget_usd"})


class ScheduleManager:
    def __init__(self, bus: Bus, *, clock: Clock | None = None) -> None:
        self._store = ScheduleStore(bus)
        self._clock = clock or Clock()

    async def views(self) -> list[ScheduleView]:
        """By name, each with its next time and its last run."""
        runs = await self._store.all_runs()
        records = sorted(await self._store.all(), key=lambda record: (record.name, record.id))
        return [self._view(record, runs.get(record.id, [])[:1], 1) for record in records]

    async def view(self, id: str) -> ScheduleView:
        record, _ = await self._store.get(id)
        kept = (await self._store.runs_of(id))[::-1][:KEEP_RUNS]
        return self._view(record, [each.run for each in kept], COMING)

    def times(self, schedule: ScheduleFields, count: int) -> tuple[float, ...]:
        """The coming times of what is not added yet. Raises UsageError, which names the field."""
        check_when(schedule)
        return times_after(schedule, self._clock.now(), count)

    async def add(self, new: NewSchedule, *, policy: Policy, node: str, by: str, key: str = "") -> ScheduleView:
        """The same id or key again is the same schedule."""
        id = new.id or key or new_id()
        known = await self._store.all()
        if any(record.id == id for record in known):
            return await self.view(id)
        if len(known) >= MAX_SCHEDULES:
            raise UsageError(f"there are {len(known)} schedules", field="schedule", hint="Remove some of them first.")
        fields = {name: getattr(new, name) for name in ScheduleFields.__struct_fields__}
        fields |= {"policy": policy, "node": node, "name": new.name or _free_name(name_from(new.prompt), known)}
        now = self._clock.now()
        record = ScheduleRecord(
            id=id,
            attachments=new.attachments,
            paused=new.paused,
            created_at=now,
            created_by=by,
            handled_at=now,
            **fields,
        )
        check(record, record.attachments)
        if record.once and not coming(replace(record, paused=False), now, 1):
            raise UsageError(
                f"{record.once} in {record.zone} is in the past", field="once", hint="Give a time in the future."
            )
        _check_name(record, known)
        with suppress(Conflict):  # the same request, twice at once
            await self._store.put(record, expect=0)
        return await self.view(id)

    async def change(self, id: str, change: ScheduleChange, *, policy: Policy | None) -> ScheduleView:
        wanted = {name: value for name, value in asdict(change).items() if value is not None}
        if policy is not None:
            wanted["policy"] = policy
        for limit in _LIMITS & wanted.keys():
            wanted[limit] = wanted[limit] or None
        if change.cron and change.once:
            raise UsageError("give either a cron expression or a time", field="cron")
        if change.cron:
            wanted["once"] = ""
        elif change.once:
            wanted["cron"] = ""
        if change.branch and change.worktree is False:
            raise UsageError("a branch needs a worktree", field="branch", hint="Give one of the two.")
        if change.worktree is False:
            wanted["branch"] = ""  # it would mean a worktree
        for _ in range(TRIES):
            before, revision = await self._store.get(id)
            record = replace(before, **wanted)
            if any(getattr(record, name) != getattr(before, name) for name in _WHEN) or before.paused > record.paused:
                record = replace(record, handled_at=self._clock.now())  # earlier times count no more
            check(record, record.attachments)
            if record.name != before.name:
                _check_name(record, await self._store.all())
            with suppress(Conflict):
                await self._store.put(record, expect=revision)
                return await self.view(id)
        raise ConcurrentChange("schedule")

    async def remove(self, id: str) -> ScheduleView:
        """With its history. What it started goes on."""
        last = await self.view(id)
        await self._store.remove(id)
        return last

    async def run_now(self, id: str, *, by: str, key: str) -> ScheduleRun:
        """The same key again is the same run. It follows the schedule's rule for a run that has not ended."""
        record, _ = await self._store.get(id)
        runs = [each.run for each in await self._store.runs_of(id)]
        if before := next((run for run in runs if run.id.endswith(wanted_mark(key))), None):
            return before
        run = after_others(record, new_run(id, self._clock.now(), wanted=key, by=by), runs)
        if not run.is_open:
            raise UsageError(run.problem, field="schedule", hint="Wait for its end, or abort it: `tieline abort`.")
        await self._store.claim(run)
        return run

    def _view(self, record: ScheduleRecord, runs: list[ScheduleRun], count: int) -> ScheduleView:
        fields = {name: getattr(record, name) for name in ScheduleFields.__struct_fields__}
        return ScheduleView(
            id=record.id,
            attachments=tuple(each.describe().name for each in record.attachments),
            paused=record.paused,
            created_at=record.created_at,
            created_by=record.created_by,
            next=coming(record, self._clock.now(), count),
            runs=tuple(runs),
            **fields,
        )


def _free_name(name: str, known: list[ScheduleRecord]) -> str:
    taken = {record.name for record in known}
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return next(each for each in (name, *numbered) if each not in taken)


def _check_name(record: ScheduleRecord, known: list[ScheduleRecord]) -> None:
    if any(other.name == record.name and other.id != record.id for other in known):
        raise UsageError(f"there is a schedule {record.name} already", field="name", hint="Give another --name.")
