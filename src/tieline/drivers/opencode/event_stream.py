"""OpenCode's event streams, one per directory, shared by the conversations in it.

A stream has no resume: when it broke, those who listen are told to read again what they may have missed, before the
new stream's events reach them.
"""

import asyncio
import time
from typing import Any, Protocol, cast

import msgspec

from ...background_tasks import cancel_and_wait
from ...backoff import EXACT, Backoff
from ...wire.json_lines import decode_line
from ...wire.sse import EventTooLong, SseParser
from .server import REQUEST_S, OpenCodeError, OpenCodeServer, ServerUnreachable

BACKOFF = Backoff(0.05, 2.0, EXACT)
GIVE_UP_S = 30.0
"""How long a server may be out of reach."""
SLOW_READER_S = 30.0
"""How long one turn's reader may hold up the others of its directory."""


class OpenCodeListener(Protocol):
    """A conversation, as its event stream sees it."""

    def on_message(self, message: dict[str, Any]) -> None: ...

    async def drain(self) -> None:
        """Wait until its reader is not too far behind."""
        ...

    def on_slow_reader(self) -> None:
        """Its reader held the stream up for too long."""
        ...

    def on_disconnect(self) -> None:
        """The stream broke; events may be missing from now on."""
        ...

    async def resync(self) -> None:
        """The stream is back, and waits: read what may have been missed. Raises OpenCodeError, Unreachable."""
        ...

    def on_server_gone(self, reason: str) -> None:
        """The server will not come back."""
        ...


class EventStream:
    """The events of one directory, to the conversations they belong to."""

    def __init__(self, server: OpenCodeServer, directory: str) -> None:
        self._server = server
        self._directory = directory
        self._listeners: dict[OpenCodeListener, None] = {}
        self._routes: dict[str, OpenCodeListener] = {}
        self._open = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._decoder = msgspec.json.Decoder(dict[str, Any])
        server.on_gone(self._on_server_gone)

    async def wait_open(self) -> None:
        """Wait until events come in. Raises Unreachable."""
        if self._open.is_set():
            return
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        opening = asyncio.create_task(self._open.wait())
        try:
            await asyncio.wait({opening, self._task}, timeout=REQUEST_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            opening.cancel()
        if not self._open.is_set():
            raise ServerUnreachable(self._server.gone or "its event stream does not open")

    def join(self, listener: OpenCodeListener, session: str) -> None:
        """From now on the session's events, and those of its subagents, go to the listener."""
        self._listeners[listener] = None
        self._routes[session] = listener

    def leave(self, listener: OpenCodeListener) -> None:
        self._listeners.pop(listener, None)
        self._routes = {session: each for session, each in self._routes.items() if each is not listener}

    async def close(self) -> None:
        if self._task is not None:
            await cancel_and_wait(self._task)

    def _on_server_gone(self, reason: str) -> None:
        for listener in list(self._listeners):
            listener.on_server_gone(reason)

    async def _run(self) -> None:
        import httpx2

        failures, down_since, before = 0, time.monotonic(), False
        while not self._server.gone:
            try:
                async with self._server.subscribe(self._directory) as answer:
                    if not answer.is_success:
                        raise ServerUnreachable(f"HTTP {answer.status_code} for its event stream")
                    parser = SseParser()
                    async for chunk in answer.aiter_raw():
                        events = parser.feed(chunk)
                        if events and not self._open.is_set():
                            if before:  # the stream waits meanwhile: what comes next is newer than what is read
                                await asyncio.gather(*(each.resync() for each in list(self._listeners)))
                            self._open.set()
                            before, failures = True, 0
                        for event in events:
                            self._route(event.data)
                        await self._drain()
                problem = "it ended the event stream"
            except (httpx2.TransportError, ServerUnreachable, OpenCodeError, EventTooLong) as error:
                problem = str(error) or type(error).__name__
            except Exception as error:  # an answer that is not as we know it must not leave everyone waiting
                problem = f"{type(error).__name__}: {error}"
            if self._open.is_set():
                self._open.clear()
                down_since = time.monotonic()
                for listener in list(self._listeners):
                    listener.on_disconnect()
            elif time.monotonic() - down_since > GIVE_UP_S:
                self._on_server_gone(f"{self._server.agent}: the server is out of reach: {problem}")
                return
            failures += 1
            await asyncio.sleep(BACKOFF.delay(failures))

    def _route(self, data: bytes) -> None:
        try:
            message = decode_line(self._decoder, data)
        except msgspec.DecodeError:
            message = {"type": "garbage", "raw": data[:2000].decode(errors="replace")}
        properties = cast(dict[str, Any], message.get("properties") or {})
        session = properties.get("sessionID")
        if session is None:
            for listener in list(self._listeners):
                listener.on_message(message)
            return
        listener = self._routes.get(session)
        if listener is None and message.get("type") == "session.created":
            listener = self._routes.get(properties.get("info", {}).get("parentID", ""))
            if listener is not None:
                self._routes[session] = listener
        if listener is not None:
            listener.on_message(message)

    async def _drain(self) -> None:
        for listener in list(self._listeners):
            try:
                async with asyncio.timeout(SLOW_READER_S):
                    await listener.drain()
            except TimeoutError:
                listener.on_slow_reader()
