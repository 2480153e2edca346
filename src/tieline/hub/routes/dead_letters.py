"""Dead letters: list, retry, drop."""

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from ...envelopes import DeadLetter, MessageReceipt, Refused, UnknownMessage
from ...protocol.messages import DeadOutcome, DeadSelection, DropView
from ..http.problems import RequestRefused
from ..http.request import Request, json_response, parse_body
from ..http.route_spec import RouteSpec
from ..http.routing import get, post
from .messages import TAGS, Limit, current_relay

if TYPE_CHECKING:
    from ..hub import Hub


@get("/api/v1/dead", tags=TAGS, spec=RouteSpec(response=list[DeadLetter]))
async def dead(
    request: Request,
    pattern: str = "",
    sender: str = "",
    reason: str = "",
    limit: Limit = 100,
) -> Response:
    """Undelivered messages, the newest first; filtered by address pattern, sender or reason."""
    relay = await current_relay(request)
    return json_response((await relay.dead_letters.list(to=pattern, sender=sender, reason=reason))[:limit])


@get("/api/v1/dead/{id}", tags=TAGS, spec=RouteSpec(response=DeadLetter, problems=("UnknownMessage",)))
async def letter(request: Request, id: str) -> Response:
    """One dead letter."""
    relay = await current_relay(request)
    return json_response(await relay.dead_letters.show(id))


@post(
    "/api/v1/dead/retry",
    tags=TAGS,
    spec=RouteSpec(body=DeadSelection, response=list[DeadOutcome], problems=("UnknownMessage",)),
)
async def retry(request: Request) -> Response:
    """Send dead letters again, each with a fresh budget. Returns the outcome of each."""
    chosen = await parse_body(request, DeadSelection)
    _check(chosen)
    outcomes: list[DeadOutcome] = []
    relay = await current_relay(request)
    retried: list[tuple[str, MessageReceipt | Refused]] = []
    if not chosen.ids:
        retried = await relay.dead_letters.retry(to=chosen.pattern, sender=chosen.sender, reason=chosen.reason)
    for id in chosen.ids:
        try:
            retried += await relay.dead_letters.retry([id])
        except UnknownMessage as error:
            outcomes.append(DeadOutcome(id=id, done=False, problem=error.message))
    for id, outcome in retried:
        if isinstance(outcome, Refused):
            outcomes.append(DeadOutcome(id=id, done=False, problem=f"{outcome.reason}: {outcome.message}"))
        else:
            outcomes.append(DeadOutcome(id=id, done=True, sent_as=outcome.id))
    return json_response(outcomes)


@post(
    "/api/v1/dead/drop",
    tags=TAGS,
    spec=RouteSpec(body=DeadSelection, response=DropView, problems=("UnknownMessage",)),
)
async def drop(request: Request) -> Response:
    """Delete dead letters."""
    chosen = await parse_body(request, DeadSelection)
    _check(chosen)
    relay = await current_relay(request)
    if chosen.ids:
        count = await relay.dead_letters.drop(chosen.ids)
    else:
        count = await relay.dead_letters.drop(to=chosen.pattern, sender=chosen.sender, reason=chosen.reason)
    return json_response(DropView(dropped=count))


def _check(chosen: DeadSelection) -> None:
    if not (chosen.ids or chosen.pattern or chosen.sender or chosen.reason):
        raise RequestRefused(
            "UsageError", "no selection", field="ids", hint="Give ids, a pattern, a sender or a reason."
        )


def routes(hub: "Hub") -> list[Any]:
    return [dead, letter, retry, drop]
