"""The hub's event stream: reconnects after lost connections, without gaps or duplicates, in order.

A stream knows its place by the last event's number and the log it is of. When the connection is lost it comes back
with both; the hub goes on from there, or says that it cannot (`gap`, `reset`).
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ..backoff import Backoff
from ..protocol.stream_frames import SILENCE_S, AnyHubFrame, EventFrame, Ready, Subscribe
from .api_requests import ApiRequests
from .errors import HubUnreachable
from .event_reorder import EventReorderer
from .http import ConnectionLost

BACKOFF = Backoff(0.1, 5.0)


class Connection(Struct, frozen=True):
    """How the stream stands: `problem` says why it was lost."""

    state: Literal["connecting", "connected", "lost"]
    problem: str = ""


class StreamTransport(Protocol):
    """One way in: a WebSocket, or server-sent events."""

    def open(self, subscribe: Subscribe) -> AbstractAsyncContextManager[AsyncIterator[AnyHubFrame]]:
        """The hub's frames from `ready` on. Raises ConnectionLost, also while they are read; Unauthorized and other
        TielineErrors when coming back would not help."""
        ...


class StreamApi(ApiRequests):
    def stream(
        self,
        *,
        after: int = 0,
        epoch: str = "",
        sessions: Sequence[str] | None = None,
        events: bool = True,
        deltas: bool = True,
        visible: bool = False,
        by: Literal["websocket", "sse"] = "websocket",
        patience_s: float | None = None,
        on_connection: Callable[[Connection], None] = lambda connection: None,
    ) -> AsyncGenerator[AnyHubFrame, None]:
        """What happens, from a cursor on (`after`, of the log `epoch`) or from now. Lost connections are made anew,
        without gaps or doubles; `on_connection` is told. Each one begins with a `ready` frame.

        `visible`: a person looks at it, so no push is needed.
        """
        if by == "sse":
            from .stream_transports import SseTransport

            transport: StreamTransport = SseTransport(self.url, self.http)
        else:
            from .stream_transports import WebSocketTransport

            transport = WebSocketTransport(self.url, self._token, self._socket)
        subscribe = Subscribe(
            after=after,
            epoch=epoch,
            sessions=None if sessions is None else tuple(sessions),
            events=events,
            deltas=deltas,
            visible=visible,
        )
        return follow(transport, subscribe, url=self.url, patience_s=patience_s, on_connection=on_connection)


async def follow(
    transport: StreamTransport,
    subscribe: Subscribe,
    *,
    url: str,
    patience_s: float | None = None,
    on_connection: Callable[[Connection], None] = lambda connection: None,
) -> AsyncGenerator[AnyHubFrame, None]:
    """Frames for as long as the caller iterates. Each connection begins with a `ready`, whose snapshot is the present.
    No delta comes before what its agent said before it, or after its whole item.

    `patience_s`: how long a hub may stay away before HubUnreachable is raised; None is for ever. With a limit, a hub
    that was never reached raises it at once.
    """
    failures, away_since = 0, None
    in_order = EventReorderer()
    while True:
        on_connection(Connection("connecting"))
        try:
            async with transport.open(subscribe) as frames:
                while frame := await _next(frames):
                    if isinstance(frame, Ready):
                        failures, away_since = 0, None
                        after = frame.cursor if frame.state == "reset" else subscribe.after
                        subscribe = replace(subscribe, epoch=frame.epoch, after=after)
                        on_connection(Connection("connected"))
                    elif isinstance(frame, EventFrame):
                        if frame.seq <= subscribe.after:
                            continue  # told before the connection was lost
                        subscribe = replace(subscribe, after=frame.seq)
                    for ordered in in_order.reorder(frame) if subscribe.events else (frame,):
                        yield ordered
            problem = "the hub closed the connection"
        except ConnectionLost as lost:
            problem = str(lost)
        on_connection(Connection("lost", problem))
        now = time.monotonic()
        failures += 1
        if patience_s is not None:
            if not subscribe.epoch and away_since is None:  # it was never there
                raise HubUnreachable(url, problem)
            if away_since is not None and now + BACKOFF.limit(failures) - away_since > patience_s:
                raise HubUnreachable(url, problem)
        away_since = away_since or now
        await asyncio.sleep(BACKOFF.delay(failures))


async def _next(frames: AsyncIterator[AnyHubFrame]) -> AnyHubFrame | None:
    """The next frame; None at the end. A connection that says nothing, not even a beat, is gone."""
    try:
        async with asyncio.timeout(SILENCE_S):
            return await anext(frames)
    except StopAsyncIteration:
        return None
    except TimeoutError:
        raise ConnectionLost(f"the hub sent nothing for {SILENCE_S:g} s", sent=True) from None
