"""Sign-in, pairing and devices."""

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec.structs import replace
from starlette.responses import Response

from ...protocol import PROTOCOL
from ...protocol.access import Me, Offer, Paired
from ...protocol.request_bodies import Claim, Pairing
from ...protocol.views import DeviceView
from ...version import __version__
from ..http.problems import RequestRefused
from ..http.request import NO_CONTENT, Request, json_response, parse_body
from ..http.route_spec import RouteSpec
from ..http.routing import delete, get, post
from ..phone.qr_code import qr_code
from ..security.auth import OWNER, actor_name
from ..security.origins import host_name, is_loopback

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["access"]
MAX_NAME = 64


@get("/api/v1/me", tags=TAGS, spec=RouteSpec(response=Me))
async def me(request: Request) -> Response:
    """The device that makes the request."""
    return json_response(_me(request, request.context.known_device))


@post(
    "/api/v1/login",
    tags=TAGS,
    spec=RouteSpec(body=Claim, response=Me, problems=("Unauthenticated", "Forbidden", "TooManyRequests")),
)
async def login(request: Request) -> Response:
    """Sign a page in by a single-use secret: the response has its key, the bearer token of later requests."""
    hub = request.hub
    claim = await parse_body(request, Claim)
    device, key = await hub.devices.claim(claim.secret, ("page",), name=_name(claim.name))
    hub.login_limiter.give_back(request.context.address)
    hub.audit.record("sign-in", actor_name(hub.devices.view(device)), request.context.via)
    return json_response(_me(request, hub.devices.view(device), key))


@post("/api/v1/logout", tags=TAGS, spec=RouteSpec(status=204, problems=("Conflict",)))
async def logout(request: Request) -> Response:
    """Revoke the key of this device."""
    await revoke_device(request, request.context.known_device.id)
    return NO_CONTENT


@post(
    "/api/v1/pairings",
    tags=TAGS,
    spec=RouteSpec(body=Pairing, response=Offer, status=201, problems=("TooManyRequests",)),
)
async def offer(request: Request) -> Response:
    """Make a secret that lets one device in, once, within ten minutes."""
    hub, device = request.hub, request.context.known_device
    pairing = await parse_body(request, Pairing, empty=Pairing())
    if wait := hub.pairing_limiter.take(device.id):
        raise RequestRefused("TooManyRequests", "too many pairing secrets", hint="Retry later.", retry_s=wait)
    secret, expires_at = await hub.devices.offer(pairing.kind, name=_name(pairing.name), by=device.id)
    hub.audit.record("pairing", actor_name(device), request.context.via, step="offered", kind=pairing.kind)
    word = "login" if pairing.kind == "page" else "pair"
    url = f"{_url(request, page=pairing.kind == 'page')}/#{word}={secret}"
    here_only = is_loopback(urlsplit(url).hostname or "")
    qr = qr_code(url) if pairing.kind == "page" and not here_only else ""
    made = Offer(kind=pairing.kind, secret=secret, url=url, expires_at=expires_at, qr=qr, here_only=here_only)
    return json_response(made, 201)


@post(
    "/api/v1/pair",
    tags=TAGS,
    spec=RouteSpec(
        body=Claim,
        response=Paired,
        status=201,
        problems=("Unauthenticated", "Forbidden", "Conflict", "TooManyRequests"),
    ),
)
async def pair(request: Request) -> Response:
    """Exchange a secret for a key: for clients, nodes and harnesses."""
    hub = request.hub
    claim = await parse_body(request, Claim)
    device, key = await hub.devices.claim(
        claim.secret, ("client", "node", "mesh"), name=_name(claim.name), node=_node(claim.node)
    )
    hub.login_limiter.give_back(request.context.address)
    who = actor_name(hub.devices.view(device))
    hub.audit.record("pairing", who, request.context.via, step="paired", kind=device.kind)
    if device.kind == "node":
        await hub.nodes.add_paired(device.node, device.name)
    return json_response(Paired(device=hub.devices.view(device), key=key, hub=_url(request)), 201)


@get("/api/v1/devices", tags=TAGS, spec=RouteSpec(response=list[DeviceView]))
async def devices(request: Request) -> Response:
    """All devices that may use the hub, this machine's owner first."""
    hub, own = request.hub, request.context.known_device.id
    listed = [hub.auth.owner(), *hub.devices.list()]
    return json_response([replace(device, current=device.id == own) for device in listed])


@delete("/api/v1/devices/{id}", tags=TAGS, spec=RouteSpec(status=204, problems=("NotFound", "Conflict")))
async def revoke(request: Request, id: str, let_in: bool = False) -> Response:
    """Revoke a device and close its connections at once.

    With `let_in` also the devices that it paired, directly or indirectly, except the calling one."""
    others = request.hub.devices.paired_by(id) if let_in else ()
    await revoke_device(request, id)
    for paired in others:
        if paired != request.context.known_device.id:
            await revoke_device(request, paired)
    return NO_CONTENT


async def revoke_device(request: Request, id: str) -> None:
    """In the caller's name, with a line in the audit log."""
    hub = request.hub
    if id == OWNER:
        raise RequestRefused("Conflict", "the owner of this machine cannot be revoked", field="id")
    name = next((actor_name(device) for device in hub.devices.list() if device.id == id), id)
    await hub.devices.revoke(id)
    hub.audit.record("revoke", actor_name(request.context.known_device), request.context.via, device=name)


def routes(hub: "Hub") -> list[Any]:
    return [me, login, logout, offer, pair, devices, revoke]


def _me(request: Request, device: DeviceView, key: str = "") -> Me:
    hub = request.hub
    return Me(
        device=replace(device, current=True),
        key=key,
        version=__version__,
        protocol=PROTOCOL,
        node=hub.dispatcher.local,
        url=_url(request),
    )


def _url(request: Request, *, page: bool = False) -> str:
    """The hub's public URL: by the host that the caller used, unless that is a loopback name. A page is for a phone
    where a way for phones is set up; other programs need not trust that way's certificate."""
    hub = request.hub
    host = request.headers.get("host", "")
    local = request.context.peer is not None or is_loopback(host_name(host))
    if page and local and hub.phone is not None and hub.phone.url:
        return hub.phone.url
    if hub.url and (local or hub.config.hub.public_url):
        return hub.url.rstrip("/")
    return f"{'https' if hub.origins.is_tls(host, request.scope) else 'http'}://{host}"


def _name(name: str) -> str:
    """Names are shown to people: printable and short."""
    return " ".join("".join(c if c.isprintable() else " " for c in name).split())[:MAX_NAME]


def _node(node: str) -> str:
    if node and not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", node):
        raise RequestRefused("UsageError", "a node's id has 1 to 64 letters, digits, - or _", field="node")
    return node
