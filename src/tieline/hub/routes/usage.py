"""What was used: tokens, cost, time and turns."""

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta
from starlette.responses import Response

from ...protocol.usage import UsageBy, UsageReport
from ..http.request import Request, json_response
from ..http.route_spec import RouteSpec
from ..http.routing import get

if TYPE_CHECKING:
    from ..hub import Hub

MAX_TIME = 253_402_300_799.0
"""The end of the year 9999."""
Moment = Annotated[float, Meta(ge=0, le=MAX_TIME)]
Name = Annotated[str, Meta(max_length=200)]


@get("/api/v1/usage", tags=["usage"], spec=RouteSpec(response=UsageReport))
async def usage(
    request: Request,
    by: UsageBy = "day",
    since: Moment = 0.0,
    until: Moment = 0.0,
    time_zone: Name = "",
    agent: Name = "",
    project: Name = "",
    session: Name = "",
) -> Response:
    """Tokens, cost, time and turns by day, agent, project or session.

    Counted when a turn ends, to the quarter of an hour; kept longer than events are. `time_zone` (`Europe/Berlin`)
    says whose days; without one they are those of the hub's machine. What agents do not tell is not guessed:
    `partial_turns`, `unknown_turns` and `turns_with_cost` say how much of the sums is known."""
    hub = request.hub
    up_to_date = await hub.event_indexer.sync()
    report = await hub.usage.report(
        by,
        since=since,
        until=until,
        time_zone=time_zone,
        agent=agent,
        project=project,
        session=session,
        sessions=hub.state.sessions,
        up_to_date=up_to_date,
    )
    return json_response(report)


def routes(hub: "Hub") -> list[Any]:
    return [usage]
