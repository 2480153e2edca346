"""Rules for asks: list, test, make, revoke; and which rules an ask could become."""

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from ...protocol.rules import NewRule, RuleChoice, RulePreview, RuleView
from ..http.request import Request, json_response, parse_body
from ..http.route_spec import RouteSpec
from ..http.routing import delete, get, post
from ..nodes.command_helpers import check_client_id, get_ask
from ..security.auth import actor_name

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["rules"]
UNKNOWN = ("UnknownRule",)


@get("/api/v1/rules", tags=TAGS, spec=RouteSpec(response=list[RuleView]))
async def every(request: Request) -> Response:
    """Rules that hold, the newest first, then those that were revoked or are over."""
    return json_response(await request.hub.rules.views())


@post("/api/v1/rules", tags=TAGS, spec=RouteSpec(body=NewRule, response=RuleView, status=201, problems=("Forbidden",)))
async def add(request: Request) -> Response:
    """Allow, or deny, what is asked again: a command exactly or by its first words, files, a host, an MCP tool.

    It holds when this returns. It never allows what a session's policy denies."""
    new = await parse_body(request, NewRule)
    check_client_id("id", new.id)
    made = await request.hub.rules.add(new, by=actor_name(request.context.known_device), key=request.context.command_id)
    _audit(request, made, "made")
    return json_response(made, 201)


@post("/api/v1/rules/preview", tags=TAGS, spec=RouteSpec(body=NewRule, response=RulePreview))
async def preview(request: Request) -> Response:
    """What a rule would have decided of the last 60 permissions that were asked for. Saves nothing."""
    return json_response(await request.hub.rules.preview(await parse_body(request, NewRule)))


@get("/api/v1/rules/{rule}", tags=TAGS, spec=RouteSpec(response=RuleView, problems=UNKNOWN))
async def show(request: Request, rule: str) -> Response:
    """One rule: who made it and when, how often it decided, which machines have not heard of it."""
    return json_response(await request.hub.rules.view(rule))


@delete(
    "/api/v1/rules/{rule}",
    tags=TAGS,
    spec=RouteSpec(response=RuleView, problems=(*UNKNOWN, "Forbidden", "ConcurrentChange")),
)
async def revoke(request: Request, rule: str) -> Response:
    """Revoke a rule. It stays on the list, with who revoked it and when."""
    revoked = await request.hub.rules.revoke(rule, by=actor_name(request.context.known_device))
    _audit(request, revoked, "revoked")
    return json_response(revoked)


@get("/api/v1/asks/{ask}/rule-choices", tags=TAGS, spec=RouteSpec(response=list[RuleChoice], problems=("NotFound",)))
async def choices(request: Request, ask: str) -> Response:
    """The rules that an ask could become, the narrowest first. None: only people can decide such an ask."""
    return json_response(await request.hub.rules.choices(await get_ask(request.hub, ask)))


def _audit(request: Request, rule: RuleView, done: str) -> None:
    who, via = actor_name(request.context.known_device), request.context.via
    request.hub.audit.record("rule", who, via, done=done, rule=rule.id, says=rule.text, ask=rule.ask)


def routes(hub: "Hub") -> list[Any]:
    return [every, add, preview, show, revoke, choices]
