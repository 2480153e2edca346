"""A small HTTP/1.1 server on loopback for tests: it streams, stalls and breaks off on purpose, which ordinary servers
are built not to do."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import msgspec

from ..background_tasks import cancel_and_wait

MAX_BODY = 64 * 1024 * 1024
IDLE_S = 120.0
"""A connection that sends no request for this long is closed."""
TLS_HELLO = b"\x16"


class HttpRequest:
    """One request and its response."""

    def __init__(self, method: str, target: str, headers: dict[str, str], body: bytes, out: asyncio.StreamWriter):
        self.method = method
        self.target = target
        self.path, _, self.query = target.partition("?")
        self.headers = headers
        self.body = body
        self._out = out
        self.started = False

    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    async def respond(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        """A whole response."""
        self.started = True
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        head += f"content-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
        self._out.write(head.encode() + body)
        await self._out.drain()

    async def stream(self, content_type: str = "text/event-stream") -> None:
        """Begin a streamed response; `send` goes on with it, `end` ends it."""
        self.started = True
        head = "HTTP/1.1 200 OK\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n"
        self._out.write(f"{head}content-type: {content_type}\r\n\r\n".encode())

    async def send(self, data: bytes) -> None:
        self._out.write(b"%x\r\n%s\r\n" % (len(data), data))
        await self._out.drain()

    async def end(self) -> None:
        self._out.write(b"0\r\n\r\n")
        await self._out.drain()

    def abort(self) -> None:
        """Break the connection off."""
        transport: asyncio.Transport = self._out.transport  # type: ignore[assignment]
        transport.abort()


class LoopbackServer:
    """`async with LoopbackServer(handler) as server`: on a free port of 127.0.0.1, at `server.url`."""

    def __init__(self, handler: Callable[[HttpRequest], Awaitable[None]]) -> None:
        self._handler = handler
        self._connections: set[asyncio.Task[None]] = set()
        self.url = ""
        self.tls_hellos = 0
        """Connections that began with a TLS handshake, which is broken off: this server speaks plain HTTP."""

    async def __aenter__(self) -> "LoopbackServer":
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=1024 * 1024)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await cancel_and_wait(*self._connections)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError, asyncio.LimitOverrunError):
                while request := await self._next(reader, writer):
                    await self._handler(request)
        except asyncio.CancelledError:
            pass  # the server is closing; asyncio.start_server logs a cancelled handler as an error
        finally:
            self._connections.discard(task)
            writer.close()

    async def _next(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest | None:
        async with asyncio.timeout(IDLE_S):
            first_byte = await reader.readexactly(1)
            if first_byte == TLS_HELLO:
                self.tls_hellos += 1
                raise ConnectionError("it speaks TLS")  # it would wait for our part of the handshake
            head = (first_byte + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await self._body(reader, headers)
        return HttpRequest(method, target, headers, body, writer)

    async def _body(self, reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        async with asyncio.timeout(IDLE_S):
            if headers.get("transfer-encoding", "").lower() != "chunked":
                return await reader.readexactly(min(int(headers.get("content-length", "0")), MAX_BODY))
            parts: list[bytes] = []
            while size := int((await reader.readline()).split(b";")[0], 16):
                parts.append(await reader.readexactly(size))
                await reader.readline()
            await reader.readline()
            return b"".join(parts)
