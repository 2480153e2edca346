"""HTTP/1.1 to one hub, over asyncio's streams and nothing else.

A general HTTP library takes longer to import than a whole turn with a warm agent; what is needed here is small: JSON
bodies, a few kept connections, and one response that is read as it comes. No redirects, no cookies and no proxies: each
of them could hand the token to somebody else.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from urllib.parse import quote, urlsplit

from msgspec import Struct

from ..errors import UsageError

MAX_HEAD = 64 * 1024
"""Bytes of a response's status line and headers."""
MAX_BODY = 64 * 1024 * 1024
"""Bytes of a response that is read as a whole: a large diff, with room to spare."""
MAX_IDLE = 4
"""Connections kept for the next request."""
CHUNK = 64 * 1024
CONNECT_S = 10.0
REQUEST_S = 60.0
"""The hub itself answers within a bound; this is for one that hangs."""


class ConnectionLost(Exception):
    """The other side cannot be reached, went away, or does not speak HTTP. `sent`: it may have heard the request."""

    def __init__(self, problem: str, *, sent: bool) -> None:
        super().__init__(problem)
        self.sent = sent


class HttpResponse(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""


class HttpClient:
    """`async with HttpClient(url, headers) as http`."""

    def __init__(self, url: str, headers: Mapping[str, str], *, socket: str = "") -> None:
        """`socket`: the path of a unix socket to connect to; then the URL is only what the other side is called."""
        self._socket = socket
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url!r} is not a hub's address", field="url", hint="For example http://127.0.0.1:8137")
        self._tls = parts.scheme == "https"
        self._host = parts.hostname
        try:
            self._port = parts.port or (443 if self._tls else 80)
        except ValueError:
            raise UsageError(f"{url!r} has no usable port", field="url") from None
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Host": parts.netloc.rpartition("@")[2], **headers}
        self._idle: list[_HttpConnection] = []
        self._closed = False

    async def __aenter__(self) -> "HttpClient":
        return self

    async def __aexit__(self, *exit: object) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        await asyncio.gather(*(connection.close() for connection in idle))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = {},
        headers: Mapping[str, str] = {},
        body: bytes = b"",
        timeout: float = REQUEST_S,
    ) -> HttpResponse:
        """One request, its whole answer. Raises ConnectionLost."""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    kept = self._idle.pop() if self._idle else None
                    connection = kept or await self._connect()
                    try:
                        reply = await self._exchange(connection, method, path, query, headers, body)
                    except ConnectionLost:
                        if kept is None:
                            raise
                        continue  # the hub had closed it meanwhile, or was started anew: again, on a fresh one
                    return reply
        except TimeoutError:
            raise ConnectionLost(f"no response within {timeout:g} s", sent=True) from None

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = {}, headers: Mapping[str, str] = {}
    ) -> AsyncGenerator[tuple[HttpResponse, AsyncIterator[bytes]], None]:
        """A response whose body is read as it comes. Raises ConnectionLost, also while it is read."""
        connection = await self._connect()
        try:
            async with asyncio.timeout(REQUEST_S):
                await connection.send(self._head("GET", path, query, headers, b""))
                status, received = await connection.head()
            async with aclosing(connection.body(status, received)) as chunks:
                yield HttpResponse(status, received), chunks
        except TimeoutError:
            raise ConnectionLost("no response in time", sent=True) from None
        finally:
            await connection.close()

    async def _exchange(
        self,
        connection: "_HttpConnection",
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
    ) -> HttpResponse:
        whole = False
        try:
            await connection.send(self._head(method, path, query, headers, body) + body)
            status, received = await connection.head()
            content = bytearray()
            async for chunk in connection.body(status, received):
                content += chunk
                if len(content) > MAX_BODY:
                    raise ConnectionLost(f"the response has more than {MAX_BODY:,} bytes", sent=True)
            whole = received.get("connection", "").lower() != "close"
            return HttpResponse(status, received, bytes(content))
        finally:
            if whole and not self._closed and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
            else:
                await connection.close()

    async def _connect(self) -> "_HttpConnection":
        try:
            async with asyncio.timeout(CONNECT_S):
                if self._socket:
                    reader, writer = await asyncio.open_unix_connection(self._socket, limit=MAX_HEAD)
                else:
                    reader, writer = await asyncio.open_connection(
                        self._host, self._port, ssl=self._tls, limit=MAX_HEAD
                    )
        except TimeoutError:
            raise ConnectionLost(f"no connection within {CONNECT_S:g} s", sent=False) from None
        except OSError as error:
            raise ConnectionLost(error.strerror or str(error), sent=False) from None
        return _HttpConnection(reader, writer)

    def _head(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> bytes:
        target = self._prefix + quote(path)
        if query:
            target += "?" + "&".join(f"{quote(name)}={quote(value, safe='')}" for name, value in query.items())
        fields = {**self._headers, **headers}
        if body or method in ("POST", "PATCH", "PUT"):
            fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {_safe(value)}" for name, value in fields.items()), "", ""]
        return "\r\n".join(lines).encode("latin-1", "replace")


def _safe(value: str) -> str:
    """A header's value cannot end its line and begin another header."""
    if "\r" in value or "\n" in value or "\0" in value:
        raise UsageError("a header's value has a line break in it", field="headers")
    return value


class _HttpConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise ConnectionLost(error.strerror or str(error), sent=True) from None

    async def head(self) -> tuple[int, dict[str, str]]:
        while True:
            raw = await self._until(b"\r\n\r\n")
            first, *rest = raw[:-4].decode("latin-1").split("\r\n")
            version, _, status_text = first.partition(" ")
            if not version.startswith("HTTP/1.") or not status_text[:3].isdigit():
                raise ConnectionLost("the response is not HTTP", sent=True)
            status = int(status_text[:3])
            if status >= 200:  # an informational response (`100 Continue`) precedes the final one
                break
        headers: dict[str, str] = {}
        for line in rest:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        return status, headers

    async def body(self, status: int, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        if status in (204, 304):
            return
        if "chunked" in headers.get("transfer-encoding", "").lower():
            while size := self._number((await self._until(b"\r\n")).partition(b";")[0], 16):
                async for piece in self._exactly(size):
                    yield piece
                await self._until(b"\r\n")
            while await self._until(b"\r\n") != b"\r\n":  # trailers
                pass
        elif length := headers.get("content-length"):
            async for piece in self._exactly(self._number(length.encode(), 10)):
                yield piece
        else:
            while piece := await self._read(CHUNK):
                yield piece

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError, asyncio.TimeoutError):
            async with asyncio.timeout(1.0):  # TLS would wait for the other side's goodbye
                await self._writer.wait_closed()

    async def _exactly(self, size: int) -> AsyncIterator[bytes]:
        while size:
            piece = await self._read(min(size, CHUNK))
            if not piece:
                raise ConnectionLost("the hub closed the connection in the middle of its response", sent=True)
            size -= len(piece)
            yield piece

    async def _read(self, size: int) -> bytes:
        try:
            return await self._reader.read(size)
        except OSError as error:
            raise ConnectionLost(error.strerror or str(error), sent=True) from None

    async def _until(self, end: bytes) -> bytes:
        try:
            return await self._reader.readuntil(end)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            what = "the hub closed the connection" if isinstance(error, asyncio.IncompleteReadError) else str(error)
            raise ConnectionLost(what, sent=True) from None

    def _number(self, digits: bytes, base: int) -> int:
        try:
            return int(digits.strip(), base)
        except ValueError:
            raise ConnectionLost("the response is not HTTP", sent=True) from None
