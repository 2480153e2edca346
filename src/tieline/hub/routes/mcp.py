"""The MCP server of the mesh: Streamable HTTP at `/mcp`, and where a bridge confirms what it handed over."""

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...mesh.mcp_caller import MAX_WORD, McpRequest
from ...mesh.mcp_endpoint import McpEndpoint
from ...mesh.records import Caller
from ..http.problems import RequestRefused
from ..http.request import NO_CONTENT, Request, parse_body
from ..http.request_context import context_of
from ..http.route_spec import RouteSpec
from ..http.routing import asgi, post
from ..security.access_rules import MCP, MCP_DELIVERED
from ..security.auth import actor_name
from ..security.harness_caller import harness_caller
from ..security.middleware import UNKNOWN_SESSION
from .members import NO_MESH

if TYPE_CHECKING:
    from ..hub import Hub

MAX_CWD = 4096


class Delivered(Struct, frozen=True, forbid_unknown_fields=True):
    """What a bridge wrote to its harness."""

    delivery: str


@post(MCP_DELIVERED, tags=["mesh"], spec=RouteSpec(body=Delivered, status=204, problems=("NotFound",)))
async def delivered(request: Request) -> Response:
    """Confirm that the messages of a tool's result reached the harness. `tieline mcp` does it."""
    confirmed = await parse_body(request, Delivered)
    hub = request.hub
    if hub.mcp is None or not await hub.mcp.deliveries.delivered(confirmed.delivery):
        raise RequestRefused(
            "NotFound", "this delivery does not exist or has expired: its messages are unread again", field="delivery"
        )
    return NO_CONTENT


def mcp_request(
    hub: "Hub", endpoint: McpEndpoint, scope: Scope, hand_over: Callable[[Caller, tuple[str, ...]], str]
) -> McpRequest:
    """Who calls, as the connection and the bridge's headers tell."""
    context = context_of(scope)
    device = context.known_device
    headers = Headers(scope=scope)
    mcp_session = headers.get("mcp-session-id", "")[:MAX_WORD]
    bridge = _word(headers, "x-tieline-bridge")
    caller = harness_caller(
        context,
        endpoint.mesh,
        harness=_word(headers, "x-tieline-harness"),
        session=_word(headers, "x-tieline-session"),
        cwd=_word(headers, "x-tieline-cwd", MAX_CWD),
        direct=not bridge,
    )

    def refused(who: str, why: str) -> None:
        hub.audit.record("refusal", f"{actor_name(device)} {who}", context.via, why=why, request=f"POST {MCP}")

    peer = context.peer if bridge else None
    connection = f"bridge-{_digest(bridge)}" if bridge else f"mcp-{_digest(mcp_session)}" if mcp_session else ""
    return McpRequest(
        principal=device.id,
        caller=caller,
        process_session=endpoint.processes.session_of(peer.pid, caller.harness) if peer is not None else "",
        connection=connection,
        mcp_session=mcp_session,
        key=_word(headers, "x-tieline-key"),
        confirms=bool(bridge),
        hook=bool(bridge and caller.harness and "x-tieline-hook" in headers and scope["method"] == "POST"),
        hand_over=hand_over,
        refused=refused,
    )


def _digest(secret: str) -> str:
    """Others see which session a member has, and with the secret itself could go on with it."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()[:32]


def _word(headers: Headers, name: str, limit: int = MAX_WORD) -> str:
    """A header's value; what is not plain ASCII comes in base64, as MCP has it."""
    value = headers.get(name, "").strip()
    if value.startswith("=?base64?") and value.endswith("?="):
        try:
            value = base64.b64decode(value[9:-2], validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise RequestRefused("UsageError", f"{name} is not base64 of UTF-8", field=name) from None
    if len(value) > limit or not value.isprintable():
        raise RequestRefused("UsageError", f"{name} is longer than {limit} or not printable", field=name)
    return value


async def _handle(hub: "Hub", scope: Scope, receive: Receive, send: Send) -> None:
    """A revoked device's requests end at once."""
    if scope["type"] != "http":
        raise RequestRefused("NotFound", "no WebSocket at this path")
    endpoint, context = hub.mcp, context_of(scope)
    if endpoint is None:
        raise RequestRefused("NotFound", NO_MESH)
    if context.session == UNKNOWN_SESSION:
        raise RequestRefused("Forbidden", "the hub cannot tell which session this agent belongs to")
    if hub.relay is None or not hub.relay.active:
        raise RequestRefused("RelayStandby", "the relay of this hub is not active yet", retry_s=1.0)
    device = context.known_device
    limit = asyncio.timeout(None)

    def drop(id: str) -> None:
        if id == device.id:
            with suppress(RuntimeError):
                limit.reschedule(0)

    forget, closed = hub.devices.on_revoke(drop), hub.devices.connected(device.id)
    try:
        async with limit:
            await endpoint.handle(
                scope,
                receive,
                send,
                request=lambda hand_over: mcp_request(hub, endpoint, scope, hand_over),
                connected=scope["state"].get("connected", lambda: True),
            )
    except TimeoutError:
        if not limit.expired():
            raise
    finally:
        forget()
        closed()


def routes(hub: "Hub") -> list[Any]:
    # Plain ASGI: the SDK answers requests itself, some with an endless stream.
    @asgi(MCP)
    async def mcp(scope: Scope, receive: Receive, send: Send) -> None:
        await _handle(hub, scope, receive, send)

    return [mcp, delivered]
