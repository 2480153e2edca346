"""Which times of a schedule are due. Pure."""

import re

from ..drivers.base import Attachment
from ..errors import UsageError
from ..protocol.schedules import ScheduleFields
from ..sessions.git_repository import is_branch_name
from . import cron
from .records import ScheduleRecord

MAX_PROMPT = 200_000
MAX_ATTACHED = 512 * 1024
"""Bytes of all attachments: they are in the schedule's record."""
NEVER = float("inf")
LOOK_BACK_S = (3600.0, 86400.0, 40 * 86400.0, 400 * 86400.0, cron.SEARCH_DAYS * 86400.0)
"""How far back the last due time is looked for: most are near, and not all times in between need be counted."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_WORDS = re.compile(r"[a-z0-9]+")


def next_time(schedule: ScheduleFields, after: float) -> float:
    """The first time after that moment; NEVER when there is none."""
    zone = cron.time_zone(schedule.zone)
    if schedule.once:
        moment = cron.parse_once(schedule.once, zone)
        return moment if moment > after else NEVER
    return cron.parse(schedule.cron).after(after, zone)


def last_due(schedule: ScheduleRecord, now: float) -> float:
    """The last time that is due and not handled yet; 0 when none is."""
    for back in LOOK_BACK_S:
        start = max(schedule.handled_at, now - back)
        due = 0.0
        while (following := next_time(schedule, due or start)) <= now:
            due = following
        if due or start == schedule.handled_at:
            return due
    return 0.0


def coming(record: ScheduleRecord, now: float, count: int) -> tuple[float, ...]:
    return () if record.paused else times_after(record, max(now, record.handled_at), count)


def times_after(schedule: ScheduleFields, after: float, count: int) -> tuple[float, ...]:
    times: list[float] = []
    while len(times) < count and (after := next_time(schedule, after)) != NEVER:
        times.append(after)
    return tuple(times)


def check_when(schedule: ScheduleFields) -> None:
    """Raises UsageError, which names the field."""
    if bool(schedule.cron) == bool(schedule.once):
        raise UsageError("give either a cron expression or a time", field="cron", hint='For instance "0 9 * * 1-5".')
    next_time(schedule, 0.0)


def check(schedule: ScheduleFields, attachments: tuple[Attachment, ...] = ()) -> None:
    """Raises UsageError, which names the field."""
    check_when(schedule)
    if not _NAME.fullmatch(schedule.name):
        raise UsageError("a name has 1 to 64 lowercase letters, digits and -", field="name")
    if not schedule.prompt.strip() or len(schedule.prompt) > MAX_PROMPT:
        raise UsageError(f"a prompt has 1 to {MAX_PROMPT:,} characters", field="prompt")
    if schedule.branch and not is_branch_name(schedule.branch):
        hint = "Letters, digits, - and / are safe."
        raise UsageError(f"{schedule.branch!r} cannot begin the name of a branch", field="branch", hint=hint)
    if schedule.timeout_s is not None and not schedule.timeout_s > 0:
        raise UsageError("a time limit must be more than 0 seconds", field="timeout_s")
    if sum(len(each.data) for each in attachments) > MAX_ATTACHED:
        raise UsageError(
            f"all attachments have at most {MAX_ATTACHED:,} bytes",
            field="attachments",
            hint="Put large files where the agent can read them and name their path in the prompt.",
        )
    for index, each in enumerate(attachments):
        if each.path:
            hint = "Send its content as `data` (base64) with its `media_type`."
            raise UsageError(
                "an attachment of a schedule cannot be a path", field=f"attachments[{index}].path", hint=hint
            )


def name_from(prompt: str) -> str:
    """A name from the prompt's first words."""
    words = _WORDS.findall(prompt.lower())[:5]
    return "-".join(words)[:40].strip("-") or "schedule"
