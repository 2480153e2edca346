"""The link: the WebSocket that nodes dial."""

from typing import TYPE_CHECKING, Any

from litestar.handlers import ASGIRouteHandler, asgi

from .. import sse
from ..link import Links
from ..problems import http_problem

if TYPE_CHECKING:
    from ..hub import Hub


def routes(hub: "Hub") -> list[ASGIRouteHandler]:
    links = Links(hub)

    @asgi("/api/v1/link", copy_scope=False)
    async def link(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await links.attend(scope["state"]["device"], receive, send)
        else:
            await sse.refuse(send, http_problem(426, "this door is a WebSocket, for nodes"))

    return [link]
