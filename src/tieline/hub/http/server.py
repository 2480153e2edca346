"""The hub's listening socket, and uvicorn behind it, in our own loop.

Beyond loopback it listens only with TLS, or when somebody says in so many words that it need not be. Whoever opens a
connection says soon what they want: half a request line holds nothing, and of strangers' connections there are few.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import uvicorn
from msgspec import Struct
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ...background_tasks import cancel_and_wait
from ...config import MAX_PORT, HubConfig
from ...errors import UsageError
from ...protocol.node_link import MAX_FRAME
from ..security import access_rules
from ..security.local_peer import peer_of
from ..security.origins import is_loopback
from ..security.unauthenticated_limits import UNAUTHENTICATED_S, UnauthenticatedLimits
from ..security.unix_socket import OwnerSocket
from ..stream.uvicorn_websocket import PreencodedWebSocketProtocol

HEAD_S = UNAUTHENTICATED_S
"""From the first byte (or none) to the end of a request's head."""
KEEP_ALIVE_S = 75
MAX_HEAD = 32 * 1024
MAX_PIPELINE = 16
"""Requests that wait for the answers before them, on one connection."""
MAX_CONNECTIONS = 5000
GRACE_S = 3
"""How long answers that are under way may take when the hub ends."""


class ServerAddress(Struct, frozen=True, kw_only=True):
    host: str
    port: int
    tls: bool
    socket: str = ""  # the owner's way in

    @property
    def url(self) -> str:
        """How this machine reaches it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


def bind(host: str, port: int, *, tls: bool, insecure: bool) -> socket.socket:
    """A socket of our own, not yet listening. Raises UsageError."""
    if not 0 <= port <= MAX_PORT:  # the system would take it modulo 65536
        hint = f"A port is a number from 0 to {MAX_PORT}; 0 takes a free one."
        raise UsageError(f"there is no port {port}", field="hub.port", hint=hint)
    if not (tls or insecure or is_loopback(host)):
        raise UsageError(
            f"{host or 'every address'} can be reached from other machines, and what is sent would not be encrypted",
            field="hub.host",
            hint="Set hub.tls_certificate and hub.tls_key, put a TLS proxy in front of 127.0.0.1, or say --insecure "
            "(hub.insecure = true) if you trust the network.",
        )
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{host!r} is not an address of this machine: {error}", field="hub.host") from None
    if not (tls or insecure or is_loopback(str(address[0]))):  # a name that only looks like ours
        raise UsageError(f"{host} is {address[0]}, which is not a loopback address", field="hub.host")
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        hint = "Is a hub running already (`tieline status`)? `--port 0` takes a free one."
        raise UsageError(
            f"cannot listen on {host} port {port}: {error.strerror}", field="hub.port", hint=hint
        ) from None
    return bound


def _server(app: ASGIApp, http: type[HttpToolsProtocol], config: HubConfig) -> uvicorn.Server:
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=http,
            ws=PreencodedWebSocketProtocol,
            ws_max_size=MAX_FRAME + 1024,
            ws_per_message_deflate=False,
            ws_ping_interval=None,  # both protocols have heartbeats of their own
            lifespan="off",
            loop="asyncio",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
            limit_concurrency=MAX_CONNECTIONS,
            ssl_certfile=config.tls_certificate or None,
            ssl_keyfile=config.tls_key or None,
        )
    )
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    server.lifespan.state["strangers"] = UnauthenticatedLimits()  # every connection of this server finds it there
    return server


@asynccontextmanager
async def serve_locally(app: ASGIApp, socket_path: Path) -> AsyncGenerator[None, None]:
    """Serves at the owner's socket alone, inside the block."""
    local, http = OwnerSocket(socket_path), _bounded_protocol(HEAD_S)
    try:
        server = _server(app, http, HubConfig())
        await server.startup(sockets=[])
        server.servers.append(await _listen_locally(server, http, local))
        ticking = asyncio.create_task(server.main_loop())
        try:
            yield
        finally:
            await cancel_and_wait(ticking)
            await asyncio.shield(_shut_down(server, local.socket))
    finally:
        local.close()


@asynccontextmanager
async def serve_at(app: ASGIApp, bound: socket.socket, *, tls: ssl.SSLContext | None) -> AsyncGenerator[int, None]:
    """Serves at one more socket inside the block, which gives its port. After it, its connections are closed too."""
    http = _bounded_protocol(HEAD_S)
    try:
        server = _server(app, http, HubConfig())
        await server.startup(sockets=[])
        server.servers.append(await _listen(server, http, bound, HEAD_S, tls))
    except BaseException:
        bound.close()
        raise
    ticking = asyncio.create_task(server.main_loop())
    try:
        yield bound.getsockname()[1]
    finally:
        await cancel_and_wait(ticking)
        await asyncio.shield(_shut_down(server, bound))


@asynccontextmanager
async def serve(
    app: ASGIApp,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    config: HubConfig | None = None,
    socket_path: Path | None = None,
    head_s: float = HEAD_S,
) -> AsyncGenerator[ServerAddress, None]:
    """Serves inside the block; port 0 is a free one. `config` says about TLS and whether it may be without;
    `socket_path` is where the owner's socket shall be."""
    config = config or HubConfig()
    tls = bool(config.tls_certificate)
    bound = bind(host, port, tls=tls, insecure=config.insecure)
    local: OwnerSocket | None = None
    http = _bounded_protocol(head_s)
    try:
        local = OwnerSocket(socket_path) if socket_path is not None else None
        server = _server(app, http, config)
        await server.startup(sockets=[])
        server.servers.append(await _listen(server, http, bound, head_s, server.config.ssl))
        if local is not None:
            server.servers.append(await _listen_locally(server, http, local))
    except BaseException:
        bound.close()
        if local is not None:
            local.close()
        raise
    ticking = asyncio.create_task(server.main_loop())  # it keeps the Date header right
    try:
        where = str(local.path) if local else ""
        yield ServerAddress(host=host, port=bound.getsockname()[1], tls=tls, socket=where)
    finally:
        await cancel_and_wait(ticking)
        try:
            await asyncio.shield(_shut_down(server, bound))
        finally:
            if local is not None:
                local.close()


async def _listen(
    server: uvicorn.Server,
    http: type[HttpToolsProtocol],
    bound: socket.socket,
    head_s: float,
    tls: ssl.SSLContext | None,
) -> asyncio.Server:
    """As uvicorn does it, but a TLS handshake has no more time than a request's head."""
    config = server.config

    def stranger() -> HttpToolsProtocol:
        return http(config=config, server_state=server.server_state, app_state=server.lifespan.state)

    limit = head_s if tls else None
    return await asyncio.get_running_loop().create_server(
        stranger, sock=bound, ssl=tls, ssl_handshake_timeout=limit, backlog=config.backlog
    )


async def _listen_locally(server: uvicorn.Server, http: type[HttpToolsProtocol], local: OwnerSocket) -> asyncio.Server:
    """The same application for whoever comes by the owner's socket; each connection knows who made it."""

    class Known(http):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            self.app_state = {**self.app_state, "peer": peer_of(transport.get_extra_info("socket"))}
            super().connection_made(transport)

    def known() -> Known:
        return Known(config=server.config, server_state=server.server_state, app_state=server.lifespan.state)

    return await asyncio.get_running_loop().create_unix_server(known, sock=local.socket, backlog=server.config.backlog)


async def _shut_down(server: uvicorn.Server, bound: socket.socket) -> None:
    """When it returns nobody is served any more: what the answers work with may be closed."""
    await server.shutdown(sockets=[bound])
    if left := tuple(server.server_state.tasks):  # they had their time, and are cancelled
        await asyncio.wait(left, timeout=GRACE_S)


def _bounded_protocol(head_s: float) -> type[HttpToolsProtocol]:
    class Impatient(HttpToolsProtocol):
        """Closes connections whose request does not arrive, or whose head has no end. The parser bounds neither."""

        _waiting: asyncio.TimerHandle | None = None
        _part: Literal["none", "head", "body"] = "none"  # what of a request is being read
        _head = 0  # bytes of its headers so far
        _unended = 0  # bytes of a head that has no end yet
        _begun = 0  # requests that began in what came last

        @property
        def busy(self) -> bool:
            return self._part == "body" or (bool(self.cycle) and not self.cycle.response_complete)

        def known(self) -> None:
            """The other side said who it is."""
            self.timeout_keep_alive = KEEP_ALIVE_S
            self.app_state["strangers"].discard(self.transport)

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.timeout_keep_alive = min(KEEP_ALIVE_S, round(UNAUTHENTICATED_S))
            if not self.app_state["strangers"].add(transport, self):
                transport.abort()
                return
            self._wait(True)

        def data_received(self, data: bytes) -> None:
            before, self._begun = self._part, 0
            super().data_received(data)
            if self.transport.is_closing():  # it was no request
                return
            if self._part == "head" and before != "body" and self._begun < 2:  # else part of it is of another request
                self._unended += len(data)
                if self._unended > MAX_HEAD:
                    self.send_400_response("The head of the request is too large.")
            working = bool(self.cycle) and not self.cycle.response_complete
            ours = self.transport.get_protocol() is self  # else it is a WebSocket now
            self._wait(ours and (self._part == "head" or (self._part == "none" and not working)))

        def shutdown(self) -> None:
            super().shutdown()
            if not self.cycle:
                return
            state: dict[str, Any] = self.cycle.scope.get("state") or {}
            if self.cycle.scope["path"] in access_rules.STREAMS or state.get("waits"):  # it would never be over
                self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            self._wait(False)
            self.app_state["strangers"].discard(self.transport)
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            state = self.scope.setdefault("state", {})
            state["known"] = self.known
            state["connected"] = lambda: not self.transport.is_closing()
            self._part, self._head, self._unended = "head", 0, 0
            self._begun += 1

        def on_header(self, name: bytes, value: bytes) -> None:
            self._head += len(name) + len(value)
            if self._head > MAX_HEAD:  # whole, and still too much
                raise ValueError("too large")
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._part = "body"
            if len(self.pipeline) >= MAX_PIPELINE:
                raise ValueError("too many at once")
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._part = "none"
            super().on_message_complete()

        def _wait(self, on: bool) -> None:
            if on and self._waiting is None:
                self._waiting = self.loop.call_later(head_s, self._close)
            elif not on and self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

        def _close(self) -> None:
            self._waiting = None
            self.transport.abort()

    return Impatient
