"""The link: the WebSocket that nodes dial."""

from typing import TYPE_CHECKING, Any

from ..http.problems import http_problem
from ..http.routing import AsgiRoute, asgi
from ..nodes.link import Links
from ..stream import sse

if TYPE_CHECKING:
    from ..hub import Hub


def routes(hub: "Hub") -> list[AsgiRoute]:
    links = Links(hub)

    @asgi("/api/v1/link")
    async def link(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await links.serve(scope, receive, send)
        else:
            await sse.refuse(send, http_problem(426, "this path takes WebSocket upgrades from nodes only"))

    return [link]
