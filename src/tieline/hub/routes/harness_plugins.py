"""Plugins inside harnesses: a stream of what they are to do, and what they report. By the owner's socket only."""

import asyncio
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...mesh.plugin_connector import PluginConnector, PluginLink
from ...protocol.harness_plugins import PluginEvents, PluginHandedOver, PluginReport, PluginWelcome
from ...protocol.views import DeviceView
from ..http.problems import RequestRefused
from ..http.request import NO_CONTENT, Request, parse_body
from ..http.request_context import context_of
from ..http.route_spec import RouteSpec
from ..http.routing import asgi, post
from ..security.access_rules import HARNESS_PLUGINS
from ..security.auth import OWNER
from ..stream.sse import HEADERS

if TYPE_CHECKING:
    from ..hub import Hub

ALIVE_S = 30.0
"""How often a silent stream carries a comment: clients give up on one that is silent for minutes."""
LARGE = 64 * 1024
"""Bytes of a part of a history."""
SPEC = RouteSpec(body=PluginReport, status=204, problems=("NotFound", "Forbidden"))


@post(f"{HARNESS_PLUGINS}/{{harness}}/sessions", tags=["mesh"], spec=SPEC)
async def report_sessions(request: Request, harness: str) -> Response:
    """Report the sessions of a harness. Its plugin does it."""
    connector = _connector(request.hub, request.context.known_device, harness)
    if not connector.report(await parse_body(request, PluginReport)):
        raise RequestRefused("NotFound", "this link does not exist or has ended", field="link", hint="Reconnect.")
    return NO_CONTENT


@post(
    f"{HARNESS_PLUGINS}/{{harness}}/handed-over",
    tags=["mesh"],
    spec=RouteSpec(body=PluginHandedOver, status=204, problems=("NotFound", "Forbidden")),
)
async def handed_over(request: Request, harness: str) -> Response:
    """Say what became of a text for a session. The plugin of its harness does it."""
    connector = _connector(request.hub, request.context.known_device, harness)
    if not connector.handed_over(await parse_body(request, PluginHandedOver)):
        raise RequestRefused("NotFound", "no such pending delivery", field="text")
    return NO_CONTENT


@post(
    f"{HARNESS_PLUGINS}/{{harness}}/events",
    tags=["mesh"],
    spec=RouteSpec(body=PluginEvents, status=204, problems=("NotFound", "Forbidden")),
)
async def tell_events(request: Request, harness: str) -> Response:
    """Tell what happened in a session that the hub follows. The plugin of its harness does it."""
    connector = _connector(request.hub, request.context.known_device, harness)
    # Many plugins tell their histories when a hub starts; what is said just now is small, and waits for none of them.
    small = 0 < int(request.headers.get("content-length", "0")) < LARGE
    async with nullcontext() if small else connector.reading:
        followed = await connector.events(await parse_body(request, PluginEvents))
    if not followed:
        raise RequestRefused("NotFound", "the hub does not follow this session", field="session")
    return NO_CONTENT


def _connector(hub: "Hub", device: DeviceView, harness: str) -> PluginConnector:
    if device.id != OWNER:
        raise RequestRefused("Forbidden", "harness plugins may connect only through the owner's socket")
    connector = hub.plugin_connectors.get(harness)
    if connector is None:
        raise RequestRefused("NotFound", f"no plugin of {harness[:80]!r} is known here", field="harness")
    return connector


async def stream_commands(connector: PluginConnector, process: int, receive: Receive, send: Send) -> None:
    """What a plugin is to do, as long as it is connected."""
    with connector.connect(process) as link:
        await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
        writing = asyncio.create_task(_write_commands(link, send), name="harness-plugin")
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            writing.cancel()
            with suppress(Exception, asyncio.CancelledError):  # the plugin is gone
                await writing


async def _write_commands(link: PluginLink, send: Send) -> None:
    await _write(send, b"data: " + msgspec.json.encode(PluginWelcome(link.id)))
    while True:
        try:
            async with asyncio.timeout(ALIVE_S):
                command = await link.commands.get()
        except TimeoutError:
            await _write(send, b":")
        else:
            await _write(send, b"data: " + msgspec.json.encode(command))


async def _write(send: Send, line: bytes) -> None:
    await send({"type": "http.response.body", "body": line + b"\n\n", "more_body": True})


def routes(hub: "Hub") -> list[Any]:
    # Plain ASGI: the response is an endless stream.
    @asgi(HARNESS_PLUGINS)
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            raise RequestRefused("UsageError", "method not allowed", field="method", hint="Use GET.")
        context = context_of(scope)
        connector = _connector(hub, context.known_device, QueryParams(scope["query_string"]).get("harness", ""))
        peer = context.peer
        await stream_commands(connector, peer.pid if peer is not None else 0, receive, send)

    return [stream, report_sessions, handed_over, tell_events]
