"""What is kept of schedules: a table of them, and one of their runs. A run's key is its time: whoever puts it first has
claimed that time, on every hub of the bus."""

import hashlib
import re

import msgspec
from msgspec import Struct

from ..bus.base import Bus, Entry
from ..drivers.base import Attachment
from ..errors import Conflict, UsageError
from ..policy import Policy
from ..protocol.schedules import ScheduleFields, ScheduleRun

KEEP_RUNS = 100
"""Runs of a schedule that are kept once they are over."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_encode = msgspec.json.encode


class ScheduleRecord(ScheduleFields, frozen=True, kw_only=True):
    id: str
    policy: Policy = Policy()
    attachments: tuple[Attachment, ...] = ()
    paused: bool = False
    created_at: float = 0.0
    created_by: str = ""
    handled_at: float = 0.0  # times up to this one are claimed, or count no more


class UnknownSchedule(UsageError):
    def __init__(self, id: str) -> None:
        super().__init__(f"there is no schedule {id}", field="schedule", hint="`tieline schedule list` shows them.")


class KeptRun(Struct, frozen=True):
    run: ScheduleRun
    revision: int


decode_schedule = msgspec.json.Decoder(ScheduleRecord).decode
decode_run = msgspec.json.Decoder(ScheduleRun).decode


def new_run(schedule: str, due_at: float, *, wanted: str = "", by: str = "") -> ScheduleRun:
    """The run of a time. `wanted`: the id of a person's wish to have one now."""
    id = f"{round(due_at):012d}{wanted_mark(wanted) if wanted else ''}"
    return ScheduleRun(
        id=id,
        schedule=schedule,
        due_at=due_at,
        by=by,
        session=_digest(f"session of {schedule} {id}")[:28],
        prompt=_digest(f"prompt of {schedule} {id}")[:28],
    )


def wanted_mark(wanted: str) -> str:
    """What the ids of runs that a person wanted end with."""
    return f"-{_digest(wanted)[:12]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class ScheduleStore:
    def __init__(self, bus: Bus) -> None:
        self.schedules = bus.table("schedules")
        self.runs = bus.table("schedule-runs")

    async def all(self) -> list[ScheduleRecord]:
        return [decode_schedule(entry.value) for entry in await self.schedules.entries()]

    async def get(self, id: str) -> tuple[ScheduleRecord, int]:
        """With its revision. Raises UnknownSchedule."""
        entry = await self.schedules.get(id) if _ID.fullmatch(id) else None
        if entry is None:
            raise UnknownSchedule(id)
        return decode_schedule(entry.value), entry.revision

    async def put(self, record: ScheduleRecord, *, expect: int) -> None:
        await self.schedules.put(record.id, _encode(record), expect=expect)

    async def remove(self, id: str) -> None:
        await self.schedules.delete(id)
        for key in await self.runs.keys(f"{id}.>"):
            await self.runs.delete(key)

    async def runs_of(self, id: str) -> list[KeptRun]:
        """The oldest first."""
        return [_kept(entry) for entry in await self.runs.entries(f"{id}.>")]

    async def all_runs(self) -> dict[str, list[ScheduleRun]]:
        """The runs of each schedule, the newest first."""
        runs_by_schedule: dict[str, list[ScheduleRun]] = {}
        for entry in reversed(await self.runs.entries()):
            run = decode_run(entry.value)
            runs_by_schedule.setdefault(run.schedule, []).append(run)
        return runs_by_schedule

    async def claim(self, run: ScheduleRun) -> bool:
        """Whether the time was still to be had."""
        try:
            await self.runs.put(_key(run), _encode(run), expect=0)
        except Conflict:
            return False
        return True

    async def save(self, kept: KeptRun, run: ScheduleRun) -> KeptRun:
        """Raises Conflict when another has changed it, or it is gone."""
        return KeptRun(run, await self.runs.put(_key(run), _encode(run), expect=kept.revision))

    async def forget(self, kept: KeptRun) -> None:
        await self.runs.delete(_key(kept.run))

    async def trim(self, id: str) -> None:
        over = [kept for kept in await self.runs_of(id) if not kept.run.is_open]
        for kept in over[:-KEEP_RUNS]:
            await self.forget(kept)


def _key(run: ScheduleRun) -> str:
    return f"{run.schedule}.{run.id}"


def _kept(entry: Entry) -> KeptRun:
    return KeptRun(decode_run(entry.value), entry.revision)
