"""JSON-RPC over a child's standard streams, one message a line; both sides may ask.

`async with Peer(process, handler) as peer` reads until the block is left. Notifications reach the handler in
order; each request of the other side runs in a task of its own, owned by the peer, and always gets a response.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol

import msgspec

from .lines import LineTooLong
from .process import Process

MAX_INCOMING = 256
"""Requests of the other side that may be open at once. Nobody needs more; a runaway one is told so."""


class RpcError(Exception):
    """The other side answered with an error."""

    def __init__(self, method: str, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{method}: {message} ({code})")
        self.method = method
        self.code = code
        self.message = message
        self.data = data


class PeerGone(ConnectionError):
    """The other side closed the stream, or broke it."""


class Handler(Protocol):
    def notified(self, method: str, params: dict[str, Any]) -> None: ...

    async def requested(self, method: str, params: dict[str, Any]) -> Any:
        """The result. Raise RpcError to answer with an error."""
        ...

    def garbage(self, line: bytes) -> None:
        """A line that is no JSON object."""
        ...

    def gone(self, reason: str) -> None:
        """The stream is over; called once."""
        ...


class Peer:
    def __init__(self, process: Process, handler: Handler, *, version: str | None = "2.0") -> None:
        self._process = process
        self._handler = handler
        self._head: dict[str, Any] = {"jsonrpc": version} if version else {}
        self._waiting: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._next = 0
        self._incoming: set[asyncio.Task[None]] = set()
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(dict[str, Any])
        self._gone: str | None = None

    async def __aenter__(self) -> "Peer":
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = [self._reader, *self._incoming]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._close("closed")

    async def request(self, method: str, params: Mapping[str, Any], *, timeout: float) -> Any:
        """The result. Raises RpcError, PeerGone, TimeoutError."""
        if self._gone is not None:
            raise PeerGone(self._gone)
        self._next += 1
        number = self._next
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (method, future)
        try:
            await self._send({**self._head, "id": number, "method": method, "params": params})
            async with asyncio.timeout(timeout):
                return await future
        finally:
            self._waiting.pop(number, None)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        message = {**self._head, "method": method}
        await self._send(message if params is None else {**message, "params": params})

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            await self._process.write(self._encoder.encode(message) + b"\n")
        except (ConnectionError, TimeoutError) as error:
            raise PeerGone(str(error) or "it does not read") from error

    async def _read(self) -> None:
        reason = "it closed its output"
        try:
            async for batch in self._process.lines():
                for line in batch:
                    self._take(line)
        except LineTooLong as error:
            reason = str(error)
        finally:
            self._close(reason)

    def _take(self, line: bytes) -> None:
        try:
            message = self._decoder.decode(line)
        except msgspec.DecodeError:
            if line.strip():
                self._handler.garbage(line)
            return
        method = message.get("method")
        if method is None:
            self._answered(message)
        elif "id" in message:
            self._asked(message["id"], method, message.get("params") or {})
        else:
            self._handler.notified(method, message.get("params") or {})

    def _answered(self, message: dict[str, Any]) -> None:
        method, future = self._waiting.get(message.get("id", 0), ("", None))
        if future is None or future.done():
            return
        error = message.get("error")
        if error is None:
            future.set_result(message.get("result"))
        else:
            text = str(error.get("message", error))
            future.set_exception(RpcError(method, error.get("code", 0), text, error.get("data")))

    def _asked(self, number: int | str, method: str, params: dict[str, Any]) -> None:
        task = asyncio.create_task(self._respond(number, method, params))
        self._incoming.add(task)
        task.add_done_callback(self._incoming.discard)

    async def _respond(self, number: int | str, method: str, params: dict[str, Any]) -> None:
        body: dict[str, Any]
        try:
            if len(self._incoming) > MAX_INCOMING:
                raise RpcError(method, -32000, f"more than {MAX_INCOMING} requests at once")
            body = {"result": await self._handler.requested(method, params)}
        except RpcError as error:
            body = {"error": {"code": error.code, "message": error.message}}
        except Exception as error:  # an unanswered request would stall the other side for ever
            body = {"error": {"code": -32603, "message": f"{type(error).__name__}: {error}"}}
        with suppress(PeerGone):  # the reader tells the handler
            await self._send({**self._head, "id": number, **body})

    def _close(self, reason: str) -> None:
        if self._gone is not None:
            return
        self._gone = reason
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(PeerGone(reason))
        self._handler.gone(reason)
