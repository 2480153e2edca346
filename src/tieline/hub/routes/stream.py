"""The stream: a WebSocket, and the same as server-sent events."""

from typing import TYPE_CHECKING, Any

from ..http.problems import http_problem
from ..http.routing import AsgiRoute, asgi
from ..stream import sse
from ..stream.websocket import ClientStreams

if TYPE_CHECKING:
    from ..hub import Hub


def routes(hub: "Hub") -> list[AsgiRoute]:
    streams = ClientStreams(hub)

    # Plain ASGI: frames go from the fan-out to the socket directly.
    @asgi("/api/v1/stream")
    async def stream(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await streams.websocket(scope, receive, send)
        else:
            await sse.refuse(
                send, http_problem(426, "this path takes WebSocket upgrades only; GET stream/sse is the same over HTTP")
            )

    @asgi("/api/v1/stream/sse")
    async def events(scope: Any, receive: Any, send: Any) -> None:
        await sse.events(streams, scope, receive, send)

    return [stream, events]
