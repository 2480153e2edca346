"""For those who look after the hub: is it well, how much does it do, how is it spoken to."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Response, get
from msgspec import Struct

from ...version import __version__
from ..metrics import MEDIA_TYPE
from ..openapi import document
from ..request import Asked, answer, hub_of
from ..spec import spec

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["service"]
DOCS = Path(__file__).parent.parent / "docs"


class Health(Struct, frozen=True):
    status: str
    version: str


_HEALTHY = msgspec.json.encode(Health("ok", __version__))


@get("/healthz", tags=TAGS, opt=spec(gives=Health, problems=("BusError",)))
async def health(request: Asked) -> Response[bytes]:
    """Whether the hub and its bus answer. Says nothing else: this door is open."""
    await hub_of(request).bus.table("hub").get("epoch")
    return answer(_HEALTHY)


@get("/metrics", tags=TAGS, opt=spec(gives=str, media=MEDIA_TYPE))
async def metrics(request: Asked) -> Response[bytes]:
    """Numbers for Prometheus."""
    return Response(await hub_of(request).metrics.text(), media_type=MEDIA_TYPE)


@get("/api/v1/openapi.json", tags=TAGS, opt=spec(gives=dict[str, Any]))
async def openapi(request: Asked) -> Response[bytes]:
    """This document."""
    state = request.app.state
    if "document" not in state:
        state.document = msgspec.json.encode(document(request.app))
    return answer(state.document)


@get("/api/v1/docs", tags=TAGS, opt=spec(gives=str, media="text/html"))
async def docs(request: Asked) -> Response[bytes]:
    """The same, to read."""
    return _file("docs.html", "text/html")


@get("/api/v1/docs.js", include_in_schema=False)
async def script(request: Asked) -> Response[bytes]:
    return _file("docs.js", "text/javascript")


@get("/api/v1/docs.css", include_in_schema=False)
async def style(request: Asked) -> Response[bytes]:
    return _file("docs.css", "text/css")


def routes(hub: "Hub") -> list[Any]:
    return [health, metrics, openapi, docs, script, style]


def _file(name: str, media: str) -> Response[bytes]:
    return Response((DOCS / name).read_bytes(), media_type=media)
