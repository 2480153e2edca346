"""The hub's side of a link: `protocol/node_link.py` says what is spoken on it.

One node, one link; a newer one of the same node takes over. Frames are read by one task and worked on by one task per
kind, so that a slow disk holds the node up and nothing piles up here. What ends a link is told the node, if it can be:
it comes back by itself, and goes on where it was.
"""

import asyncio
import time
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.types import Receive, Send

from ...background_tasks import cancel_and_wait
from ...errors import BusError, UsageError
from ...node.result_outbox import keeps_log
from ...protocol import PROTOCOL
from ...protocol import node_link as p
from ...protocol.views import NodeView
from ...version import __version__
from ..http.request_context import context_of
from ..ops.logs import logger
from . import handshake
from .handshake import (
    CLOSE_BAD_FRAME,
    CLOSE_FAILED,
    CLOSE_REFUSED,
    CLOSE_REPLACED,
    CLOSE_REVOKED,
    CLOSE_TRY_AGAIN,
    LinkClosing,
)
from .link_streams import Downstream, Upstream
from .registry import RENEW_S, Lost, Presence
from .replica import Replica

if TYPE_CHECKING:
    from ..hub import Hub

CLOSE_S = 5.0

_decode = msgspec.json.Decoder(p.AnyUpFrame).decode


class ConnectionGone(Exception):
    """The node closed the connection or is silent."""


class Links:
    """The open links of this hub. A node whose device is revoked loses its link at once."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._open: dict[str, set[asyncio.Task[Any]]] = {}
        self._latest: dict[str, asyncio.Event] = {}  # per node, set when another one comes
        hub.devices.on_revoke(self._revoked)

    async def serve(self, scope: Any, receive: Receive, send: Send) -> None:
        """A link from its upgrade to its end. Never raises, but when it is cancelled from outside."""
        if (await receive())["type"] != "websocket.connect":
            return
        await send({"type": "websocket.accept"})
        device = context_of(scope).known_device
        work = asyncio.create_task(_Link(self._hub, self, scope, receive, send).run())
        self._open.setdefault(device.id, set()).add(work)
        if not self._hub.devices.knows(device.id):  # revoked after the middleware knew it
            work.cancel()
        unused = self._hub.devices.connected(device.id)
        try:
            await asyncio.wait({work})
        finally:
            unused()
            await cancel_and_wait(work)
            self._open[device.id].discard(work)
            if not self._open[device.id]:
                del self._open[device.id]
        if work.cancelled():
            await _send_close(send, LinkClosing(CLOSE_REVOKED, "Unauthenticated", "this node's key was revoked"))

    @contextmanager
    def replacing(self, node: str) -> Generator[asyncio.Event]:
        """The link that is entered last is its node's; the one before is told by its event, at once."""
        if before := self._latest.get(node):
            before.set()
        own = self._latest[node] = asyncio.Event()
        try:
            yield own
        finally:
            if self._latest.get(node) is own:
                del self._latest[node]

    def _revoked(self, device: str) -> None:
        for work in self._open.get(device, ()):
            work.cancel()


class _Link:
    def __init__(self, hub: "Hub", links: Links, scope: Any, receive: Receive, send: Send) -> None:
        self._hub = hub
        self._links = links
        self._context = context_of(scope)
        self._device = self._context.known_device
        self._receive = receive
        self._send_frame = send
        self._log = logger("link").bind(device=self._device.id)
        self._limits: tuple[str, ...] = ()
        self._node = ""

    async def run(self) -> None:
        try:
            hello = await self._handshake()
            with self._links.replacing(hello.node) as replaced:
                await self._serve(hello, replaced)
        except ConnectionGone:
            pass
        except LinkClosing as end:
            self._log.info("link refused", node=self._node, code=end.refused.code, problem=str(end))
            if end.close == CLOSE_REFUSED:
                self._hub.refused(self._context, str(end))
            await _send_close(self._send_frame, end)
        except Lost as end:
            await _send_close(self._send_frame, LinkClosing(CLOSE_REPLACED, "Replaced", str(end)))
        except BusError as error:
            self._log.warning("link ended", node=self._node, problem=error.message)
            await _send_close(self._send_frame, LinkClosing(CLOSE_TRY_AGAIN, type(error).__name__, error.message))
        except Exception:
            self._log.exception("link failed", node=self._node)
            await _send_close(
                self._send_frame, LinkClosing(CLOSE_FAILED, "InternalError", "internal error of the hub; try again")
            )

    # --- who is it -------------------------------------------------------------------------------------

    async def _handshake(self) -> p.Hello:
        hello, _ = await self._receive_frame(p.HANDSHAKE_S)
        if not isinstance(hello, p.Hello):
            raise LinkClosing(CLOSE_BAD_FRAME, "BadFrame", "a link begins with hello")
        self._node = hello.node
        self._limits = handshake.negotiate(hello, self._device, self._hub.devices.list(), self._hub.dispatcher.local)
        if await keeps_log(self._hub.bus, hello.node, hello.epoch):
            hint = "Give it a bus of its own, or run `tieline up` there: on one bus no link is needed."
            raise LinkClosing(CLOSE_REFUSED, "Forbidden", "this node uses the hub's own bus", hint)
        return hello

    async def _serve(self, hello: p.Hello, replaced: asyncio.Event) -> None:
        hub = self._hub
        before: NodeView | None = None
        with suppress(UsageError):
            before = await hub.nodes.get(hello.node)
        view = handshake.node_view(hello, self._device, self._limits, before)
        presence = await hub.nodes.register(view)  # from here on an older link of this node knows that it is over
        replica = Replica(hub.bus, hello.node, hello.epoch)
        self._log.info("node is there", node=hello.node, version=hello.version, limits=self._limits)
        try:
            after = await replica.load()
            epoch = hub.fanout.epoch
            await self._send(
                p.LinkWelcome(
                    protocol=min(hello.protocol, PROTOCOL),
                    epoch=epoch,
                    version=__version__,
                    at=time.time(),
                    after=after,
                    limits=self._limits,
                )
            )
            up = Upstream(hub, replica, hello.node, self._send)
            down = Downstream(hub, hello.node, self._send)
            await _run_until_failure(
                self._read(up, down),
                up.store_records(),
                up.store_states(),
                up.handle_results(),
                down.send_commands(hello.orders if hello.hub == epoch else 0),
                down.process_acknowledged(),
                *([] if "rules" in self._limits else [down.send_rules()]),
                self._beat(presence),
                _wait_replaced(replaced, hello.node),
            )
        finally:
            self._log.info("node is gone", node=hello.node, refused=replica.refused)
            await self._leave(presence, replica)

    async def _leave(self, presence: Presence, replica: Replica) -> None:
        with suppress(BusError):
            await replica.save_cursor(force=True)
            await presence.leave()

    async def _read(self, up: Upstream, down: Downstream) -> None:
        while True:
            frame, size = await self._receive_frame(p.SILENCE_S)
            match frame:
                case p.LinkTaken(seq=seq):
                    down.acknowledge(seq)
                case p.NodeStatus():
                    await self._hub.nodes.change(
                        self._node, agents=frame.agents[:1000], default_agent=frame.default_agent, home=frame.home
                    )
                case p.RulesKept(revision=revision):
                    await self._hub.nodes.change(self._node, rules=down.sent_rules(revision))
                case p.LinkBeat():
                    pass
                case p.Hello():
                    raise LinkClosing(CLOSE_BAD_FRAME, "BadFrame", "hello was sent already")
                case _:
                    await up.put(frame, size)

    async def _beat(self, presence: Presence) -> None:
        while True:
            await asyncio.sleep(min(RENEW_S, p.HEARTBEAT_S))
            await presence.renew()
            await self._send(p.LinkBeat(at=time.time()))

    # --- the wire --------------------------------------------------------------------------------------

    async def _receive_frame(self, within: float) -> tuple[p.AnyUpFrame, int]:
        try:
            async with asyncio.timeout(within):
                message = await self._receive()
        except TimeoutError:
            raise ConnectionGone from None
        if message["type"] != "websocket.receive":
            raise ConnectionGone
        data = message.get("bytes") or (message.get("text") or "").encode()
        try:
            return _decode(data), len(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise LinkClosing(CLOSE_BAD_FRAME, "BadFrame", f"not a frame: {error}"[:500]) from None

    async def _send(self, frame: p.AnyDownFrame) -> None:
        try:
            async with asyncio.timeout(p.SILENCE_S):
                await self._send_frame({"type": "websocket.send", "bytes": p.encode(frame)})
        except (TimeoutError, OSError, RuntimeError):  # whichever way the server says that nobody is there
            raise ConnectionGone from None


async def _wait_replaced(replaced: asyncio.Event, node: str) -> None:
    await replaced.wait()
    raise Lost(f"another link of node {node} took over")


async def _run_until_failure(*works: Coroutine[Any, Any, None]) -> None:
    """All of them, until the first one fails: its failure is the link's."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_and_wait(*tasks)
    for task in done:
        if error := task.exception():
            raise _root_error(error)


def _root_error(error: BaseException) -> BaseException:
    """The first error inside a group. An error of our own validation becomes a closing that blames the node's frame."""
    root: BaseException = error
    while isinstance(root, ExceptionGroup):
        inside: tuple[BaseException, ...] = root.exceptions  # type: ignore[reportUnknownMemberType]
        root = inside[0]
    if isinstance(root, UsageError | msgspec.DecodeError | UnicodeDecodeError):
        return LinkClosing(CLOSE_BAD_FRAME, "BadFrame", str(root)[:500])
    return root


async def _send_close(send: Send, end: LinkClosing) -> None:
    with suppress(Exception):  # nobody may be there to hear them
        async with asyncio.timeout(CLOSE_S):
            await send({"type": "websocket.send", "bytes": p.encode(end.refused)})
            await send({"type": "websocket.close", "code": end.close, "reason": end.refused.code})
