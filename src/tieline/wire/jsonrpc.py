"""JSON-RPC over a stream of lines, one message a line; both sides may send requests.

`async with Peer(stream, handler) as peer` reads until the block is left. Notifications reach the handler in
order; each request of the other side runs in a task of its own, owned by the peer, and always gets a response.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, cast

import msgspec

from ..background_tasks import cancel_and_wait
from .json_lines import decode_line
from .lines import LineTooLong

MAX_EARLY = 8
"""Answers to requests that were said ahead and are not made here yet."""
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


class NoResponse(Exception):
    """Raised by a handler: the other side has its answer from somebody else, and waits for none of ours."""


class PeerGone(ConnectionError):
    """The other side closed the stream, or broke it."""


class LineStream(Protocol):
    """What carries the messages: a child's standard streams, a WebSocket."""

    async def write(self, data: bytes) -> None:
        """Raises ConnectionError when the other side is gone, TimeoutError when it does not read."""
        ...

    def lines(self) -> AsyncIterator[list[bytes]]:
        """In the batches they arrive in. Raises LineTooLong."""
        ...


class Handler(Protocol):
    def notified(self, method: str, params: dict[str, Any]) -> None: ...

    async def requested(self, method: str, params: dict[str, Any]) -> Any:
        """The result. Raise RpcError to answer with an error, NoResponse to answer nothing."""
        ...

    def garbage(self, line: bytes) -> None:
        """A line that is no message: no JSON object, or one that `notified` could not take."""
        ...

    def gone(self, reason: str) -> None:
        """The stream is over; called once."""
        ...


class Peer:
    def __init__(
        self,
        stream: LineStream,
        handler: Handler,
        *,
        version: str | None = "2.0",
        room: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`room` is awaited between reads: it holds the other side while whoever takes its messages is behind."""
        self._room = room
        self._stream = stream
        self._handler = handler
        self._head: dict[str, Any] = {"jsonrpc": version} if version else {}
        self._waiting: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._next = 0
        self._early: dict[int, tuple[dict[str, Any], bytes]] = {}
        self._incoming: dict[asyncio.Task[Any], Any] = {}  # who works on a request, and its id
        self._refusals: list[dict[str, Any]] = []
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(dict[str, Any])
        self._gone: str | None = None

    async def __aenter__(self) -> "Peer":
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close("closed")
        tasks = [self._reader, *self._incoming]
        await cancel_and_wait(*tasks)

    @property
    def gone(self) -> bool:
        """Whether the stream is over."""
        return self._gone is not None

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
            if early := self._early.pop(number, None):
                self._answered(*early)
            async with asyncio.timeout(timeout):
                return await future
        finally:
            self._waiting.pop(number, None)
            if future.done() and not future.cancelled():
                future.exception()  # taken note of, also when sending failed first

    def current_request(self) -> Any:
        """Inside of the handler's `requested`: the id of that request, as the other side counts them."""
        task = asyncio.current_task()
        return self._incoming.get(task) if task is not None else None

    async def wait_responded(self, timeout: float) -> None:
        """Wait until the requests of the other side that are open now have their responses, or the time is up."""
        if open_now := set(self._incoming):
            await asyncio.wait(open_now, timeout=timeout)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        message = {**self._head, "method": method}
        await self._send(message if params is None else {**message, "params": params})

    async def _send(self, message: dict[str, Any]) -> None:
        await self._write(self._encoder.encode(message))

    async def _write(self, line: bytes) -> None:
        try:
            await self._stream.write(line + b"\n")
        except (ConnectionError, TimeoutError) as error:
            raise PeerGone(str(error) or "the peer does not read") from error

    async def _read(self) -> None:
        reason = "it closed its output"
        try:
            async for batch in self._stream.lines():
                for line in batch:
                    self._take(line)
                if self._room is not None:
                    await self._room()
                while self._refusals:  # sent from here, not from tasks: whoever floods us has to read them
                    await self._send(self._refusals.pop(0))
        except (LineTooLong, PeerGone) as error:
            reason = str(error)
        finally:
            self._close(reason)

    def _take(self, line: bytes) -> None:
        try:
            message = decode_line(self._decoder, line)
        except (msgspec.DecodeError, RecursionError):
            if line.strip():
                self._handler.garbage(line)
            return
        method = message.get("method")
        params = message.get("params")
        if method is None:
            self._answered(message, line)
        elif not isinstance(method, str) or not (params is None or isinstance(params, dict)):
            self._handler.garbage(line)
            if "id" in message:
                self._refuse(message["id"], -32602, "the method must be a string, its params an object")
        elif "id" in message:
            self._asked(message["id"], method, cast("dict[str, Any]", params or {}))
        else:
            try:
                self._handler.notified(method, cast("dict[str, Any]", params or {}))
            except Exception:  # of a shape that the handler does not know: kept, and no reason to stop listening
                self._handler.garbage(line)

    def _answered(self, message: dict[str, Any], line: bytes) -> None:
        number = message.get("id")
        if not isinstance(number, int):
            self._handler.garbage(line)
            return
        if number > self._next and len(self._early) < MAX_EARLY:
            self._early[number] = (message, line)
        method, future = self._waiting.get(number, ("", None))
        if future is None or future.done():
            return
        error = message.get("error")
        if error is None:
            future.set_result(message.get("result"))
        elif isinstance(error, dict):
            fields = cast("dict[str, Any]", error)
            code = fields.get("code")
            text = str(fields.get("message", fields))
            future.set_exception(RpcError(method, code if isinstance(code, int) else 0, text, fields.get("data")))
        else:
            future.set_exception(RpcError(method, 0, str(error)))

    def _asked(self, number: Any, method: str, params: dict[str, Any]) -> None:
        if len(self._incoming) >= MAX_INCOMING:
            self._refuse(number, -32000, f"{method}: more than {MAX_INCOMING} requests at once")
            return
        task = asyncio.create_task(self._respond(number, method, params))
        self._incoming[task] = number
        task.add_done_callback(lambda task: self._incoming.pop(task, None))

    async def _respond(self, number: Any, method: str, params: dict[str, Any]) -> None:
        try:
            result = await self._handler.requested(method, params)
            line = self._encoder.encode({**self._head, "id": number, "result": result})
        except NoResponse:
            return
        except RpcError as error:
            line = self._encoder.encode(self._refusal(number, error.code, error.message))
        except Exception as error:  # an unanswered request would stall the other side for ever
            line = self._encoder.encode(self._refusal(number, -32603, f"{type(error).__name__}: {error}"))
        with suppress(PeerGone):  # the reader tells the handler
            await self._write(line)

    def _refuse(self, number: Any, code: int, message: str) -> None:
        self._refusals.append(self._refusal(number, code, message))

    def _refusal(self, number: Any, code: int, message: str) -> dict[str, Any]:
        return {**self._head, "id": number, "error": {"code": code, "message": message}}

    def _close(self, reason: str) -> None:
        if self._gone is not None:
            return
        self._gone = reason
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(PeerGone(reason))
        self._handler.gone(reason)
