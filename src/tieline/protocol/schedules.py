"""Schedules, as they are kept and cross a wire: when an agent is started on what, and what became of it each time."""

from typing import Literal

from msgspec import Struct

from ..drivers.base import AgentOptions, Attachment
from ..events import Outcome
from ..policy import Policy
from .request_bodies import Body

Overlap = Literal["skip", "queue"]
"""What becomes of a time at which the run before has not ended: it is skipped, or it runs afterwards."""
Missed = Literal["once", "never"]
"""What becomes of times at which nothing could be started: one run makes up for all of them, or none does."""
RunState = Literal["starting", "waiting", "running", "ended", "failed", "skipped", "missed"]
"""starting: about to be started, also when its machine is away · waiting: for the run before · running: its turn waits
or runs · ended: `outcome` says how · failed: it could not be started · skipped: the run before had not ended · missed:
nothing could be started in time."""
RunOutcome = Outcome | Literal["cancelled", "indeterminate"]

OPEN_STATES: tuple[RunState, ...] = ("starting", "waiting", "running")


class ScheduleFields(AgentOptions, frozen=True, kw_only=True):
    name: str = ""  # for people; without one it is made from the prompt
    cron: str = ""  # five fields, or @daily and the like
    once: str = ""  # instead of cron: 2026-12-01 09:00
    zone: str = "UTC"  # the time zone of both
    agent: str = ""
    cwd: str = ""
    node: str = ""  # the machine that runs it
    prompt: str = ""
    resume: str = ""  # each run begins with a copy of this conversation
    worktree: bool = False  # each run works in a git worktree of its own
    branch: str = ""  # implies it: the beginning of each run's branch, which goes on with its time
    timeout_s: float | None = None
    overlap: Overlap = "skip"
    missed: Missed = "once"


class NewSchedule(Body, ScheduleFields, frozen=True, kw_only=True):
    id: str = ""  # the client's own, so that sending twice is harmless
    attachments: tuple[Attachment, ...] = ()
    paused: bool = False


class ScheduleChange(Body, frozen=True, kw_only=True):
    """What is None stays; an empty value, or a limit of 0, takes away what was set. Giving `cron` or `once` replaces
    the other. Without a worktree there is no branch."""

    name: str | None = None
    cron: str | None = None
    once: str | None = None
    zone: str | None = None
    prompt: str | None = None
    overlap: Overlap | None = None
    missed: Missed | None = None
    timeout_s: float | None = None
    policy: Policy | str | None = None
    model: str | None = None
    effort: str | None = None
    worktree: bool | None = None
    branch: str | None = None
    paused: bool | None = None
    agent: str | None = None
    cwd: str | None = None
    node: str | None = None
    resume: str | None = None
    system: str | None = None
    accept_unenforced: bool | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None
    allowed_tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] | None = None
    arguments: tuple[str, ...] | None = None
    environment: tuple[str, ...] | None = None
    attachments: tuple[Attachment, ...] | None = None


class ScheduleRun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One time of a schedule. Its session and prompt have ids that follow from it: started twice, it is one start."""

    id: str
    schedule: str
    due_at: float
    state: RunState = "starting"
    by: str = ""  # the person who wanted it now
    session: str = ""
    prompt: str = ""
    started_at: float = 0.0
    ended_at: float = 0.0
    outcome: RunOutcome | None = None
    text: str = ""  # the beginning of its answer
    problem: str = ""

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


class ScheduleTimes(Struct, frozen=True, kw_only=True):
    """The coming times of a cron expression, or of one time."""

    next: tuple[float, ...]  # none: it is over


class ScheduleView(ScheduleFields, frozen=True, kw_only=True):
    id: str
    policy: Policy = Policy()
    attachments: tuple[str, ...] = ()  # their names
    paused: bool = False
    created_at: float = 0.0
    created_by: str = ""
    next: tuple[float, ...] = ()  # the coming times; none: it is paused, or over
    runs: tuple[ScheduleRun, ...] = ()  # the newest first
