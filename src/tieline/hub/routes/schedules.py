"""Schedules: list, add, change, remove, run now."""

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, to_builtins
from msgspec.structs import replace
from starlette.responses import Response

from ...errors import UsageError
from ...ids import new_id
from ...policy import Policy
from ...protocol.schedules import NewSchedule, ScheduleChange, ScheduleFields, ScheduleRun, ScheduleTimes, ScheduleView
from ...protocol.views import NodeView
from ...schedules.manager import ScheduleManager
from ..http.problems import RequestRefused
from ..http.request import Request, json_response, parse_body
from ..http.route_spec import RouteSpec
from ..http.routing import delete, get, patch, post
from ..nodes.command_helpers import check_client_id, check_cwd, check_worktrees, choose_node, chosen_policy
from ..security.auth import actor_name

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["schedules"]
UNKNOWN = ("UnknownSchedule",)
MAX_TIMES = 20
When = Annotated[str, Meta(max_length=200)]


def schedules_of(request: Request) -> ScheduleManager:
    schedules = request.hub.schedules
    if schedules is None:
        raise RequestRefused("BusError", "schedules do not run on this hub")
    return schedules


@get("/api/v1/schedules", tags=TAGS, spec=RouteSpec(response=list[ScheduleView]))
async def every(request: Request) -> Response:
    """Schedules by name, each with its next time and its last run."""
    return json_response(await schedules_of(request).views())


@post(
    "/api/v1/schedules",
    tags=TAGS,
    spec=RouteSpec(body=NewSchedule, response=ScheduleView, status=201, problems=("UnknownNode", "RecordTooLarge")),
)
async def add(request: Request) -> Response:
    """Start an agent on a prompt at its times: each time a session of its own.

    `cron` has five fields or is @daily and the like; `once` is one time instead. `zone` is the time zone of both."""
    hub = request.hub
    new = await parse_body(request, NewSchedule)
    check_client_id("id", new.id)
    check_cwd(new.cwd)
    node = await choose_node(hub, new.node)
    if new.worktree or new.branch:
        check_worktrees(node)
    _check_agent(node, new.agent)
    by, policy = actor_name(request.context.known_device), chosen_policy(hub, new.policy)
    made = await schedules_of(request).add(new, policy=policy, node=node.id, by=by, key=request.context.command_id)
    _audit(request, made, "added", policy)
    return json_response(made, 201)


@get("/api/v1/schedule-times", tags=TAGS, spec=RouteSpec(response=ScheduleTimes))
async def times(
    request: Request,
    cron: When = "",
    once: When = "",
    zone: When = "UTC",
    count: Annotated[int, Meta(ge=1, le=MAX_TIMES)] = 3,
) -> Response:
    """The coming times of a schedule that is not added yet: what `cron` or `once` mean in that time zone."""
    wanted = ScheduleFields(cron=cron, once=once, zone=zone)
    return json_response(ScheduleTimes(next=schedules_of(request).times(wanted, count)))


@get("/api/v1/schedules/{schedule}", tags=TAGS, spec=RouteSpec(response=ScheduleView, problems=UNKNOWN))
async def show(request: Request, schedule: str) -> Response:
    """One schedule, with its coming times and what became of its runs, the newest first."""
    return json_response(await schedules_of(request).view(schedule))


@patch(
    "/api/v1/schedules/{schedule}",
    tags=TAGS,
    spec=RouteSpec(body=ScheduleChange, response=ScheduleView, problems=(*UNKNOWN, "ConcurrentChange")),
)
async def change(request: Request, schedule: str) -> Response:
    """Change, pause or resume a schedule. Times that passed while it was paused are not made up for."""
    wanted = await parse_body(request, ScheduleChange)
    check_cwd(wanted.cwd or "")
    if wanted.node is not None or wanted.agent is not None:
        before = await schedules_of(request).view(schedule)
        node = await choose_node(request.hub, before.node if wanted.node is None else wanted.node)
        _check_agent(node, before.agent if wanted.agent is None else wanted.agent)
        wanted = replace(wanted, node=node.id)
    policy = None if wanted.policy is None else chosen_policy(request.hub, wanted.policy)
    changed = await schedules_of(request).change(schedule, wanted, policy=policy)
    _audit(request, changed, "changed", policy)
    return json_response(changed)


@delete("/api/v1/schedules/{schedule}", tags=TAGS, spec=RouteSpec(response=ScheduleView, problems=UNKNOWN))
async def remove(request: Request, schedule: str) -> Response:
    """Remove a schedule with its history. A run of it that is under way goes on."""
    removed = await schedules_of(request).remove(schedule)
    _audit(request, removed, "removed")
    return json_response(removed)


@post(
    "/api/v1/schedules/{schedule}/run",
    tags=TAGS,
    spec=RouteSpec(response=ScheduleRun, status=201, problems=UNKNOWN),
)
async def run(request: Request, schedule: str) -> Response:
    """Run it now, also while it is paused. Its times stay as they are."""
    by = actor_name(request.context.known_device)
    key = request.context.command_id or new_id()
    return json_response(await schedules_of(request).run_now(schedule, by=by, key=key), 201)


def routes(hub: "Hub") -> list[Any]:
    return [every, add, times, show, change, remove, run]


def _check_agent(node: NodeView, agent: str) -> None:
    names = [each.name for each in node.agents]
    if not (agent or node.default_agent):
        raise UsageError(
            "no agent is named", field="agent", hint="Name one (`--agent`), or set default_agent in tieline.toml."
        )
    if agent and names and agent not in names:
        hint = f"It has {', '.join(names)}."
        raise UsageError(f"{node.name or node.id} has no agent {agent!r}", field="agent", hint=hint)


def _audit(request: Request, schedule: ScheduleView, done: str, policy: Policy | None = None) -> None:
    levels = {} if policy is None else {name: str(level) for name, level in to_builtins(policy).items()}
    who, via = actor_name(request.context.known_device), request.context.via
    request.hub.audit.record("schedule", who, via, done=done, schedule=schedule.id, name=schedule.name, **levels)
