"""Asks, their answers, and the state of commands."""

import time
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from ...events import Answer
from ...ids import new_id
from ...protocol.commands import AnswerQuestion, ApprovePermission, DenyPermission
from ...protocol.request_bodies import Decision
from ...protocol.views import CommandView
from ...sessions.records import ASKS, AskRecord
from ..http.problems import NotFound, RequestRefused
from ..http.request import Request, json_response, parse_body
from ..http.request_context import RequestContext
from ..http.route_spec import RouteSpec
from ..http.routing import get, post
from ..nodes.command_helpers import ACCEPTED, actor_name, get_ask, node_of_session, send_command

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["asks"]

_decode = msgspec.json.Decoder(AskRecord).decode


@get("/api/v1/asks", tags=TAGS, spec=RouteSpec(response=list[AskRecord]))
async def asks(request: Request) -> Response:
    """All pending asks, on all machines, the oldest first."""
    entries = await request.hub.bus.table(ASKS).entries()
    pending = [record for record in (_decode(entry.value) for entry in entries) if record.status == "pending"]
    return json_response(sorted(pending, key=lambda record: (record.created_at, record.id)))


@get("/api/v1/asks/{ask}", tags=TAGS, spec=RouteSpec(response=AskRecord, problems=("NotFound",)))
async def show(request: Request, ask: str) -> Response:
    """One ask; answered ones are kept for a day."""
    return json_response(await get_ask(request.hub, ask))


@post(
    "/api/v1/asks/{ask}/answer",
    tags=TAGS,
    spec=RouteSpec(body=Decision, response=CommandView, may_be_pending=True, problems=("NotFound", "AlreadyAnswered")),
)
async def decide(request: Request, ask: str) -> Response:
    """Answer an ask. The first answer wins; with a digest it holds only for exactly what was shown."""
    hub = request.hub
    decision = await parse_body(request, Decision)
    record = await get_ask(hub, ask)
    node = await node_of_session(hub, record.session)
    _check_person(request, record.session, node)
    by = actor_name(request.context.known_device)
    answer = Answer(
        ask=ask,
        decision=decision.decision,
        by=by,
        reason=decision.reason,
        answers=decision.answers,
        remember=decision.remember,
        via=_surface(request.context),
    )
    kind = ApprovePermission if decision.decision == "allow" else DenyPermission
    if record.ask.kind == "question":
        kind = AnswerQuestion
    command = kind(session=record.session, ask=ask, answer=answer, digest=decision.digest)
    id = request.context.command_id or new_id()
    result = await send_command(request, node, command, id=id)
    if isinstance(result, CommandView):
        return json_response(result, ACCEPTED)
    done = CommandView(
        id=id,
        node=node,
        name=command.name,
        state="applied",
        session=record.session,
        ask=ask,
        by=by,
        at=result.at or time.time(),
    )
    return json_response(done)


@get("/api/v1/commands/{id}", tags=TAGS, spec=RouteSpec(response=CommandView, problems=("NotFound",)))
async def command(request: Request, id: str) -> Response:
    """The state of a command: sent, received, applied, refused or expired."""
    command_view = await request.hub.dispatcher.queue.get(id)
    if command_view is None:
        raise NotFound("command", id)
    return json_response(command_view)


def _surface(context: RequestContext) -> str:
    """Where it is answered: the process that came by the owner's socket, or the kind of device."""
    return context.peer.via if context.peer is not None else context.known_device.kind


def _check_person(request: Request, session: str, node: str) -> None:
    """An agent in a person's terminal runs as that person. What it starts is known by its descent; what it has detached
    from itself has no terminal. Neither may decide for it."""
    hub, peer = request.hub, request.context.peer
    kept = hub.state.sessions.get(session)
    if peer is None or kept is None or kept.kind != "attached" or node != hub.dispatcher.local:
        return
    if not peer.terminal:
        raise RequestRefused(
            "Forbidden",
            "this ask comes from an agent on this machine, and the hub cannot tell whether a person answers it",
            hint="Answer in a terminal, on the page or on your phone; a program can have a key of its own.",
        )


def routes(hub: "Hub") -> list[Any]:
    return [asks, show, decide, command]
