"""Marks of sessions: how far they were read, and which are pinned. One person's, on all devices."""

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from ...protocol.request_bodies import MarkChange
from ...protocol.views import SessionMark
from ..http.request import Request, json_response, parse_body
from ..http.route_spec import RouteSpec
from ..http.routing import get, patch
from ..nodes.command_helpers import get_session

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["sessions"]


@get("/api/v1/session-marks", tags=TAGS, spec=RouteSpec(response=list[SessionMark]))
async def marks(request: Request) -> Response:
    """Which turns of each session were read, and which sessions are pinned. A session without a mark was never read."""
    return json_response(request.hub.state.snapshot().marks)


@patch(
    "/api/v1/sessions/{session}/mark",
    tags=TAGS,
    spec=RouteSpec(body=MarkChange, response=SessionMark, problems=("NotFound", "ConcurrentChange")),
)
async def mark(request: Request, session: str) -> Response:
    """Say how many of its turns were read, or pin it. Every open page is told at once."""
    record = await get_session(request.hub, session)
    return json_response(await request.hub.marks.change(record, await parse_body(request, MarkChange)))


def routes(hub: "Hub") -> list[Any]:
    return [marks, mark]
