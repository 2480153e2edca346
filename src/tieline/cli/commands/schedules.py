"""`tieline schedule`: agents that are started at their times."""

import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ... import config as configuration
from ...client.client import Client
from ...drivers.base import AgentOptions
from ...environment import variable
from ...errors import UsageError
from ...ids import short_id
from ...protocol.schedules import Missed, NewSchedule, Overlap, ScheduleChange, ScheduleRun, ScheduleView
from ...schedules.cron import time_zone
from .. import hub_connection
from ..run.run_options import (
    LISTS,
    RunOptions,
    check_options,
    options_of,
    policy_of,
    prompt_of,
    session_options,
    with_content,
)
from ..terminal.formatting import print_json, print_words, short_path
from ..terminal.sanitize import clean, one_line
from ..terminal.tables import Cell, print_rows

TITLES = ("name", "when", "zone", "next", "last", "agent", "where", "prompt")
RUN_TITLES = ("time", "what became of it", "session", "answer")
NAMES = 8
"""Cells for the name of a fact."""
RUN_STYLES = {"running": "green", "success": "green", "starting": "yellow", "waiting": "yellow"}
ZONE_LINK = Path("/etc/localtime")
LISTED_BY = "tieline schedule list"
NAMES_THERE = {"attach": "attachments", "timeout": "timeout_s"}
"""Options whose field has another name."""
LIMITS = ("timeout", "max_turns", "max_budget_usd")
POLICY_OPTIONS = frozenset({"policy", "allow", "ask", "deny"})
AGENT_FIELDS = frozenset({*AgentOptions.__struct_fields__, "resume"}) - {"policy"}
BuildChange = Callable[[Client, ScheduleView], Awaitable[ScheduleChange]]


class ScheduleOptions(Struct, frozen=True, kw_only=True):
    """What `tieline schedule add` was asked for. `run` has the prompt, the agent and how it is opened."""

    run: RunOptions
    cron: str = ""
    once: str = ""
    zone: str = ""
    name: str = ""
    node: str = ""
    overlap: Overlap = "skip"
    missed: Missed = "once"
    paused: bool = False


def add(wanted: ScheduleOptions) -> int:
    run = wanted.run
    if not run.prompt:
        hint = 'tieline schedule add "0 9 * * 1-5" "triage the new issues" --agent codex'
        raise UsageError("a time and a prompt are needed", field="prompt", hint=hint)
    check_options(replace(run, cwd="."))  # the directory may be another machine's
    if run.resume and not run.fork:
        raise _needs_fork()
    said = with_content(prompt_of(run))
    values = session_options(run, configuration.load().policy)
    if not (run.policy or run.allow or run.ask or run.deny):
        del values["policy"]  # the hub's own default counts
    values.pop("fork", None)
    # Without a machine's name the agent is meant to work where the person is.
    values["cwd"] = run.cwd if wanted.node else hub_connection.absolute_path(run.cwd or ".")

    async def work(client: Client) -> int:
        node = (await hub_connection.find_node(client, wanted.node)).id if wanted.node else ""
        made = await client.add_schedule(
            NewSchedule(
                name=wanted.name,
                cron=wanted.cron,
                once=wanted.once,
                zone=wanted.zone or local_zone(),
                agent=run.agent,
                node=node,
                prompt=said.text,
                attachments=said.attachments,
                timeout_s=run.timeout,
                overlap=wanted.overlap,
                missed=wanted.missed,
                paused=wanted.paused,
                **values,
            )
        )
        if run.json:
            print_json(made)
        else:
            print(f"{made.name}: {_coming(made)}")
        return 0

    return hub_connection.run_with_client(work)


def list_schedules(*, json: bool) -> int:
    async def work(client: Client) -> int:
        found = await client.schedules()
        if json:
            print_json(found)
            return 0
        none = 'No schedules. Add one: tieline schedule add "0 9 * * 1-5" "triage the new issues" --agent codex'
        print_rows(TITLES, [_row(each) for each in found], none, optional=("where", "agent", "zone", "last"))
        return 0

    return hub_connection.run_with_client(work)


def show(given: str, *, json: bool) -> int:
    async def work(client: Client) -> int:
        found = await client.schedule((await _find(client, given)).id)
        if json:
            print_json(found)
            return 0
        for line in _facts(found):
            print_words(clean(line), NAMES)
        if found.runs:
            print()
            print_rows(RUN_TITLES, [_run_row(found, run) for run in found.runs])
        return 0

    return hub_connection.run_with_client(work)


def pause(given: str, *, json: bool) -> int:
    return _change(given, _paused(True), json=json)


def resume(given: str, *, json: bool) -> int:
    return _change(given, _paused(False), json=json)


def edit(given: str, change: ScheduleChange, run: RunOptions, named: frozenset[str], *, json: bool) -> int:
    """`run` has how the agent is opened; of it only what is in `named` is changed."""
    if change == ScheduleChange() and not named:
        raise UsageError("nothing to change is given", field="schedule", hint="See `tieline schedule edit --help`.")
    if run.resume and not run.fork:
        raise _needs_fork()
    without_limits = replace(run, **{name: getattr(run, name) or None for name in LIMITS}, cwd=".")
    check_options(without_limits)  # a limit of 0 takes it away
    said = with_content(prompt_of(replace(run, attach=tuple(filter(None, run.attach)))))
    told: dict[str, Any] = {"prompt": said.text, "attach": said.attachments, "timeout": run.timeout}
    values = {NAMES_THERE.get(name, name): told[name] for name in told.keys() & named}
    options: Mapping[str, Any] = options_of(run, "ask")
    values |= {name: options[name] for name in named & AGENT_FIELDS}
    for name in LISTS & values.keys():
        values[name] = tuple(word for word in values[name] if word)

    async def work(client: Client, found: ScheduleView) -> ScheduleChange:
        if named & POLICY_OPTIONS:
            values["policy"] = policy_of(run, found.policy)
        if change.node:
            values["node"] = (await hub_connection.find_node(client, change.node)).id
        elif change.cwd and any(node.id == found.node and node.local for node in await client.nodes()):
            values["cwd"] = hub_connection.absolute_path(change.cwd)
        return replace(change, **values)

    return _change(given, work, json=json)


def remove(given: str, *, json: bool) -> int:
    async def work(client: Client, found: ScheduleView) -> int:
        removed = await client.remove_schedule(found.id)
        if json:
            print_json(removed)
        else:
            print(f"removed: {removed.name}")
        return 0

    return _with_schedule(given, work)


def run_now(given: str, *, json: bool) -> int:
    async def work(client: Client, found: ScheduleView) -> int:
        run = await client.run_schedule(found.id)
        if json:
            print_json(run)
        else:
            print(f"{found.name}: {run.state}; `tieline tail {short_id(run.session)}` shows it")
        return 0

    return _with_schedule(given, work)


def _paused(paused: bool) -> BuildChange:
    async def change(client: Client, found: ScheduleView) -> ScheduleChange:
        return ScheduleChange(paused=paused)

    return change


def _needs_fork() -> UsageError:
    hint = "Add --fork: each run continues in a copy."
    return UsageError("several runs cannot continue one conversation", field="resume", hint=hint)


def _change(given: str, change: BuildChange, *, json: bool) -> int:
    async def work(client: Client, found: ScheduleView) -> int:
        changed = await client.change_schedule(found.id, await change(client, found))
        if json:
            print_json(changed)
        else:
            print(f"{changed.name}: {_coming(changed)}")
        return 0

    return _with_schedule(given, work)


def _with_schedule(given: str, work: Callable[[Client, ScheduleView], Awaitable[int]]) -> int:
    async def connected(client: Client) -> int:
        return await work(client, await _find(client, given))

    return hub_connection.run_with_client(connected)


async def _find(client: Client, given: str) -> ScheduleView:
    """By its name, or a part of its id."""
    known = await client.schedules()
    named = [each for each in known if each.name == given]
    return (
        named[0] if named else hub_connection.pick("schedule", given, known, lambda each: each.id, listed_by=LISTED_BY)
    )


def local_zone() -> str:
    """The name of this machine's time zone; UTC when it has none that can be told."""
    for name in (variable("TZ").removeprefix(":"), _linked_zone()):
        if name:
            try:
                time_zone(name)
                return name
            except UsageError:
                continue
    return "UTC"


def _linked_zone() -> str:
    try:
        return os.fspath(ZONE_LINK.readlink()).partition("zoneinfo/")[2]
    except OSError:
        return ""


# --- what is shown ------------------------------------------------------------------------------------------


def _moment(schedule: ScheduleView, at: float) -> str:
    return f"{datetime.fromtimestamp(at, time_zone(schedule.zone)):%a %Y-%m-%d %H:%M}"


def _coming(schedule: ScheduleView) -> str:
    if schedule.paused:
        return "paused"
    return f"next {_moment(schedule, schedule.next[0])} ({schedule.zone})" if schedule.next else "over"


def _row(schedule: ScheduleView) -> list[Cell]:
    upcoming: Cell = _moment(schedule, schedule.next[0]) if schedule.next else ("over", "dim")
    return [
        (schedule.name, "bold"),
        one_line(schedule.cron or schedule.once, 30),
        one_line(schedule.zone, 30),
        ("paused", "yellow") if schedule.paused else upcoming,
        _became(schedule.runs[0]) if schedule.runs else ("never", "dim"),
        one_line(schedule.agent, 20),
        one_line(short_path(schedule.cwd), 40),
        one_line(schedule.prompt, 60),
    ]


def _facts(schedule: ScheduleView) -> list[str]:
    policy = schedule.policy
    late = {"once": "one run makes up for those that were missed", "never": "missed ones are not made up for"}
    busy = {"skip": "skipped while a run has not ended", "queue": "runs wait for the one before"}
    facts = {
        "name": f"{schedule.name} ({schedule.id})",
        "when": f"{schedule.cron or f'once, {schedule.once}'} · {schedule.zone}",
        "next": ", ".join(_moment(schedule, at) for at in schedule.next) or _coming(schedule),
        "rules": f"{busy[schedule.overlap]}; {late[schedule.missed]}",
        "agent": " · ".join(part for part in (schedule.agent, schedule.model, schedule.effort) if part),
        "where": short_path(schedule.cwd),
        "tree": _worktrees(schedule),
        "policy": f"file_write {policy.file_write}, shell {policy.shell}, network {policy.network}",
        "limits": _limits(schedule),
        "tools": _tools(schedule),
        "opened": " ".join((*schedule.environment, *schedule.arguments)),
        "system": schedule.system,
        "resumes": schedule.resume,
        "files": ", ".join(schedule.attachments),
        "by": schedule.created_by,
        "prompt": schedule.prompt,
    }
    return [f"{name:<{NAMES}}{value}" for name, value in facts.items() if value]


def _worktrees(schedule: ScheduleView) -> str:
    if schedule.branch:
        return f"one for each run, on {schedule.branch}-…"
    return "one for each run" if schedule.worktree else ""


def _limits(schedule: ScheduleView) -> str:
    limits = {"{:g} s": schedule.timeout_s, "{} model calls": schedule.max_turns, "{:g} USD": schedule.max_budget_usd}
    return ", ".join(text.format(value) for text, value in limits.items() if value is not None)


def _tools(schedule: ScheduleView) -> str:
    tools = {"without asking": schedule.allowed_tools, "none of": schedule.disallowed_tools}
    return "; ".join(f"{what} {', '.join(names)}" for what, names in tools.items() if names)


def _run_row(schedule: ScheduleView, run: ScheduleRun) -> list[Cell]:
    now = f" (now, by {one_line(run.by, 20)})" if run.by else ""
    said = run.problem if run.outcome != "success" else run.text
    started = run.state in ("running", "ended")
    return [
        (_moment(schedule, run.due_at) + now, "bold"),
        _became(run),
        short_id(run.session) if started else "",
        one_line(said, 200),
    ]


def _became(run: ScheduleRun) -> Cell:
    word = str(run.outcome or run.state)
    return word, RUN_STYLES.get(word, "red" if run.state in ("ended", "failed", "missed") else "dim")
