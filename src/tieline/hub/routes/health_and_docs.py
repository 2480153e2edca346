"""Health check, metrics, and the API's documentation."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from starlette.responses import Response

from ...version import __version__
from ..http.openapi import document
from ..http.request import Request, json_response
from ..http.route_spec import RouteSpec
from ..http.routing import get
from ..ops.metrics import MEDIA_TYPE

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["service"]
DOCS = Path(__file__).parents[1] / "http" / "docs"


class Health(Struct, frozen=True):
    status: str
    version: str


_document: list[bytes] = []  # made when somebody asks for it; the same for every hub
_HEALTHY = msgspec.json.encode(Health("ok", __version__))


@get("/healthz", tags=TAGS, spec=RouteSpec(response=Health, problems=("BusError",)))
async def health(request: Request) -> Response:
    """Whether the hub and its bus respond. Public, so it says nothing else."""
    await request.hub.bus.table("hub").get("epoch")
    return json_response(_HEALTHY)


@get("/metrics", tags=TAGS, spec=RouteSpec(response=str, media_type=MEDIA_TYPE))
async def metrics(request: Request) -> Response:
    """Metrics for Prometheus."""
    return Response(await request.hub.metrics.text(), media_type=MEDIA_TYPE)


@get("/api/v1/openapi.json", tags=TAGS, spec=RouteSpec(response=dict[str, Any]))
async def openapi(request: Request) -> Response:
    """The OpenAPI document."""
    if not _document:
        _document.append(msgspec.json.encode(document(request.app.routes)))
    return json_response(_document[0])


@get("/api/v1/docs", tags=TAGS, spec=RouteSpec(response=str, media_type="text/html"))
async def docs(request: Request) -> Response:
    """The API documentation as a page."""
    return _file("docs.html", "text/html")


@get("/api/v1/docs.js", spec=None)
async def script(request: Request) -> Response:
    return _file("docs.js", "text/javascript")


@get("/api/v1/docs.css", spec=None)
async def style(request: Request) -> Response:
    return _file("docs.css", "text/css")


def routes(hub: "Hub") -> list[Any]:
    return [health, metrics, openapi, docs, script, style]


def _file(name: str, media: str) -> Response:
    return Response((DOCS / name).read_bytes(), media_type=media)
