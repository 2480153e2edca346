"""How a phone reaches the hub: the ways that there are, and the one that is set up."""

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from starlette.responses import Response

from ...protocol.phone import PhoneSetup, PhoneStatus, PhoneWay, PhoneWayName
from ..http.problems import RequestRefused
from ..http.request import NO_CONTENT, Request, json_response, parse_body
from ..http.route_spec import RouteSpec
from ..http.routing import delete, get, post
from ..phone.qr_code import qr_code
from ..security.auth import actor_name
from ..security.hub_machine import require_hub_machine

if TYPE_CHECKING:
    from ..hub import Hub
    from ..phone.phone_access import PhoneAccess

TAGS = ["access"]
OPENS_NOTHING: frozenset[PhoneWayName] = frozenset(("ssh", "configured"))
"""Ways that are there already: to set one up is to be told about it."""


@get("/api/v1/phone", tags=TAGS, spec=RouteSpec(response=PhoneStatus, problems=("Unsupported",)))
async def status(request: Request) -> Response:
    """The way that phones reach the hub by, if one is set up."""
    return json_response(_with_code(_phone(request).status()))


@get("/api/v1/phone/ways", tags=TAGS, spec=RouteSpec(response=list[PhoneWay], problems=("Unsupported",)))
async def ways(request: Request) -> Response:
    """All ways, whether the hub's machine has them, and what each means for safety. The recommended ones come first."""
    return json_response(await _phone(request).ways())


@post(
    "/api/v1/phone",
    tags=TAGS,
    spec=RouteSpec(body=PhoneSetup, response=PhoneStatus, problems=("Conflict", "Forbidden", "Unsupported")),
)
async def set_up(request: Request) -> Response:
    """Set up a way, in place of the one before, and check it. The hub keeps it over restarts. Only its own machine may
    open one."""
    wanted = await parse_body(request, PhoneSetup)
    if wanted.way not in OPENS_NOTHING:
        require_hub_machine(request, "open a way for phones")
    _audit(request, f"set up {wanted.way}")
    return json_response(_with_code(await _phone(request).set_up(wanted)))


@delete("/api/v1/phone", tags=TAGS, spec=RouteSpec(status=204, problems=("Unsupported",)))
async def turn_off(request: Request) -> Response:
    """Close the way, with the connections that came by it. Paired devices stay paired. Any of them may: it takes away
    only."""
    _audit(request, "turned off")
    await _phone(request).turn_off()
    return NO_CONTENT


def _with_code(status: PhoneStatus) -> PhoneStatus:
    return replace(status, trust_qr=qr_code(status.trust_url)) if status.trust_url else status


def _audit(request: Request, step: str) -> None:
    request.hub.audit.record("phone", actor_name(request.context.known_device), request.context.via, step=step)


def _phone(request: Request) -> "PhoneAccess":
    phone = request.hub.phone
    if phone is None:
        raise RequestRefused("Unsupported", "this hub does not listen on a network")
    return phone


def routes(hub: "Hub") -> list[Any]:
    return [status, ways, set_up, turn_off]
