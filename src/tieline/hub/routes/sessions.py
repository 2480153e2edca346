"""Sessions: listed, made, changed, read."""

import hashlib
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from litestar import Response, get, patch, post
from litestar.params import FromPath, FromQuery, QueryParameter

from ...errors import UsageError
from ...policy import Policy, preset
from ...protocol.bodies import Forking, NewSession, SessionChange
from ...protocol.commands import (
    AbortSession,
    ChangeSession,
    CloseSession,
    CreateSession,
    ForkSession,
    GetDiff,
    SendPrompt,
)
from ...protocol.pages import DiffText, EventPage
from ...protocol.views import CommandView
from ...sessions.log import EventLog
from ...sessions.messages import Message, fold
from ...sessions.records import SESSIONS, SessionRecord, SessionStatus
from ..history import Page, newest, onward
from ..request import Asked, answer, body, hub_of, once_of
from ..spec import spec
from ..telling import check_own_id, chosen_node, node_of, session_of, tell, told

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["sessions"]
MAX_SESSIONS = 5000
MAX_EVENTS = 1000
MAX_MESSAGES = 10_000
MAX_CURSOR = 2**63 - 1

Cursor = Annotated[int | None, QueryParameter(ge=0, le=MAX_CURSOR)]

_decode = msgspec.json.Decoder(SessionRecord).decode


@get("/api/v1/sessions", tags=TAGS, opt=spec(gives=list[SessionRecord]))
async def sessions(
    request: Asked,
    archived: FromQuery[bool] = False,
    agent: FromQuery[str] = "",
    node: FromQuery[str] = "",
    status: FromQuery[SessionStatus | None] = None,
    q: FromQuery[str] = "",
    limit: Annotated[int, QueryParameter(ge=1, le=MAX_SESSIONS)] = 500,
) -> Response[bytes]:
    """Sessions, the last active first.

    `q` is looked for in titles, directories, branches and last lines. Archived ones are left out unless asked for."""
    wanted = q.casefold()

    def fits(one: SessionRecord) -> bool:
        words = f"{one.title}\n{one.cwd}\n{one.branch}\n{one.last_line}\n{one.agent}\n{one.id}".casefold()
        return (
            (archived or not one.archived)
            and agent in ("", one.agent)
            and node in ("", one.node)
            and status in (None, one.status)
            and wanted in words
        )

    entries = await hub_of(request).bus.table(SESSIONS).entries()
    found = [one for one in (_decode(entry.value) for entry in entries) if fits(one)]
    found.sort(key=lambda one: (one.active_at, one.id), reverse=True)
    return answer(found[:limit])


@post(
    "/api/v1/sessions",
    tags=TAGS,
    opt=spec(
        body=NewSession,
        gives=SessionRecord,
        status=201,
        later=True,
        problems=("UnknownNode", "Conflict", "PolicyUnenforceable", "AgentError"),
    ),
)
async def create(request: Asked) -> Response[bytes]:
    """A new session. Its agent starts with the first prompt; what cannot be is refused now.

    With an id of the caller's own, sending it twice makes one session."""
    hub = hub_of(request)
    new = await body(request, NewSession)
    node = await chosen_node(hub, new.node)
    command = CreateSession(
        session=check_own_id("id", new.id) or once_of(request),
        agent=new.agent,
        cwd=_place(new.cwd),
        policy=_policy(hub, new.policy),
        model=new.model,
        effort=new.effort,
        system=new.system,
        title=new.title,
        resume=new.resume,
        fork=new.fork,
        accept_unenforced=new.accept_unenforced,
        max_turns=new.max_turns,
        max_budget_usd=new.max_budget_usd,
        allowed_tools=new.allowed_tools,
        disallowed_tools=new.disallowed_tools,
    )
    made = await tell(request, node.id, command)
    if new.prompt:
        session = made.session if isinstance(made, CommandView) else _decode(made.value).id
        first = hashlib.sha256(f"first {session}".encode()).hexdigest()[:28]  # sent again, it is the same one
        await tell(request, node.id, SendPrompt(session=session, prompt=first, text=new.prompt), id=first)
    return told(made, 201)


@get("/api/v1/sessions/{session:str}", tags=TAGS, opt=spec(gives=SessionRecord, problems=("NotFound",)))
async def show(request: Asked, session: FromPath[str]) -> Response[bytes]:
    """One session."""
    return answer(await session_of(hub_of(request), session))


@patch(
    "/api/v1/sessions/{session:str}",
    tags=TAGS,
    opt=spec(body=SessionChange, gives=SessionRecord, later=True, problems=("NotFound", "PolicyUnenforceable")),
)
async def change(request: Asked, session: FromPath[str]) -> Response[bytes]:
    """Change its title, policy, model, effort, or put it away. A new policy or model holds from the next turn."""
    hub = hub_of(request)
    wanted = await body(request, SessionChange)
    command = ChangeSession(
        session=session,
        title=wanted.title,
        policy=None if wanted.policy is None else _policy(hub, wanted.policy),
        model=wanted.model,
        effort=wanted.effort,
        archived=wanted.archived,
    )
    return told(await tell(request, await node_of(hub, session), command))


@post(
    "/api/v1/sessions/{session:str}/abort",
    tags=TAGS,
    status_code=200,
    opt=spec(gives=bool, later=True, problems=("NotFound",)),
)
async def abort(request: Asked, session: FromPath[str]) -> Response[bytes]:
    """Interrupt the running turn. Whether there was one."""
    return told(await tell(request, await node_of(hub_of(request), session), AbortSession(session=session)))


@post(
    "/api/v1/sessions/{session:str}/close",
    tags=TAGS,
    status_code=200,
    opt=spec(gives=SessionRecord, later=True, problems=("NotFound",)),
)
async def close(request: Asked, session: FromPath[str]) -> Response[bytes]:
    """End its agent. What it said stays; a prompt resumes it where the agent can."""
    return told(await tell(request, await node_of(hub_of(request), session), CloseSession(session=session)))


@post(
    "/api/v1/sessions/{session:str}/fork",
    tags=TAGS,
    opt=spec(
        body=Forking,
        needs_body=False,
        gives=SessionRecord,
        status=201,
        later=True,
        problems=("NotFound", "Unsupported"),
    ),
)
async def fork(request: Asked, session: FromPath[str]) -> Response[bytes]:
    """Another session that begins where this one is."""
    wanted = await body(request, Forking, empty=Forking())
    node = await node_of(hub_of(request), session)
    return told(await tell(request, node, ForkSession(session=session, title=wanted.title)), 201)


@get("/api/v1/sessions/{session:str}/events", tags=TAGS, opt=spec(gives=EventPage, problems=("NotFound",)))
async def events(
    request: Asked,
    session: FromPath[str],
    after: Cursor = None,
    before: Cursor = None,
    limit: Annotated[int, QueryParameter(ge=1, le=MAX_EVENTS)] = 200,
) -> Response[bytes]:
    """A page of its log, oldest first: after a cursor, before one, or the newest."""
    hub = hub_of(request)
    await node_of(hub, session)
    page: Page
    if after is not None:
        page = await onward(hub.bus, session, after=after, before=before, limit=limit)
    else:
        page = await newest(hub.bus, session, before=before, limit=limit)
    return answer(page.json())


@get("/api/v1/sessions/{session:str}/messages", tags=TAGS, opt=spec(gives=list[Message], problems=("NotFound",)))
async def messages(
    request: Asked,
    session: FromPath[str],
    after: Annotated[int, QueryParameter(ge=0, le=MAX_CURSOR)] = 0,
    limit: Annotated[int, QueryParameter(ge=1, le=MAX_MESSAGES)] = 1000,
) -> Response[bytes]:
    """Its events folded into what a person reads: the last ones after a cursor."""
    hub = hub_of(request)
    await node_of(hub, session)
    return answer(await fold(EventLog(hub.bus).read(session, after=after, follow=False), limit=limit))


@get(
    "/api/v1/sessions/{session:str}/diff",
    tags=TAGS,
    opt=spec(gives=DiffText, problems=("NotFound", "NodeOffline", "Unsupported")),
)
async def diff(request: Asked, session: FromPath[str]) -> Response[bytes]:
    """What changed in its directory since it began, as one unified diff."""
    outcome = await tell(request, await node_of(hub_of(request), session), GetDiff(session=session))
    if isinstance(outcome, CommandView):
        return told(outcome)
    return answer(DiffText(diff=msgspec.json.decode(outcome.value, type=str)))


def routes(hub: "Hub") -> list[Any]:
    return [sessions, create, show, change, abort, close, fork, events, messages, diff]


def _place(cwd: str) -> str:
    """A directory of another machine: whole, and not to be read in two ways."""
    if cwd and (not cwd.startswith("/") or "\0" in cwd or ".." in cwd.split("/")):
        raise UsageError("a directory is an absolute path without ..", field="cwd", hint="See nodes/{id}/browse.")
    return cwd


def _policy(hub: "Hub", said: Policy | str | None) -> Policy:
    return said if isinstance(said, Policy) else preset(said or hub.config.policy)
