"""Where the hooks of harnesses report, and get what they print: `hook.py`, or the harness itself by HTTP."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...background_tasks import cancel_and_wait
from ...harnesses.hook_handler import PERMISSION_EVENT
from ...mesh.hook_events import NativeReply
from ...mesh.records import Caller
from ...mesh.response_confirmations import ResponseConfirmations
from ...protocol.mesh import HookActivity
from ..http.problems import RequestRefused
from ..http.request import JSON, Request, json_response, parse_body
from ..http.route_spec import RouteSpec
from ..http.routing import get, post
from ..security.access_rules import HARNESS_HOOKS
from ..security.harness_caller import harness_caller
from ..security.middleware import UNKNOWN_SESSION
from .members import NO_MESH

DELIVERY_HEADER = "x-tieline-delivery"
"""The delivery that a hook confirms at MCP_DELIVERED once it has printed the reply."""
CONFIRMS_HEADER = "x-tieline-confirms"
"""In the request: the hook does that. Else a reply counts as handed over when it was written to an open connection."""


class HookResponse(Response):
    """What the hook prints. The messages in it are confirmed when it arrived, and else unread again."""

    media_type = JSON

    def __init__(
        self, reply: NativeReply, deliveries: ResponseConfirmations, caller: Caller, *, confirms: bool
    ) -> None:
        super().__init__(reply.text)
        self._deliveries = deliveries
        self._confirms = confirms
        self._delivery = deliveries.begin(caller, reply.handed) if reply.handed else ""
        if self._delivery and confirms:
            self.headers[DELIVERY_HEADER] = self._delivery

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connected: Callable[[], bool] = scope["state"].get("connected", lambda: True)
        arrived = False
        try:
            await super().__call__(scope, receive, send)
            arrived = connected()
        finally:
            if self._delivery and not arrived:
                self._deliveries.failed(self._delivery)
        if self._delivery and not self._confirms:
            await self._deliveries.delivered(self._delivery)


@post(
    HARNESS_HOOKS,
    tags=["mesh"],
    spec=RouteSpec(body=dict[str, Any], response=dict[str, Any], problems=("NotFound", "RelayStandby")),
)
async def fire(request: Request, harness: str, event: str = "") -> Response:
    """A hook of a harness session fired; the body is what the harness gave it. The response is what the hook prints:
    context for the model, or a reason for the turn to go on. It is empty when there is nothing to say. `event` is for
    harnesses whose input does not name it."""
    hub, context = request.hub, request.context
    input: Mapping[str, Any] = await parse_body(request, dict[str, Any])
    if hub.mcp is None or hub.hooks is None:
        raise RequestRefused("NotFound", NO_MESH)
    if context.session == UNKNOWN_SESSION:
        return Response(media_type=JSON)  # of some agent of ours: its messages come to it as prompts
    if hub.relay is None or not hub.relay.active:
        raise RequestRefused("RelayStandby", "the relay of this hub is not active yet", retry_s=1.0)
    if event:
        input = {"hook_event_name": event, **input}
    caller = harness_caller(context, hub.mcp.mesh)
    handling = hub.hooks.handle(caller, harness, input, context.peer.pid if context.peer else 0)
    reply = await (while_connected(request.scope, request.receive, handling) if event == PERMISSION_EVENT else handling)
    if reply is None:
        return Response(media_type=JSON)
    if context.peer is not None and reply.caller.session:
        hub.mcp.processes.on_hook(context.peer.pid, reply.caller.harness, reply.caller.session)
    confirms = CONFIRMS_HEADER in request.headers
    return HookResponse(reply, hub.mcp.deliveries, reply.caller, confirms=confirms)


async def while_connected(
    scope: Scope, receive: Receive, handling: Coroutine[Any, Any, NativeReply]
) -> NativeReply | None:
    """The reply to a hook that waits for people. None: the harness does not wait any more."""
    scope["state"]["waits"] = True  # for people: a hub that stops does not
    working = asyncio.create_task(handling, name="permission-prompt")
    watching = asyncio.create_task(_disconnected(receive), name="permission-prompt-connection")
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        await cancel_and_wait(working, watching)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@get(HARNESS_HOOKS, tags=["mesh"], spec=RouteSpec(response=list[HookActivity]))
async def activity(request: Request) -> Response:
    """When hooks of harness sessions fired since this hub started, the latest first."""
    hooks = request.hub.hooks
    return json_response([] if hooks is None else hooks.activity())


def routes(hub: object) -> list[Any]:
    return [fire, activity]
