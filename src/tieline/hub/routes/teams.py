"""Team conversations: start, list, read, and what people do in them."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, cast

from msgspec import Meta, to_builtins
from msgspec.structs import replace
from starlette.responses import Response

from ...policy import preset
from ...protocol.teams import (
    AnyTeamAction,
    ChangePolicy,
    CheckedTeamFile,
    CleanedTeam,
    CleanTeam,
    NewTeam,
    TeamEntries,
    TeamFileText,
    TeamRecord,
    TeamView,
    TurnBegan,
)
from ...teams.team_file import check_text
from ...teams.teams import Teams
from ..http.problems import RequestRefused
from ..http.request import Request, json_response, parse_body
from ..http.route_spec import RouteSpec
from ..http.routing import get, post
from ..nodes.command_helpers import check_client_id
from ..security.auth import actor_name

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["teams"]
UNKNOWN = ("UnknownTeam",)
MAX_ENTRIES = 1000
MAX_WAIT_S = 30.0
MAX_CURSOR = 2**63 - 1


def teams_of(request: Request) -> Teams:
    teams = request.hub.teams
    if teams is None:
        raise RequestRefused("BusError", "teams do not run on this hub")
    return teams


@get("/api/v1/teams", tags=TAGS, spec=RouteSpec(response=list[TeamRecord]))
async def conversations(request: Request) -> Response:
    """Team conversations, the last active first."""
    return json_response(await teams_of(request).records())


@post("/api/v1/teams", tags=TAGS, spec=RouteSpec(body=NewTeam, response=TeamView, status=201))
async def start(request: Request) -> Response:
    """Start a team on its task. The team is what its file says, with absolute directories."""
    new = await parse_body(request, NewTeam)
    check_client_id("id", new.id)
    by = actor_name(request.context.known_device)
    return json_response(await teams_of(request).start(new, by=by, key=request.context.command_id), 201)


@post("/api/v1/team-file", tags=TAGS, spec=RouteSpec(body=TeamFileText, response=CheckedTeamFile))
async def check_file(request: Request) -> Response:
    """Read a team file: the team that it describes, or what is wrong in it, with line and key. Nothing is started."""
    given = await parse_body(request, TeamFileText)
    return json_response(await asyncio.to_thread(check_text, given))


@get("/api/v1/teams/{team}", tags=TAGS, spec=RouteSpec(response=TeamView, problems=UNKNOWN))
async def conversation(request: Request, team: str) -> Response:
    """A conversation as it is now: who speaks, who is next, who waits, what it cost."""
    return json_response(await teams_of(request).view(team))


@get("/api/v1/teams/{team}/entries", tags=TAGS, spec=RouteSpec(response=TeamEntries, problems=UNKNOWN))
async def entries(
    request: Request,
    team: str,
    after: Annotated[int, Meta(ge=0, le=MAX_CURSOR)] = 0,
    limit: Annotated[int, Meta(ge=1, le=MAX_ENTRIES)] = 100,
    wait_s: Annotated[float, Meta(ge=0, le=MAX_WAIT_S)] = 0.0,
    before: Annotated[int, Meta(ge=0, le=MAX_CURSOR)] | None = None,
    prompts: bool = True,
) -> Response:
    """The log of a conversation after a cursor; with `before`, the last ones before that cursor. With `wait_s`, waits
    that long for something new. Without `prompts`, `turn_began` has no text."""
    teams = teams_of(request)
    if before is not None:
        page = await teams.entries_before(team, before=before, limit=limit)
    else:
        page = await teams.entries(team, after=after, limit=limit, wait_s=wait_s)
    return json_response(page if prompts else _without_prompts(page))


def _without_prompts(page: TeamEntries) -> TeamEntries:
    """What members were sent is long, and in their sessions."""
    without_prompts = tuple(
        replace(each, entry=replace(each.entry, text="")) if isinstance(each.entry, TurnBegan) else each
        for each in page.entries
    )
    return replace(page, entries=without_prompts)


@post(
    "/api/v1/teams/{team}/actions",
    tags=TAGS,
    spec=RouteSpec(body=AnyTeamAction, response=TeamView, problems=UNKNOWN),
)
async def act(request: Request, team: str) -> Response:
    """Speak, hold, resume, reorder, drop, add or remove a member, change its policy, end."""
    action = await parse_body(request, cast("type[AnyTeamAction]", AnyTeamAction))
    by = actor_name(request.context.known_device)
    view = await teams_of(request).act(team, action, by=by, key=request.context.command_id)
    if isinstance(action, ChangePolicy):
        session = next((each.session for each in view.who if each.name.casefold() == action.member.casefold()), "")
        policy = preset(action.policy) if isinstance(action.policy, str) else action.policy
        levels = {name: str(level) for name, level in to_builtins(policy).items()}
        request.hub.audit.record("policy", by, request.context.via, session=session, **levels)
    return json_response(view)


@post(
    "/api/v1/teams/{team}/clean",
    tags=TAGS,
    spec=RouteSpec(body=CleanTeam, response=CleanedTeam, problems=UNKNOWN),
)
async def clean(request: Request, team: str) -> Response:
    """Remove the worktrees of a conversation that has ended."""
    wanted = await parse_body(request, CleanTeam)
    return json_response(await teams_of(request).clean(team, force=wanted.force))


def routes(hub: "Hub") -> list[Any]:
    return [conversations, start, check_file, conversation, entries, act, clean]
