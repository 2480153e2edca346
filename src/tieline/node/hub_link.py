"""The node's link to its hub: connects, and connects again whenever the connection ends.

What is sent is read from the node's own bus and what is received is stored there first, so nothing is lost meanwhile.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from ..background_tasks import cancel_and_wait
from ..backoff import Backoff
from ..bus.base import Bus
from ..errors import BusClosed, BusError, TielineError, UsageError
from ..protocol import OLDEST, PROTOCOL
from ..protocol import node_link as p
from ..sessions.event_log import last_before
from ..version import __version__
from .command_executor import CommandExecutor
from .command_inbox import CommandInbox
from .link_connection import LinkConnection
from .result_outbox import ResultOutbox

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

BACKOFF = Backoff(0.2, 30.0)
"""Between two attempts, with jitter so that nodes do not reconnect all at once."""
STEADY_S = 5.0
SOON = 3
"""A connection that lasted for so long resets the backoff; a shorter one leaves at most so many failures."""
REFUSED = Backoff(60.0, 60.0)
"""After a refusal that an update on the other side may end."""
CLOSE_S = 2.0
TRIM_S = 3600.0

JoinState = Literal["away", "joined", "refused"]

_decode = msgspec.json.Decoder(p.AnyDownFrame).decode


class KeyRefused(TielineError):
    """The hub does not know this node's key any more."""

    def __init__(self) -> None:
        hint = "Join again: `tieline node leave`, then `tieline node join URL`."
        super().__init__("the hub does not know this machine's key", hint=hint)


class Ended(Exception):
    """The connection ended, and why."""

    def __init__(self, problem: str, refused: p.LinkRefused | None = None) -> None:
        super().__init__(problem)
        self.refused = refused


class LinkStatus(Struct, frozen=True, kw_only=True):
    """How the link is."""

    state: JoinState = "away"
    problem: str = ""
    limits: tuple[str, ...] = ()


class HubLink:
    """`await Link(bus, executor, url=…, key=…).run()`: joined for as long as it runs. Commands that are here are
    carried out whether or not the hub is there."""

    def __init__(
        self,
        bus: Bus,
        executor: CommandExecutor,
        *,
        url: str,
        key: str,
        changed: Callable[[LinkStatus], None] = lambda situation: None,
        keep_days: float = 0.0,
        backoff: Backoff = BACKOFF,
    ) -> None:
        self.situation = LinkStatus()
        self._bus = bus
        self._executor = executor
        self._url = link_url(url)
        self._key = key
        self._changed = changed
        self._keep_days = keep_days  # 0: for good
        self._backoff = backoff
        self._failures = 0
        self._joined_at: float | None = None
        self._inbox = CommandInbox(bus, f"link.{executor.identity.id}")
        self._outbox = ResultOutbox(bus, executor.identity.id)

    async def trim(self, older_than: float) -> int:
        """Remove the events from before a time that the hub has. Says how many records."""
        last = await last_before(self._bus, older_than, self._outbox.kept)
        return await self._bus.trim("events.>", before=last + 1) if last else 0

    async def run(self) -> None:
        """Until it is cancelled. Raises KeyRefused, BusError."""
        await self._outbox.load()
        await self._inbox.load()
        await self._executor.manager.rules.forget_joined(but=self._url)
        inbox = asyncio.create_task(self._inbox.run(self._executor, self._outbox.done))
        dialing = asyncio.create_task(self._keep_dialing())
        trimming = asyncio.create_task(self._keep_trimming())
        try:
            await asyncio.wait({inbox, dialing}, return_when=asyncio.FIRST_COMPLETED)
            for task in (dialing, inbox):
                if task.done():
                    task.result()
        finally:
            await cancel_and_wait(inbox, dialing, trimming)

    async def _keep_trimming(self) -> None:
        while self._keep_days > 0:
            await asyncio.sleep(TRIM_S)
            with suppress(BusError):
                await self.trim(time.time() - self._keep_days * 86400)

    async def _keep_dialing(self) -> None:
        while True:
            self._joined_at = None
            try:
                await self._dial()
                problem, refused = "the connection ended", None
            except Ended as end:
                problem, refused = str(end), end.refused
            if refused is not None and refused.code == "Unauthenticated":
                raise KeyRefused
            if self._joined_at is not None:  # soon again, unless it ends again and again
                lasted = time.monotonic() - self._joined_at
                self._failures = 0 if lasted > STEADY_S else min(self._failures, SOON)
            lasting = refused is not None and refused.code in ("Forbidden", "NodeTooOld", "HubTooOld")
            self._be(LinkStatus(state="refused" if lasting else "away", problem=problem))
            self._failures += 1
            await asyncio.sleep(REFUSED.delay(1) if lasting else self._backoff.delay(self._failures))

    async def _dial(self) -> None:
        """One connection, to its end. Raises Ended, BusClosed."""
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidStatus, WebSocketException

        try:
            async with connect(
                self._url,
                additional_headers={"Authorization": f"Bearer {self._key}"},
                user_agent_header=f"tieline/{__version__}",
                compression=None,
                open_timeout=p.HANDSHAKE_S,
                ping_interval=None,  # the link has beats of its own
                close_timeout=CLOSE_S,
                max_size=p.MAX_FRAME + 1024,
                proxy=None,
            ) as socket:
                await self._speak(socket)
        except InvalidStatus as error:
            status = error.response.status_code
            refused = p.LinkRefused(code="Unauthenticated", message="") if status == 401 else None
            raise Ended(f"the hub answered with status {status}", refused) from None
        except (OSError, EOFError, TimeoutError, WebSocketException, msgspec.DecodeError) as error:
            raise Ended(str(error) or type(error).__name__) from None

    async def _speak(self, socket: "ClientConnection") -> None:
        async def send(frame: p.AnyUpFrame) -> None:
            async with asyncio.timeout(p.SILENCE_S):
                await socket.send(p.encode(frame))

        async def receive(within: float = p.SILENCE_S) -> p.AnyDownFrame:
            async with asyncio.timeout(within):
                data = await socket.recv()
            frame = _decode(data)
            if isinstance(frame, p.LinkRefused):
                raise Ended(f"{frame.message} {frame.hint}".strip(), frame)
            return frame

        await send(self._hello())
        welcome = await receive(p.HANDSHAKE_S)
        if not isinstance(welcome, p.LinkWelcome):
            raise Ended("the hub sent no welcome")
        if not OLDEST <= welcome.protocol <= PROTOCOL:
            code = "HubTooOld" if welcome.protocol < OLDEST else "NodeTooOld"
            problem = f"the hub speaks protocol {welcome.protocol}, this node {OLDEST} to {PROTOCOL}"
            raise Ended(problem, p.LinkRefused(code=code, message=problem))
        self._joined_at = time.monotonic()
        self._be(LinkStatus(state="joined", limits=welcome.limits))
        try:
            await LinkConnection(self._bus, self._executor, self._inbox, self._outbox, welcome, send, self._url).run(
                receive
            )
        except ExceptionGroup as group:
            raise _cause(group) from None
        except BusClosed:
            raise
        except BusError as error:  # a full disk, a server that is away: the next connection tries again
            raise Ended(error.message) from None

    def _hello(self) -> p.Hello:
        me, position = self._executor.identity, self._inbox.position
        return p.Hello(
            protocol=PROTOCOL,
            oldest=OLDEST,
            node=me.id,
            epoch=self._outbox.epoch,
            name=me.name,
            version=me.version,
            platform=me.platform,
            capabilities=p.CAPABILITIES,
            orders=position.seq,
            hub=position.log,
        )

    def _be(self, situation: LinkStatus) -> None:
        if situation != self.situation:
            self.situation = situation
            self._changed(situation)


def link_url(url: str) -> str:
    """Where the link of a hub is. Raises UsageError."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}.get(parts.scheme)
    if scheme is None or not parts.netloc:
        raise UsageError(
            f"{url!r} is not the address of a hub", field="url", hint="It begins with https:// or http://."
        )
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}/api/v1/link"


def _cause(group: ExceptionGroup[Exception]) -> Exception:
    """Why a connection ended: what the hub said about it counts more than what followed from that."""
    leaves: list[Exception] = []
    rest: list[Exception] = [group]
    while rest:
        error = rest.pop()
        if isinstance(error, ExceptionGroup):
            rest += error.exceptions  # type: ignore[reportUnknownMemberType]
        else:
            leaves.append(error)
    order = (BusClosed, Ended, BusError)
    leaves.sort(key=lambda error: next((rank for rank, kind in enumerate(order) if isinstance(error, kind)), 3))
    first = leaves[0]
    return Ended(first.message) if isinstance(first, BusError) and not isinstance(first, BusClosed) else first
