"""Sessions: list, create, change, read."""

import hashlib
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from ...protocol.commands import (
    AbortSession,
    AdoptSession,
    ChangeSession,
    CloseSession,
    CreateSession,
    DiffSince,
    ForkSession,
    GetDiff,
    SendPrompt,
)
from ...protocol.pagination import DiffText, EventPage
from ...protocol.request_bodies import Forking, NewSession, SessionChange
from ...protocol.views import CommandView
from ...sessions.event_log import EventLog
from ...sessions.records import SESSIONS, SessionRecord, SessionStatus, title_of
from ...sessions.session_worktrees import default_branch
from ...sessions.transcript import TranscriptItem, fold
from ..http.request import Request, json_response, parse_body
from ..http.route_spec import RouteSpec
from ..http.routing import get, patch, post
from ..nodes.command_helpers import (
    check_client_id,
    check_cwd,
    check_prompt_files,
    check_worktrees,
    choose_node,
    chosen_policy,
    command_response,
    get_session,
    node_of_session,
    send_command,
)
from ..security.auth import actor_name
from ..stream.history import LogPage, page_after, page_before

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["sessions"]
MAX_SESSIONS = 5000
MAX_EVENTS = 1000
MAX_MESSAGES = 10_000
MAX_CURSOR = 2**63 - 1

LogCursor = Annotated[int, Meta(ge=0, le=MAX_CURSOR)] | None

_decode = msgspec.json.Decoder(SessionRecord).decode


@get("/api/v1/sessions", tags=TAGS, spec=RouteSpec(response=list[SessionRecord]))
async def sessions(
    request: Request,
    archived: bool = False,
    agent: str = "",
    node: str = "",
    status: SessionStatus | None = None,
    q: str = "",
    limit: Annotated[int, Meta(ge=1, le=MAX_SESSIONS)] = 500,
) -> Response:
    """Sessions, the last active first.

    `q` searches titles, directories, branches and last lines. Archived sessions only with `archived`."""
    wanted = q.casefold()

    def fits(record: SessionRecord) -> bool:
        words = (
            f"{record.title}\n{record.cwd}\n{record.branch}\n{record.last_line}\n{record.agent}\n{record.id}".casefold()
        )
        return (
            (archived or not record.archived)
            and agent in ("", record.agent)
            and node in ("", record.node)
            and status in (None, record.status)
            and wanted in words
        )

    entries = await request.hub.bus.table(SESSIONS).entries()
    records = [record for record in (_decode(entry.value) for entry in entries) if fits(record)]
    records.sort(key=lambda record: (record.active_at, record.id), reverse=True)
    return json_response(records[:limit])


@post(
    "/api/v1/sessions",
    tags=TAGS,
    spec=RouteSpec(
        body=NewSession,
        response=SessionRecord,
        status=201,
        may_be_pending=True,
        problems=("UnknownNode", "Conflict", "PolicyUnenforceable", "AgentError"),
    ),
)
async def create(request: Request) -> Response:
    """Create a session. Its agent starts with the first prompt; impossible options are refused now.

    With an id of the caller's own, sending it twice makes one session."""
    hub = request.hub
    new = await parse_body(request, NewSession)
    check_prompt_files(new.attachments, len(await request.body()))
    node = await choose_node(hub, new.node)
    if new.worktree or new.branch:
        check_worktrees(node)
    session = check_client_id("id", new.id) or request.context.command_id
    branch = new.branch
    if new.worktree and session and not branch and not new.title:
        branch = default_branch(title_of(new.prompt), session)
    command = CreateSession(
        session=session,
        agent=new.agent,
        cwd=check_cwd(new.cwd),
        title=new.title,
        resume=new.resume,
        fork=new.fork,
        worktree=new.worktree or bool(new.branch),
        branch=branch,
        **new.agent_options(policy=chosen_policy(hub, new.policy)),
    )
    made = await send_command(request, node.id, command)
    if new.prompt or new.attachments:
        session = made.session if isinstance(made, CommandView) else _decode(made.value).id
        first = hashlib.sha256(f"first {session}".encode()).hexdigest()[
            :28
        ]  # the same request again sends the same prompt
        first_prompt = SendPrompt(session=session, prompt=first, text=new.prompt, attachments=new.attachments)
        await send_command(request, node.id, first_prompt, id=first)
    return command_response(made, 201)


@get("/api/v1/sessions/{session}", tags=TAGS, spec=RouteSpec(response=SessionRecord, problems=("NotFound",)))
async def show(request: Request, session: str) -> Response:
    """One session."""
    return json_response(await get_session(request.hub, session))


@patch(
    "/api/v1/sessions/{session}",
    tags=TAGS,
    spec=RouteSpec(
        body=SessionChange, response=SessionRecord, may_be_pending=True, problems=("NotFound", "PolicyUnenforceable")
    ),
)
async def change(request: Request, session: str) -> Response:
    """Change title, policy, model or effort, or archive it. A new policy or model holds from the next turn."""
    hub = request.hub
    wanted = await parse_body(request, SessionChange)
    command = ChangeSession(
        session=session,
        title=wanted.title,
        policy=None if wanted.policy is None else chosen_policy(hub, wanted.policy),
        model=wanted.model,
        effort=wanted.effort,
        archived=wanted.archived,
    )
    done = await send_command(request, await node_of_session(hub, session), command)
    if command.policy is not None:
        levels = {name: str(level) for name, level in msgspec.to_builtins(command.policy).items()}
        context = request.context
        hub.audit.record("policy", actor_name(context.known_device), context.via, session=session, **levels)
    return command_response(done)


@post(
    "/api/v1/sessions/{session}/abort",
    tags=TAGS,
    spec=RouteSpec(response=bool, may_be_pending=True, problems=("NotFound",)),
)
async def abort(request: Request, session: str) -> Response:
    """Interrupt the running turn. Returns whether there was one."""
    return command_response(
        await send_command(request, await node_of_session(request.hub, session), AbortSession(session=session))
    )


@post(
    "/api/v1/sessions/{session}/adopt",
    tags=TAGS,
    spec=RouteSpec(response=SessionRecord, may_be_pending=True, problems=("NotFound", "Unsupported")),
)
async def adopt(request: Request, session: str) -> Response:
    """Take over a session whose terminal is closed: Tieline runs its agent from here on, in the same conversation."""
    return command_response(
        await send_command(request, await node_of_session(request.hub, session), AdoptSession(session=session))
    )


@post(
    "/api/v1/sessions/{session}/close",
    tags=TAGS,
    spec=RouteSpec(response=SessionRecord, may_be_pending=True, problems=("NotFound",)),
)
async def close(request: Request, session: str) -> Response:
    """Close its agent. The log stays; a prompt resumes the session if the agent can."""
    return command_response(
        await send_command(request, await node_of_session(request.hub, session), CloseSession(session=session))
    )


@post(
    "/api/v1/sessions/{session}/fork",
    tags=TAGS,
    spec=RouteSpec(
        body=Forking,
        body_required=False,
        response=SessionRecord,
        status=201,
        may_be_pending=True,
        problems=("NotFound", "Unsupported"),
    ),
)
async def fork(request: Request, session: str) -> Response:
    """Create a session that continues from the present state of this one."""
    wanted = await parse_body(request, Forking, empty=Forking())
    node = await node_of_session(request.hub, session)
    return command_response(await send_command(request, node, ForkSession(session=session, title=wanted.title)), 201)


@get("/api/v1/sessions/{session}/events", tags=TAGS, spec=RouteSpec(response=EventPage, problems=("NotFound",)))
async def events(
    request: Request,
    session: str,
    after: LogCursor = None,
    before: LogCursor = None,
    limit: Annotated[int, Meta(ge=1, le=MAX_EVENTS)] = 200,
) -> Response:
    """A page of its log, oldest first: after a cursor, before one, or the newest."""
    hub = request.hub
    await node_of_session(hub, session)
    page: LogPage
    if after is not None:
        page = await page_after(hub.bus, session, after=after, before=before, limit=limit)
    else:
        page = await page_before(hub.bus, session, before=before, limit=limit)
    return json_response(page.json())


@get(
    "/api/v1/sessions/{session}/messages",
    tags=TAGS,
    spec=RouteSpec(response=list[TranscriptItem], problems=("NotFound",)),
)
async def messages(
    request: Request,
    session: str,
    after: Annotated[int, Meta(ge=0, le=MAX_CURSOR)] = 0,
    limit: Annotated[int, Meta(ge=1, le=MAX_MESSAGES)] = 1000,
) -> Response:
    """Its events folded into messages: the last ones after a cursor."""
    hub = request.hub
    await node_of_session(hub, session)
    return json_response(await fold(EventLog(hub.bus).read(session, after=after, follow=False), limit=limit))


@get(
    "/api/v1/sessions/{session}/diff",
    tags=TAGS,
    spec=RouteSpec(response=DiffText, problems=("NotFound", "NodeOffline", "Unsupported")),
)
async def diff(request: Request, session: str, since: DiffSince = "session") -> Response:
    """Changes in its directory as one unified diff: since it began, since the last commit, or what its worktree has
    that the base branch does not."""
    node = await node_of_session(request.hub, session)
    outcome = await send_command(request, node, GetDiff(session=session, since=since))
    if isinstance(outcome, CommandView):
        return command_response(outcome)
    return json_response(DiffText(diff=msgspec.json.decode(outcome.value, type=str)))


def routes(hub: "Hub") -> list[Any]:
    return [sessions, create, show, change, abort, adopt, close, fork, events, messages, diff]
