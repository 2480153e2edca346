"""Sends commands to nodes. A command to the hub's own node is a call; to any other it is a durable record.

A command goes on the bus, the hub that has the node's link forwards it, and its result comes back the same way: so any
hub on a bus can command any node. `dispatch` waits for the result for a while; after that, and for a node that is away,
it gives a CommandView, which later states follow in the table `commands`. A refusal is raised.
"""

import asyncio
import re
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from ...background_tasks import background, cancel_and_wait
from ...bus.base import Bus
from ...errors import BusClosed, BusError, TielineError, Unsupported, UsageError
from ...ids import new_id
from ...node.command_executor import CommandExecutor
from ...node.command_inbox import CommandInbox
from ...protocol import commands as c
from ...protocol.commands import AnyCommand, CommandEnvelope, Result, decode_envelope, raise_if_refused, refusal_of
from ...protocol.node_link import NodeCapability
from ...protocol.views import CommandView, NodeView
from .command_queue import EXPIRES_S, CommandQueue, command_view, subject, with_refusal, with_result
from .registry import RENEW_S, Lost, NodeOffline, NodeRegistry, Presence

WAIT_S = 10.0
RETRY_S = 1.0
BUS = "bus"
"""Which log the local node's commands are counted in: there is one only."""
RESULT_PART = 512 * 1024
"""Bytes of a result that are announced at once."""
MAX_PARTS = 64

REQUIRED_CAPABILITIES: dict[type[c.NodeCommand], NodeCapability] = {
    c.GetDiff: "diff",
    c.Browse: "browse",
    c.GetWorkingTree: "changes",
    c.ReadFile: "changes",
    **dict.fromkeys(c.CHANGES, "changes"),
    c.GetWorktree: "worktrees",
    c.MergeWorktree: "worktrees",
    c.RebaseWorktree: "worktrees",
    c.DiscardWorktree: "worktrees",
    c.RemoveUnusedWorktree: "worktrees",
    c.Steer: "steer",
    c.ApprovePermission: "asks",
    c.DenyPermission: "asks",
    c.AnswerQuestion: "asks",
    c.SendPrompt: "prompts",
}
"""What a node of another version may have to go without."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Result).decode


class CommandDispatcher:
    """`async with CommandDispatcher(bus, nodes, local) as dispatcher`."""

    def __init__(self, bus: Bus, nodes: NodeRegistry, local: CommandExecutor | None = None) -> None:
        self.queue = CommandQueue(bus)
        self._bus = bus
        self._nodes = nodes
        self._local = local
        self._waiting: dict[tuple[str, str], set[asyncio.Future[Result]]] = {}
        self._status_changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    @property
    def local(self) -> str:
        """The id of the node in this process; empty when there is none."""
        return self._local.identity.id if self._local else ""

    async def __aenter__(self) -> "CommandDispatcher":
        await self._stack.enter_async_context(self.queue)
        self._spawn(self._consume_results())
        if self._local is not None:
            presence = await self._nodes.register(self._view(self._local))
            self._stack.push_async_callback(presence.leave)
            self._local.agents.changed.append(self._status_changed.set)
            self._status_changed.set()
            self._spawn(self._publish_status(self._local))
            self._spawn(self._keep_presence(self._local, presence))
            inbox = CommandInbox(self._bus, f"bus.{self.local}")
            await inbox.load()
            self._spawn(inbox.run(self._local, self.handle_result))
            self._spawn(self._consume_commands(inbox))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._local is not None and self._status_changed.set in self._local.agents.changed:
            self._local.agents.changed.remove(self._status_changed.set)
        await cancel_and_wait(*self._tasks)
        for future in [future for futures in self._waiting.values() for future in futures]:
            future.cancel()
        with suppress(BusError):
            await self._stack.aclose()

    async def dispatch(
        self,
        node: str,
        command: AnyCommand,
        *,
        by: str,
        id: str = "",
        wait_s: float = WAIT_S,
        expires_s: float = EXPIRES_S,
    ) -> Result | CommandView:
        """Raises what the command is refused for (of another machine as CommandRefused), UnknownNode, Unsupported for
        what the node goes without, NodeOffline for a reading command that nobody answers. The same id again is the same
        command."""
        now = time.time()
        if id:
            _check_id(id)
        envelope = CommandEnvelope(id=id or new_id(), command=command, by=by, at=now, expires_at=now + expires_s)
        if self._local is not None and node == self.local:
            return await self._execute_local(self._local, envelope)
        view = await self._nodes.get(node)
        if (needed := REQUIRED_CAPABILITIES.get(type(command))) and needed in view.limits:
            hint = "It runs another version of Tieline; update the older one."
            raise Unsupported(f"the node {view.name or view.id}", command.name, hint=hint)
        reading = isinstance(command, c.READING)
        if (reading or isinstance(command, c.CHANGES)) and not view.online:
            raise NodeOffline(view)
        if reading:
            envelope = replace(envelope, expires_at=now + wait_s)
        key = (node, envelope.id)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, set()).add(future)
        try:
            await self.queue.send(node, envelope)
            if view.online:
                async with asyncio.timeout(wait_s):
                    return raise_if_refused(await future)
        except TimeoutError:
            if reading:
                raise NodeOffline(view, f"did not answer within {wait_s:g} s") from None
        finally:
            self._waiting[key].discard(future)
            if not self._waiting[key]:
                del self._waiting[key]
        return await self.queue.get(envelope.id) or command_view(node, envelope)

    async def handle_result(self, result: Result, node: str = "") -> None:
        """A node says what became of a command. Durable when it returns, and whoever waits for it is told. Raises
        UsageError for the id of no command."""
        _check_id(result.id)
        node = node or self.local
        await self.queue.mark_concluded(node, result)
        if not self._resolve_waiting(node, result):
            data = _encode(result)
            parts = range(0, len(data), RESULT_PART)
            if len(parts) > MAX_PARTS:
                return
            for number, start in enumerate(parts):
                name = f"results.{node}.{result.id}.{number + 1}.{len(parts)}"
                await self._bus.announce(name, data[start : start + RESULT_PART])

    def _resolve_waiting(self, node: str, result: Result) -> bool:
        futures = self._waiting.get((node, result.id), ())
        for future in futures:
            if not future.done():
                future.set_result(result)
        return bool(futures)

    async def _execute_local(self, local: CommandExecutor, envelope: CommandEnvelope) -> Result:
        try:
            result = await local.execute(envelope)
        except TielineError as error:
            await self._record(envelope, with_refusal(command_view(self.local, envelope), refusal_of(error)))
            raise
        await self._record(envelope, with_result(command_view(self.local, envelope), result))
        return result

    async def _record(self, envelope: CommandEnvelope, view: CommandView) -> None:
        """Its caller has the result already; this is for those who look later, or elsewhere."""
        if not isinstance(envelope.command, c.READING):
            await self.queue.record_result(view, now=isinstance(envelope.command, c.DECISIONS))

    async def _consume_results(self) -> None:
        """Results that nodes sent to other hubs. A result that this misses is still in the table."""
        parts: dict[tuple[str, str], list[bytes]] = {}
        while True:
            with suppress(BusError):
                async with aclosing(self._bus.listen("results.>")) as results:
                    async for announcement in results:
                        _, node, id, number, last = announcement.subject.split(".")
                        if (node, id) not in self._waiting:
                            continue
                        for other in [key for key in parts if key not in self._waiting]:
                            del parts[other]  # its last part was missed, and no caller waits for it any longer
                        have = parts.setdefault((node, id), [])
                        have.append(announcement.data)
                        if number == last:
                            del parts[node, id]
                            if len(have) == int(last):
                                self._resolve_waiting(node, _decode(b"".join(have)))
            parts.clear()
            await asyncio.sleep(RETRY_S)

    async def _consume_commands(self, inbox: CommandInbox) -> None:
        """What other hubs on the bus tell the local node."""
        while True:
            try:
                async with aclosing(self._bus.read(subject(self.local), after=inbox.position.seq)) as records:
                    async for record in records:
                        await inbox.take(BUS, [(record.seq, decode_envelope(record.data))])
                        await self.queue.trim(self.local, record.seq)
            except BusClosed:
                return
            except BusError:
                await asyncio.sleep(RETRY_S)

    async def _keep_presence(self, local: CommandExecutor, presence: Presence) -> None:
        """Say that the local node is there for as long as it is."""
        while True:
            await asyncio.sleep(RENEW_S)
            try:
                await presence.renew()
            except Lost:  # a copy of this machine's state elsewhere: ours is the one that is asked here
                taken = await self._nodes.register(self._view(local))
                presence.value, presence.revision = taken.value, taken.revision
            except BusClosed:
                return
            except BusError:
                pass  # the bus is away; so are we, for the others, until it is back

    async def _publish_status(self, local: CommandExecutor) -> None:
        """Keep what is shown of the local node as it is."""
        while True:
            await self._status_changed.wait()
            self._status_changed.clear()
            status = local.status()
            try:
                await self._nodes.change(
                    self.local, agents=status.agents, default_agent=status.default_agent, home=status.home
                )
            except BusClosed:
                return
            except BusError:  # what is shown is older than what is, until the bus is back
                self._status_changed.set()
                await asyncio.sleep(RETRY_S)

    def _view(self, local: CommandExecutor) -> NodeView:
        me, status = local.identity, local.status()
        return NodeView(
            id=me.id,
            name=me.name,
            version=me.version,
            platform=me.platform,
            local=True,
            agents=status.agents,
            default_agent=status.default_agent,
            home=status.home,
        )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(background(work, f"dispatcher-{work.__name__}"))


def _check_id(id: str) -> None:
    if not _ID.fullmatch(id):
        raise UsageError(f"invalid id {id[:80]!r}", field="id", hint="Use letters, digits, - and _.")
