"""The client's WebSocket: `docs/stream.md` and `protocol/stream_frames.py` say what is spoken on it.

The first frame authenticates (unless the upgrade did), then the client subscribes, as often as it likes. What it gets
is written by its subscriber; this side only listens. Every end has a code and, where there is something to say, a
problem frame before it.
"""

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.types import Receive, Send

from ...bus.subjects import check_subject
from ...errors import BadSubject, BusError
from ...protocol import OLDEST, PROTOCOL
from ...protocol.stream_frames import (
    AUTHENTICATE_S,
    CLOSE_BAD_FRAME,
    CLOSE_TOO_OLD,
    CLOSE_UNAUTHENTICATED,
    MAX_FRAME,
    SILENCE_S,
    AnyClientFrame,
    Authenticate,
    Beat,
    ProblemFrame,
    Ready,
    Subscribe,
    Visible,
    Welcome,
)
from ...protocol.views import DeviceView, Snapshot
from ...sessions.event_log import subject
from ...version import __version__
from ..http.request_context import context_of
from ..security import access_rules
from .encoded_frames import encode_frame
from .snapshot_parts import RemainingSessions, first_sessions
from .subscriber import CLOSE_TRY_AGAIN, Subscriber

if TYPE_CHECKING:
    from ..hub import Hub

MAX_CLIENTS = 5000
MAX_UNAUTHENTICATED = 256
"""Sockets that have not authenticated yet, at most."""
CLOSE_S = 5.0
"""How long the last words may take."""
MAX_CURSOR = 2**63 - 1


_decode = msgspec.json.Decoder(AnyClientFrame).decode
_FIELD = re.compile(r"(?:required field `|at `\$\.)([A-Za-z_]+)")


class StreamClosing(Exception):
    """The connection ends, and why."""

    def __init__(self, code: int, problem: ProblemFrame | None = None) -> None:
        super().__init__(problem.message if problem else "")
        self.code = code
        self.problem = problem


class ClientStreams:
    """All open connections of clients, by device: a revoked one loses them at once."""

    def __init__(self, hub: "Hub") -> None:
        self.hub = hub
        self.unauthenticated = 0
        self._open: dict[str, set[Callable[[int, str], None]]] = {}
        hub.devices.on_revoke(self._revoked)

    async def websocket(self, scope: Any, receive: Receive, send: Send) -> None:
        if (await receive())["type"] != "websocket.connect":
            return
        await send({"type": "websocket.accept"})
        await _ClientSocket(self, scope, receive, send).run()

    @property
    def full(self) -> bool:
        return len(self.hub.fanout.subscribers) >= MAX_CLIENTS

    def register(self, device: str, drop: Callable[[int, str], None]) -> Callable[[], None]:
        """Counts a connection as a device's. Gives the way out."""
        of_device = self._open.setdefault(device, set())
        of_device.add(drop)
        unused = self.hub.devices.connected(device)
        if not self.hub.devices.knows(device):  # revoked since its request was let in
            self._revoked(device)

        def closed() -> None:
            if drop in of_device:
                unused()
            of_device.discard(drop)
            if not of_device and self._open.get(device) is of_device:
                del self._open[device]

        return closed

    def _revoked(self, device: str) -> None:
        for drop in tuple(self._open.get(device, ())):
            drop(CLOSE_UNAUTHENTICATED, "this device was revoked")


class _ClientSocket:
    def __init__(self, streams: ClientStreams, scope: Any, receive: Receive, send: Send) -> None:
        self._streams = streams
        self._context = context_of(scope)
        self._mark_authenticated: Callable[[], None] = scope["state"].get("known", lambda: None)
        self._hub = streams.hub
        self._receive = receive
        self._send = send
        self._greeted = False
        self._unregister: Callable[[], None] = lambda: None
        self._subscriber: Subscriber | None = None
        self._closing: StreamClosing | None = None
        self._limit = asyncio.timeout(None)

    async def run(self) -> None:
        try:
            await self._listen()
        except StreamClosing as closing:
            if closing.code == CLOSE_UNAUTHENTICATED and closing is not self._closing:  # else: revoked, or silent
                self._hub.refused(self._context, str(closing))
            await self._close(closing)
        finally:
            self._unregister()
            if self._subscriber is not None:
                await self._hub.fanout.remove(self._subscriber)

    def drop(self, code: int, why: str) -> None:
        """From outside: it ends now."""
        if self._closing is None:
            self._closing = StreamClosing(
                code, ProblemFrame(code=_CODES.get(code, "Closed"), message=why) if code else None
            )
            with suppress(RuntimeError):  # it is ending already
                self._limit.reschedule(0)

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with self._limit:
                await self._authenticate()
                while True:
                    self._limit.reschedule(0 if self._closing else loop.time() + SILENCE_S)
                    frame = await self._receive_frame()
                    match frame:
                        case Subscribe():
                            await self._subscribe(frame)
                        case Visible(visible=visible):
                            if self._subscriber is not None:
                                self._subscriber.visible = visible
                                self._hub.fanout.visibility_changed()
                        case Authenticate():
                            if self._greeted:
                                raise _bad_frame("already authenticated", "type")
                            await self._send_welcome(frame)
                        case Beat():
                            pass
        except TimeoutError:
            if self._closing is None:
                raise StreamClosing(
                    1001, ProblemFrame(code="Silence", message=f"no frame for {SILENCE_S:g} s")
                ) from None
            raise self._closing from None

    async def _authenticate(self) -> None:
        """Who it is, by the upgrade or by the first frame, within a time that is short for strangers."""
        if self._context.device is None:
            if self._streams.unauthenticated >= MAX_UNAUTHENTICATED:
                raise StreamClosing(CLOSE_TRY_AGAIN)
            self._streams.unauthenticated += 1
            try:
                self._limit.reschedule(asyncio.get_running_loop().time() + AUTHENTICATE_S)
                frame = await self._receive_frame()
            except asyncio.CancelledError:
                self._closing = self._closing or _unauthenticated("no authenticate frame in time")
                raise
            finally:
                self._streams.unauthenticated -= 1
            if not isinstance(frame, Authenticate):
                raise _unauthenticated("the first frame must be authenticate")
            self._context.device = self._hub.auth.device_of(frame.token)
            if self._context.device is None:
                raise _unauthenticated("unknown or revoked token", "token")
            self._admit(self._context.device)
            self._mark_authenticated()
            await self._send_welcome(frame)
        else:
            self._admit(self._context.device)

    def _admit(self, device: DeviceView) -> None:
        if device.kind in access_rules.LIMITED_KEYS:
            message = f"a {device.kind}'s key is not valid for the stream"
            raise StreamClosing(CLOSE_UNAUTHENTICATED, ProblemFrame(code="Forbidden", message=message))
        if self._streams.full:
            raise StreamClosing(CLOSE_TRY_AGAIN, ProblemFrame(code="Full", message="too many clients"))
        self._unregister = self._streams.register(device.id, self.drop)

    async def _send_welcome(self, frame: Authenticate | None) -> None:
        assert self._context.device is not None
        if frame is not None and frame.protocol < OLDEST:
            text = f"protocol {frame.protocol} is no longer supported, {OLDEST} to {PROTOCOL} are"
            raise StreamClosing(
                CLOSE_TOO_OLD, ProblemFrame(code="TooOld", message=text, field="protocol", hint="Update.")
            )
        if frame is not None and frame.token and self._hub.auth.device_of(frame.token) is None:
            raise _unauthenticated("unknown or revoked token", "token")
        self._greeted = True
        welcome = encode_frame(Welcome(protocol=PROTOCOL, version=__version__, device=self._context.device.id))
        await self._send(welcome.message)

    async def _subscribe(self, frame: Subscribe) -> None:
        check_subscription(frame)
        if not self._greeted:  # the upgrade said who it is
            await self._send_welcome(None)
        fanout = self._hub.fanout
        if self._subscriber is None:
            self._subscriber = Subscriber(fanout, self._send, self.drop)
        else:
            await self._subscriber.pause()  # it stays with the fan-out: of what it knows it misses nothing
        await start_subscription(self._hub, self._subscriber, frame)

    async def _receive_frame(self) -> AnyClientFrame:
        message = await self._receive()
        if message["type"] != "websocket.receive":
            raise StreamClosing(0)
        text: str | None = message.get("text")
        if text is None:
            raise _bad_frame("a frame must be text")
        if len(text) > MAX_FRAME:
            raise _bad_frame(f"a frame has at most {MAX_FRAME:,} bytes")
        try:
            return _decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            match = _FIELD.search(str(error))
            raise _bad_frame(str(error), match[1] if match else "") from None

    async def _close(self, closing: StreamClosing) -> None:
        """The last words, as far as the other side still listens."""
        if self._subscriber is not None:
            await self._hub.fanout.remove(self._subscriber)
        if not closing.code:
            return
        try:
            async with asyncio.timeout(CLOSE_S):
                if closing.problem is not None:
                    await self._send(encode_frame(closing.problem).message)
                await self._send({"type": "websocket.close", "code": closing.code, "reason": str(closing)[:120]})
        except Exception:  # it is gone, or takes nothing: whatever the server's way to say so
            return


async def start_subscription(hub: "Hub", subscriber: Subscriber, wanted: Subscribe) -> None:
    """Sends the client its position and the present, and follows the log from there."""
    try:
        cursor_state, cursor = await hub.fanout.locate(wanted.after, wanted.epoch)
    except BusError as error:
        raise StreamClosing(CLOSE_TRY_AGAIN, ProblemFrame(code=type(error).__name__, message=error.message)) from None
    # Nothing waits from here on: the snapshot, the cursor and what follows belong together.
    now = hub.fanout.cursor
    cursor = now if cursor_state == "reset" else cursor
    subscriber.visible = wanted.visible
    known = wanted.snapshot == "known" and subscriber.knows_snapshot
    remaining, snapshot = None, Snapshot()
    if wanted.snapshot == "whole":
        snapshot = hub.state.snapshot()
    elif not known:
        first = first_sessions(hub.state, wanted.sessions or ())
        snapshot, remaining = hub.state.snapshot(first), RemainingSessions(hub.state, first)
    subscriber.configure(
        cursor, wanted.sessions, events=wanted.events, deltas=wanted.deltas, remaining=remaining, known=known
    )
    if known:  # what it follows now may be among those that have not come yet
        followed = (
            hub.state.sessions.get(id) for id in wanted.sessions or () if not subscriber.will_tell("session", id)
        )
        snapshot = Snapshot(sessions=tuple(session for session in followed if session is not None))
    ready = Ready(
        state=cursor_state,
        epoch=hub.fanout.epoch,
        cursor=now,
        snapshot=snapshot,
        snapshot_sent="known" if known else "whole" if remaining is None else "parts",
        sessions_left=subscriber.sessions_left,
    )
    hub.fanout.add(subscriber, encode_frame(ready, seq=cursor))


def check_subscription(wanted: Subscribe) -> None:
    """Raises Closing that names the field."""
    if not 0 <= wanted.after <= MAX_CURSOR:
        raise _bad_frame("a cursor must not be negative", "after")
    for session in wanted.sessions or ():
        try:
            check_subject(subject(session))
        except BadSubject as error:
            raise _bad_frame(f"invalid session id {session[:80]!r}: {error.problem}", "sessions") from None


_CODES = {4401: "Unauthenticated", 4408: "TooSlow", 1012: "Restart", 1013: "TryAgain"}


def _bad_frame(message: str, field: str = "") -> StreamClosing:
    return StreamClosing(CLOSE_BAD_FRAME, ProblemFrame(code="BadFrame", message=message[:500], field=field))


def _unauthenticated(message: str, field: str = "") -> StreamClosing:
    problem = ProblemFrame(code="Unauthenticated", message=message, field=field, hint="Pair again: `tieline pair`.")
    return StreamClosing(CLOSE_UNAUTHENTICATED, problem)
