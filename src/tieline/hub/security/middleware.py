"""Every request and every upgrade passes `admit`; the application behind it sees only what was admitted.

The checks, in this order: the path is plain; the Host is one of ours (another name that points here is an attack); the
Origin is our own page (another site's page may not use the hub); the caller is known (on the owner's socket by the
process that connected, a person's or an agent's; else by its bearer key; cookies are ignored); and that kind of device,
or that session, may use this route. Then the body is read, bounded in size and time, and idempotency keys are honoured.
"""

import asyncio
import time
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...ids import new_id
from ...protocol.views import DeviceView
from ..http.problems import RequestRefused
from ..http.responses import RequestContext, ResponseWriter
from . import access_rules
from .idempotency import command_id, digest_of, idempotency_id
from .peer_credentials import LocalPeer

if TYPE_CHECKING:
    from ..hub import Hub

UNKNOWN_SESSION = "?"
"""The session of an agent whose session cannot be determined."""
UNSAFE_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})

_HEADERS = {
    b"host": "host",
    b"origin": "origin",
    b"authorization": "authorization",
    b"content-length": "length",
    b"transfer-encoding": "encoding",
    b"expect": "expect",
    b"idempotency-key": "once",
    b"sec-fetch-site": "site",
    b"sec-fetch-mode": "mode",
}
_SINGLE_VALUED = ("host", "origin", "authorization", "length", "once")


def authorize(visit: RequestContext, scope: Scope, hub: "Hub") -> None:
    """Sets the request's device and session, or raises RequestRefused."""
    said = visit.said
    if access_rules.is_ambiguous(visit.path):
        raise RequestRefused("UsageError", "ambiguous path", field="path")
    hub.origins.check_host(said.get("host", ""), scope)
    visit.foreign = hub.origins.check_origin(visit.method, said, scope)
    if visit.foreign and visit.method == "OPTIONS":
        return  # a preflight has no token; the middleware answers it
    need = access_rules.required_auth(visit.method, visit.path)
    _identify(visit, scope, hub)
    if need == "nothing" or (need == "first frame" and visit.device is None):
        return
    device = visit.device
    if visit.session and not access_rules.session_allowed(visit.method, visit.path, visit.session):
        raise RequestRefused(
            "Forbidden",
            "an agent may not do this; only a person may",
            hint="It may send messages, read its own session, and start an agent by `tieline run --standalone`.",
        )
    if device is None:
        raise RequestRefused(
            "Unauthenticated",
            "missing or invalid credentials",
            hint="Send `Authorization: Bearer <token>`; `tieline pair` pairs a new device.",
        )
    if need == "node" and device.kind != "node":
        raise RequestRefused("Forbidden", "only nodes may connect here", hint="Join with `tieline node join`.")
    allowed = access_rules.LIMITED_KEYS.get(device.kind)
    if allowed is not None and need != device.kind and (visit.method, visit.path) not in allowed:
        place = {"node": "the node link", "mesh": "the MCP server"}[device.kind]
        raise RequestRefused(
            "Forbidden", f"a {device.kind}'s key is valid for {place} only", hint="Pair this device as a client."
        )


def _identify(visit: RequestContext, scope: Scope, hub: "Hub") -> None:
    said = visit.said
    if (peer := scope["state"].get("peer")) is not None:
        scope["state"]["via"] = peer.via
        device = _identify_peer(visit, peer, hub)
        if visit.session or "authorization" not in said:  # an agent is its session, also with a stolen token
            visit.device = device
            return
    if (authorization := said.get("authorization")) is not None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer":
            visit.device = hub.auth.device_of(token.strip())
        if visit.device is None and access_rules.required_auth(visit.method, visit.path) != "nothing":
            raise RequestRefused("Unauthenticated", "unknown or revoked token", field="Authorization")


def _identify_peer(visit: RequestContext, peer: LocalPeer, hub: "Hub") -> DeviceView:
    """The device of a connection by the owner's socket."""
    if peer.problem:
        raise RequestRefused(
            "Forbidden", peer.problem, hint="`tieline pair --client` lets a program in by a key of its own."
        )
    if peer.mark is None:
        return hub.auth.owner()
    visit.session = hub.session_of(peer) or UNKNOWN_SESSION
    return hub.auth.agent(visit.session)


class SecurityMiddleware:
    """Authenticates, authorizes and limits every request before the application sees it."""

    def __init__(self, app: ASGIApp, hub: "Hub") -> None:
        self._app = app
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._app(scope, receive, send)
            return
        method = scope["method"] if kind == "http" else "WEBSOCKET"
        visit = RequestContext(id=new_id(), method=method, path=scope["path"], said={})
        hub, began = self._hub, time.perf_counter()
        answer = ResponseWriter(send, visit)
        try:
            _parse_headers(visit, scope)
            visit.strict = hub.origins.use_hsts(visit.said.get("host", ""), scope)
            authorize(visit, scope, hub)
            state = scope["state"]
            if visit.device is not None and (known := state.get("known")):
                known()
            state["device"], state["request"], state["once"] = visit.device, visit.id, ""
            state["session"] = visit.session
            if kind == "websocket":
                await self._app(scope, receive, send)
            elif visit.foreign and visit.method == "OPTIONS":
                await answer.preflight()
            else:
                await self._handle_http(visit, scope, receive, answer)
        except RequestRefused as error:
            visit.why = error.message
            await answer.refuse(error, scope, receive)
        except TimeoutError:
            hub.log.warning("took too long", method=method, path=visit.path, id=visit.id)
            await answer.server_error(504, "the request took too long")
        except Exception as error:
            hub.log.error("failed", method=method, path=visit.path, id=visit.id, exc_info=error)
            await answer.server_error(500, "internal error; the hub's log has the details")
        finally:
            hub.note(scope, visit, answer.status, time.perf_counter() - began)

    async def _handle_http(self, visit: RequestContext, scope: Scope, receive: Receive, answer: ResponseWriter) -> None:
        said = visit.said
        body = b""
        if visit.method in UNSAFE_METHODS or "length" in said or "encoding" in said:
            if visit.path in access_rules.RATE_LIMITED:
                self._hub.guess(scope)
            body = await _read_body(visit, receive)
            receive = _replay(body, receive)
        if visit.path in access_rules.STREAMS:
            await self._app(scope, receive, answer.send)
            return
        async with asyncio.timeout(access_rules.RESPONSE_S):
            key = said.get("once")
            known = visit.device is not None or visit.path in access_rules.RATE_LIMITED  # a secret authenticates these
            if key is None or visit.method not in UNSAFE_METHODS or not known:
                await self._app(scope, receive, answer.send)
                return
            device = visit.device.id if visit.device else ""
            id = idempotency_id(device, visit.method, visit.path, key)
            digest = digest_of(scope["query_string"], body)
            scope["state"]["once"] = command_id(id, digest)

            async def call(record: Send) -> None:
                await self._app(scope, receive, record)

            kept = await self._hub.idempotency.run(
                id, digest, call, private=visit.path in access_rules.SECRET_RESPONSES
            )
            found = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in kept.headers]
            await answer.send_response(kept.status, found, kept.body)


def _parse_headers(visit: RequestContext, scope: Scope) -> None:
    said = visit.said
    for name, value in scope["headers"]:
        if (known := _HEADERS.get(name)) is not None:
            if known in said:
                if known in _SINGLE_VALUED:
                    raise RequestRefused("UsageError", f"duplicate header {name.decode()}", field=name.decode())
                said[known] += ", " + value.decode("latin-1")
            else:
                said[known] = value.decode("latin-1")


async def _read_body(visit: RequestContext, receive: Receive) -> bytes:
    limit, seconds = access_rules.body_limits(visit.path, stranger=visit.device is None)
    length = visit.said.get("length", "")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    found = b""
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestRefused("SlowRequest", "the connection was closed in the middle of the body")
                found += message.get("body", b"")
                if len(found) > limit:
                    raise _too_large(limit)
                if not message.get("more_body", False):
                    return found
    except TimeoutError:
        raise RequestRefused("SlowRequest", f"the body did not arrive within {seconds:g} seconds") from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once more for the application, then what `receive` says."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _too_large(limit: int) -> RequestRefused:
    return RequestRefused("BodyTooLarge", f"the body is larger than {limit:,} bytes", field="body")
