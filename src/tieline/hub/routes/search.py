"""Search over all sessions, messages and asks."""

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta
from starlette.responses import Response

from ...protocol.search import SearchKind, SearchResults
from ..http.request import Request, json_response
from ..http.route_spec import RouteSpec
from ..http.routing import get
from .usage import Moment, Name

if TYPE_CHECKING:
    from ..hub import Hub

MAX_HITS = 200
MAX_ID = 2**62
SYNC_S = 0.3
"""How long a search waits for what was said just before it."""


@get(
    "/api/v1/search",
    tags=["search"],
    spec=RouteSpec(response=SearchResults, problems=("Unsupported", "TooManyRequests", "SearchRebuilding")),
)
async def search(
    request: Request,
    q: str,
    agent: Name = "",
    project: Name = "",
    session: Name = "",
    kind: SearchKind | None = None,
    since: Moment = 0.0,
    until: Moment = 0.0,
    before: Annotated[int, Meta(ge=0, le=MAX_ID)] = 0,
    limit: Annotated[int, Meta(ge=1, le=MAX_HITS)] = 50,
) -> Response:
    """What was said, run, asked and sent, the newest first.

    `q`: all of these words; `"…"` as they stand, `wor*` what begins so, `-word` without it. A hit says where it stands:
    the session and its place in the log (`seq`), or the message. `before` is the `id` of the last hit of the previous
    page. While the index is being built, `indexed` is below 1 and hits may be missing."""
    hub = request.hub
    if hub.search.indexed() == 1:  # else it would only wait
        await hub.event_indexer.sync(SYNC_S)
        await hub.message_indexer.sync(SYNC_S)
    results = await hub.search.search(
        q,
        agent=agent,
        project=project,
        session=session,
        kind=kind,
        since=since,
        until=until,
        before=before,
        limit=limit,
        sessions=hub.state.sessions,
    )
    return json_response(results)


def routes(hub: "Hub") -> list[Any]:
    return [search]
