"""Reads the audit log."""

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta
from starlette.responses import Response

from ...protocol.audit import AuditKind, AuditLine
from ..http.request import Request, json_response
from ..http.route_spec import RouteSpec
from ..http.routing import get

if TYPE_CHECKING:
    from ..hub import Hub

MAX_LINES = 1000
MAX_SEQ = 2**63 - 1


@get("/api/v1/audit", tags=["access"], spec=RouteSpec(response=list[AuditLine]))
async def audit(
    request: Request,
    before: Annotated[int, Meta(ge=0, le=MAX_SEQ)] = 0,
    since: Annotated[float, Meta(ge=0)] = 0.0,
    kind: AuditKind | None = None,
    limit: Annotated[int, Meta(ge=1, le=MAX_LINES)] = 100,
) -> Response:
    """Sign-ins, pairings, decisions and refusals, the newest first.

    `before` is the `seq` of the last line of the previous page."""
    return json_response(await request.hub.audit.read(before=before, since=since, kind=kind, limit=limit))


def routes(hub: "Hub") -> list[Any]:
    return [audit]
