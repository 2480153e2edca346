"""The HTTP application of a joined machine for its own terminals. Its hub is elsewhere, so the node listens at the
owner's socket, where hooks and plugins find it: it takes permission prompts and what plugins report, and nothing else.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..errors import TielineError
from ..harnesses.hook_handler import PERMISSION_EVENT, HarnessHooks
from ..mesh.plugin_connector import PluginConnector
from ..mesh.push import Connector
from ..mesh.records import Caller
from ..protocol.harness_plugins import PluginEvents, PluginHandedOver, PluginReport
from .http.request import JSON, NO_CONTENT
from .routes.harness_hooks import while_connected
from .routes.harness_plugins import stream_commands
from .security.access_rules import HARNESS_HOOKS, HARNESS_PLUGINS, body_limits
from .security.local_peer import LocalPeer


class NodeSocketApp:
    """An ASGI application. `machine` is the name of this one."""

    def __init__(self, connectors: Iterable[Connector], machine: str) -> None:
        connectors = list(connectors)
        self._machine = machine
        self._plugins = {
            connector.harness: connector for connector in connectors if isinstance(connector, PluginConnector)
        }
        self._hooks = HarnessHooks(None, machine, connectors=connectors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer: LocalPeer | None = scope["state"].get("peer")
        if scope["type"] != "http":
            return
        if peer is None or peer.problem or peer.mark is not None:  # an agent that we drive is not in a terminal
            await Response(status_code=403)(scope, receive, send)
            return
        try:
            await self._handle(scope, receive, send, peer)
        except (TielineError, msgspec.DecodeError, TimeoutError) as error:
            await Response(str(error), 400)(scope, receive, send)

    async def _handle(self, scope: Scope, receive: Receive, send: Send, peer: LocalPeer) -> None:
        query = QueryParams(scope["query_string"])
        harness, event, path = query.get("harness", ""), query.get("event", ""), str(scope["path"])
        response = Response(status_code=404)
        if scope["method"] == "GET" and path == HARNESS_PLUGINS and (plugin := self._plugins.get(harness)):
            await stream_commands(plugin, peer.pid, receive, send)
            return
        if scope["method"] == "POST" and path == HARNESS_HOOKS:
            input = msgspec.json.decode(await _body(path, receive), type=dict[str, Any])
            if event:
                input = {"hook_event_name": event, **input}
            handling = self._hooks.handle(Caller(machine=self._machine), harness, input, peer.pid)
            reply = await (while_connected(scope, receive, handling) if event == PERMISSION_EVENT else handling)
            response = Response(reply.text if reply else "", media_type=JSON)
        elif scope["method"] == "POST" and path.startswith(f"{HARNESS_PLUGINS}/"):
            harness, _, what = path.removeprefix(f"{HARNESS_PLUGINS}/").partition("/")
            if (plugin := self._plugins.get(harness)) and await _tell(plugin, what, await _body(path, receive)):
                response = NO_CONTENT
        await response(scope, receive, send)


async def _tell(plugin: PluginConnector, what: str, body: bytes) -> bool:
    """Whether it is known what that is about."""
    match what:
        case "sessions":
            return plugin.report(msgspec.json.decode(body, type=PluginReport))
        case "handed-over":
            return plugin.handed_over(msgspec.json.decode(body, type=PluginHandedOver))
        case "events":
            return await plugin.events(msgspec.json.decode(body, type=PluginEvents))
        case _:
            return False


async def _body(path: str, receive: Receive) -> bytes:
    limit, seconds = body_limits(path)
    body = b""
    async with asyncio.timeout(seconds):
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if len(body) > limit or not message.get("more_body", False):
                break
    return body[: limit + 1]
