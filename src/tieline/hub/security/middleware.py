"""The security middleware: every request and every upgrade passes it, and the application sees only what it admits.

It checks, in this order: the path is plain; the Host is one of ours (another name that points here is an attack); the
Origin is our own page (another site's page may not use the hub); the caller is known (on the owner's socket by the
process that connected, a person's or an agent's; else by its bearer key; cookies are ignored); and that kind of device,
or that session, may use this route. Then it reads the body, bounded in size and time, and honours idempotency keys.
"""

import asyncio
import time
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...ids import new_id
from ...protocol.views import DeviceView
from ..http.problems import INTERNAL_ERROR, RequestRefused
from ..http.request_context import RequestContext
from ..http.response_writer import ResponseWriter
from . import access_rules
from .idempotency import command_id, digest_of, idempotency_id
from .local_peer import LocalPeer

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


def authorize(context: RequestContext, scope: Scope, hub: "Hub") -> None:
    """Sets the request's device and session, or raises RequestRefused."""
    headers = context.checked_headers
    if access_rules.is_ambiguous(context.path):
        raise RequestRefused("UsageError", "ambiguous path", field="path")
    hub.origins.check_host(headers.get("host", ""), scope)
    context.foreign_origin = hub.origins.check_origin(context.method, headers, scope)
    if context.foreign_origin and context.method == "OPTIONS":
        return  # a preflight has no token; the middleware answers it
    need = access_rules.required_auth(context.method, context.path)
    _identify(context, hub)
    if need == "nothing" or (need == "first frame" and context.device is None):
        return
    device = context.device
    if context.session and not access_rules.session_allowed(context.method, context.path, context.session):
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
    if allowed is not None and need != device.kind and (context.method, context.path) not in allowed:
        purpose = {"node": "the node link", "mesh": "the MCP server and hooks"}[device.kind]
        raise RequestRefused(
            "Forbidden", f"a {device.kind}'s key is valid for {purpose} only", hint="Pair this device as a client."
        )


def _identify(context: RequestContext, hub: "Hub") -> None:
    headers = context.checked_headers
    if (peer := context.peer) is not None:
        device = _identify_peer(context, peer, hub)
        if context.session or "authorization" not in headers:  # an agent is its session, also with a stolen token
            context.device = device
            return
    if (authorization := headers.get("authorization")) is not None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer":
            context.device = hub.auth.device_of(token.strip())
        if context.device is None and access_rules.required_auth(context.method, context.path) != "nothing":
            raise RequestRefused("Unauthenticated", "unknown or revoked token", field="Authorization")


def _identify_peer(context: RequestContext, peer: LocalPeer, hub: "Hub") -> DeviceView:
    """The device of a connection by the owner's socket."""
    if peer.problem:
        raise RequestRefused(
            "Forbidden", peer.problem, hint="`tieline pair --client` lets a program in by a key of its own."
        )
    if peer.mark is None:
        if access_rules.person_only(context.method, context.path) and hub.harness_above(peer):
            raise RequestRefused(
                "Forbidden",
                "the request comes from an agent in a terminal; only a person may do this",
                hint="Do it in a shell of your own, on the page or on your phone.",
            )
        lasting = access_rules.terminal_only(context.method, context.path)
        if lasting and not peer.terminal and hub.has_agents_in_terminals():
            raise RequestRefused(
                "Forbidden",
                "an agent runs in a terminal of this machine, and the hub cannot tell whether a person asks for this",
                hint="Do it in a terminal, on the page or on your phone; a program can have a key of its own.",
            )
        return hub.auth.owner()
    context.session = hub.session_of(peer) or UNKNOWN_SESSION
    return hub.auth.agent(context.session)


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
        state = scope["state"]
        client = scope.get("client")
        context = state["context"] = RequestContext(
            id=new_id(),
            method=method,
            path=scope["path"],
            address=str(client[0]) if client else "unknown",
            peer=state.get("peer"),
        )
        hub, began = self._hub, time.perf_counter()
        answer = ResponseWriter(send, context)
        try:
            _parse_headers(context, scope)
            context.hsts = hub.origins.use_hsts(context.checked_headers.get("host", ""), scope)
            authorize(context, scope, hub)
            if context.device is not None and (known := state.get("known")):
                known()
            if kind == "websocket":
                await self._app(scope, receive, send)
            elif context.foreign_origin and context.method == "OPTIONS":
                await answer.preflight()
            else:
                await self._handle_http(context, scope, receive, answer)
        except RequestRefused as error:
            context.problem = error.message
            await answer.refuse(error, scope, receive)
        except TimeoutError:
            hub.log.warning("took too long", method=method, path=context.path, id=context.id)
            await answer.server_error(504, "the request took too long")
        except Exception as error:
            hub.log.error("failed", method=method, path=context.path, id=context.id, exc_info=error)
            await answer.server_error(500, INTERNAL_ERROR)
        finally:
            hub.note(context, scope.get("route"), answer.status, time.perf_counter() - began)
            context.body = b""  # an open connection keeps its last request, and there may be many

    async def _handle_http(
        self, context: RequestContext, scope: Scope, receive: Receive, answer: ResponseWriter
    ) -> None:
        headers = context.checked_headers
        if context.method in UNSAFE_METHODS or "length" in headers or "encoding" in headers:
            if context.path in access_rules.RATE_LIMITED:
                self._hub.guess(context)
            context.body = await _read_body(context, receive)
            receive = _replay(context.body, receive)
        if context.path in access_rules.STREAMS:
            await self._app(scope, receive, answer.send)
            return
        async with asyncio.timeout(access_rules.response_limit(context.path)):
            key = headers.get("once")
            # A secret in the body authenticates the rate-limited ones.
            known = context.device is not None or context.path in access_rules.RATE_LIMITED
            if key is None or context.method not in UNSAFE_METHODS or not known:
                await self._app(scope, receive, answer.send)
                return
            device = context.device.id if context.device else ""
            id = idempotency_id(device, context.method, context.path, key)
            digest = digest_of(scope["query_string"], context.body)
            context.command_id = command_id(id, digest)

            async def call(record: Send) -> None:
                await self._app(scope, receive, record)

            kept = await self._hub.idempotency.run(
                id, digest, call, private=context.path in access_rules.SECRET_RESPONSES
            )
            encoded_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in kept.headers]
            await answer.send_response(kept.status, encoded_headers, kept.body)


def _parse_headers(context: RequestContext, scope: Scope) -> None:
    headers = context.checked_headers
    for name, value in scope["headers"]:
        if (known := _HEADERS.get(name)) is not None:
            if known in headers:
                if known in _SINGLE_VALUED:
                    raise RequestRefused("UsageError", f"duplicate header {name.decode()}", field=name.decode())
                headers[known] += ", " + value.decode("latin-1")
            else:
                headers[known] = value.decode("latin-1")


async def _read_body(context: RequestContext, receive: Receive) -> bytes:
    limit, seconds = access_rules.body_limits(context.path, stranger=context.device is None)
    length = context.checked_headers.get("length", "")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    body = b""
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestRefused("SlowRequest", "the connection was closed in the middle of the body")
                body += message.get("body", b"")
                if len(body) > limit:
                    raise _too_large(limit)
                if not message.get("more_body", False):
                    return body
    except TimeoutError:
        raise RequestRefused("SlowRequest", f"the body did not arrive within {seconds:g} seconds") from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once more for a plain ASGI application, then what `receive` says."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _too_large(limit: int) -> RequestRefused:
    return RequestRefused("BodyTooLarge", f"the body is larger than {limit:,} bytes", field="body")
