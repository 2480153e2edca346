"""The transports of the hub's stream: WebSocket and server-sent events. Both give the same frames.

On a WebSocket both sides notice a dead connection soon. Server-sent events need only HTTP, so that a short command
imports no WebSocket library.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from ..background_tasks import cancel_and_wait
from ..errors import TielineError
from ..protocol import PROTOCOL
from ..protocol.stream_frames import (
    CLOSE_BAD_FRAME,
    CLOSE_TOO_OLD,
    CLOSE_UNAUTHENTICATED,
    HEARTBEAT_S,
    AnyHubFrame,
    Authenticate,
    Beat,
    ProblemFrame,
    Subscribe,
    Welcome,
    encode,
)
from ..version import __version__
from ..wire.sse import EventTooLong, SseParser
from .errors import HubFailed, Unauthorized, error_by_name, error_from_response
from .http import ConnectionLost, HttpClient

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

PATH = "/api/v1/stream"
MAX_FRAME = 64 * 1024 * 1024
"""Bytes of a frame from the hub: a snapshot of thousands of sessions, or one large diff."""

SMALL = 2048
"""Bytes that the hub surely takes from somebody it has not welcomed."""

_decode = msgspec.json.Decoder(AnyHubFrame).decode


class WebSocketTransport:
    def __init__(self, url: str, token: str, path: str = "") -> None:
        self._url = url
        self._token = token
        self._path = path  # of a unix socket
        self._problem_frame: ProblemFrame | None = None  # what the hub said before it closed

    @asynccontextmanager
    async def open(self, subscribe: Subscribe) -> AsyncGenerator[AsyncIterator[AnyHubFrame], None]:
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

        self._problem_frame = None
        where = "ws" + self._url.removeprefix("http") + PATH
        if self._path:  # nobody listens in on it: no TLS
            where = "ws" + where.removeprefix("wss").removeprefix("ws")
        by_socket: dict[str, Any] = {"unix": True, "path": self._path} if self._path else {}
        try:
            async with connect(
                where,
                max_size=MAX_FRAME,
                compression=None,  # on loopback it only costs time
                ping_interval=None,  # the frames have beats of their own
                open_timeout=10.0,
                close_timeout=2.0,
                proxy=None,  # nobody in between gets the token
                user_agent_header=f"tieline/{__version__}",
                **by_socket,
            ) as socket:
                hello = Authenticate(token=self._token, protocol=PROTOCOL, client=f"tieline/{__version__}")
                await socket.send(encode(hello), text=True)
                wanted = encode(subscribe)
                if len(wanted) > SMALL and isinstance(refused := _frame(await socket.recv()), ProblemFrame):
                    self._problem_frame = refused
                await socket.send(wanted, text=True)
                beating = asyncio.create_task(self._beat(socket))
                try:
                    async with aclosing(self._frames(socket)) as frames:
                        yield frames
                finally:
                    await cancel_and_wait(beating)
        except InvalidStatus as error:
            raise error_from_response(
                self._url, error.response.status_code, bytes(error.response.body or b"")
            ) from None
        except ConnectionClosed as error:
            raise self._closed(error.rcvd.code if error.rcvd else 0, error.rcvd.reason if error.rcvd else "") from None
        except (OSError, WebSocketException) as error:
            raise ConnectionLost(str(error), sent=True) from None

    async def _frames(self, socket: "ClientConnection") -> AsyncGenerator[AnyHubFrame, None]:
        async for data in socket:
            frame = _frame(data)
            if isinstance(frame, ProblemFrame):
                self._problem_frame = frame
            elif not isinstance(frame, Welcome):
                yield frame

    async def _beat(self, socket: "ClientConnection") -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await socket.send(encode(Beat(at=time.time())), text=True)

    def _closed(self, code: int, reason: str) -> Exception:
        problem = self._problem_frame
        if code == CLOSE_UNAUTHENTICATED:
            return Unauthorized(self._url, problem.message if problem else reason)
        if code in (CLOSE_BAD_FRAME, CLOSE_TOO_OLD):
            return _final(
                problem or ProblemFrame(code="", message=reason or f"the hub closed the stream ({code})"), code
            )
        return ConnectionLost(problem.message if problem else reason or "the hub closed the connection", sent=True)


class SseTransport:
    def __init__(self, url: str, http: HttpClient) -> None:
        self._url = url
        self._http = http

    @asynccontextmanager
    async def open(self, subscribe: Subscribe) -> AsyncGenerator[AsyncIterator[AnyHubFrame], None]:
        query = {"after": str(subscribe.after), "epoch": subscribe.epoch}
        for name in ("events", "deltas", "visible"):
            query[name] = "true" if getattr(subscribe, name) else "false"
        if subscribe.sessions is not None:
            query["sessions"] = ",".join(subscribe.sessions)
        headers = {"Accept": "text/event-stream"}
        async with self._http.stream(f"{PATH}/sse", query=query, headers=headers) as (reply, chunks):
            if reply.status != 200:
                body = b"".join([chunk async for chunk in chunks])
                raise error_from_response(self._url, reply.status, body)
            async with aclosing(self._frames(chunks)) as frames:
                yield frames

    async def _frames(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[AnyHubFrame, None]:
        parser = SseParser(MAX_FRAME)
        async for chunk in chunks:
            try:
                events = parser.feed(chunk)
            except EventTooLong as error:
                raise ConnectionLost(str(error), sent=True) from None
            for event in events:
                frame = _frame(event.data)
                if isinstance(frame, ProblemFrame):
                    raise _final(frame, 0)
                if not isinstance(frame, Welcome):
                    yield frame


def _frame(data: str | bytes) -> AnyHubFrame:
    try:
        return _decode(data)
    except msgspec.MsgspecError as error:
        raise HubFailed(
            f"the hub sent a frame that cannot be decoded: {error}",
            status=0,
            code="ProtocolError",
            hint="It may be of another version: see `tieline --version` and `tieline status`.",
        ) from None


def _final(problem: ProblemFrame, code: int) -> TielineError:
    return error_by_name(problem.code, problem.message, problem.field, problem.hint) or HubFailed(
        problem.message, status=code, code=problem.code, hint=problem.hint
    )
