"""Commands on their way to nodes: durable on `commands.<node>`, shown in the table `commands` from sent to applied."""

import asyncio
import time
from collections import Counter
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from ...background_tasks import background, cancel_and_wait
from ...bus.base import Bus, Table
from ...errors import BusClosed, BusError, Conflict, UsageError
from ...node.command_executor import EXPIRED
from ...protocol import commands as c
from ...protocol.commands import READING, CommandEnvelope, Refusal, Result, decode_envelope
from ...protocol.views import CommandView
from ...sessions.git_actions import ChangeOutcome

COMMANDS = "commands"
EXPIRES_S = 24 * 3600.0
"""How long a command waits for its node, unless it says otherwise."""
KEPT_S = 2 * 24 * 3600
"""How long it is shown what became of one."""
SWEEP_S = 30.0
WRITE_S = 1.0
MAX_UNWRITTEN = 1000
"""Commands that were carried out at once and are not in the table yet; beyond that their callers wait."""
MAX_WAITING = 10_000
"""Commands that may wait for one node."""

RANK = {"sent": 0, "received": 1, "expired": 2, "refused": 3, "applied": 3}
"""A state never goes back. A node's own word is above what the hub concluded from the time."""

MAX_OUTCOME = 64 * 1024
"""Bytes of a change's outcome that all clients are told. A larger one has a large plan, which is asked for again."""
_GIVE_OUTCOMES = frozenset(
    command.name
    for command in (c.StageFiles, c.CommitStaged, c.RevertFiles, c.DiscardChanges, c.PushBranch, c.OpenPullRequest)
)
_decode_outcome = msgspec.json.Decoder(ChangeOutcome).decode
_decode = msgspec.json.Decoder(CommandView).decode
_encode = msgspec.json.encode


def subject(node: str) -> str:
    return f"commands.{node}"


def command_view(node: str, envelope: CommandEnvelope, **more: object) -> CommandView:
    command = envelope.command
    return replace(
        CommandView(
            id=envelope.id,
            node=node,
            name=command.name,
            session=getattr(command, "session", ""),
            ask=getattr(command, "ask", ""),
            by=envelope.by,
            at=envelope.at,
        ),
        **more,
    )


def with_result(view: CommandView, result: Result) -> CommandView:
    if result.refusal is None:
        return replace(view, state="applied", problem="", outcome=_outcome(view.name, result))
    return with_refusal(view, result.refusal)


def with_refusal(view: CommandView, refusal: Refusal) -> CommandView:
    return replace(view, state="expired" if refusal.code == EXPIRED else "refused", problem=refusal.message)


def _outcome(name: str, result: Result) -> ChangeOutcome | None:
    """What a change did. A push may take longer than anybody waits for its result."""
    if name not in _GIVE_OUTCOMES or len(result.value) > MAX_OUTCOME:
        return None
    try:
        return _decode_outcome(result.value)
    except msgspec.DecodeError:  # a node of another version
        return None


class CommandQueue:
    """`async with CommandQueue(bus) as queue`: inside, it marks commands that nobody fetched as expired."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._table: Table = bus.table(COMMANDS)
        self._waiting: Counter[str] = Counter()
        self._unwritten: dict[str, CommandView] = {}
        self._write_now = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "CommandQueue":
        self._tasks = [
            background(self._keep_sweeping(), "commands-sweep"),
            background(self._keep_writing(), "commands-write"),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        await cancel_and_wait(*self._tasks)
        await self._write()

    async def send(self, node: str, envelope: CommandEnvelope) -> None:
        """Durable when it returns; the same id again is the same command."""
        if self._waiting[node] >= MAX_WAITING:
            hint = "They are fetched when it is back, or expire."
            raise UsageError(f"{MAX_WAITING} commands wait for the node already", field="node", hint=hint)
        self._waiting[node] += 1
        if not isinstance(
            envelope.command, READING
        ):  # shown first: the node's result may come before `publish` returns
            with suppress(Conflict):  # the same command again
                await self._table.put(envelope.id, _encode(command_view(node, envelope)), expect=0, ttl=KEPT_S)
        await self._bus.publish(subject(node), _encode(envelope), id=envelope.id)

    async def get(self, id: str) -> CommandView | None:
        if view := self._unwritten.get(id):
            return view
        try:
            entry = await self._table.get(id)
        except UsageError:
            return None
        return _decode(entry.value) if entry else None

    async def record_result(self, view: CommandView, *, now: bool) -> None:
        """What became of one that was carried out at once, where it cannot have been shown before. Whoever asks here is
        told; in the table it is after the next writing, unless it must be seen now. Returns before that."""
        while len(self._unwritten) >= MAX_UNWRITTEN:
            self._write_now.set()
            await asyncio.sleep(0.01)
        self._unwritten[view.id] = view
        if now:
            self._write_now.set()

    async def _keep_writing(self) -> None:
        """Many at once: what they set going shall not wait for each of them to be on the disk."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(WRITE_S):
                    await self._write_now.wait()
            self._write_now.clear()
            await self._write()

    async def _write(self) -> None:
        views = tuple(self._unwritten.values())
        puts = (self._table.put(view.id, _encode(view), ttl=KEPT_S) for view in views)
        # What fails is then shown older than it is; its caller has the result.
        await asyncio.gather(*puts, return_exceptions=True)
        for view in views:
            self._unwritten.pop(view.id, None)

    async def mark_received(self, node: str, envelope: CommandEnvelope) -> None:
        if not isinstance(envelope.command, READING):
            await self._advance(command_view(node, envelope, state="received"), make=True)

    async def mark_concluded(self, node: str, result: Result) -> None:
        """What the node says became of it. Of another node's command nothing is believed."""
        view = await self.get(result.id)
        if view is not None and view.node == node:
            await self._advance(with_result(view, result))

    async def mark_expired(self, node: str, envelope: CommandEnvelope) -> None:
        """Nobody fetched it in time."""
        if not isinstance(envelope.command, READING):
            problem = "the node was offline for too long"
            await self._advance(command_view(node, envelope, state="expired", problem=problem), make=True, above=0)

    async def trim(self, node: str, seq: int) -> None:
        """Everything up to there is durable at the node."""
        await self._bus.trim(subject(node), before=seq + 1)

    async def _advance(self, view: CommandView, *, make: bool = False, above: int = 3) -> None:
        """Show it, unless what is shown is further, or beyond the rank `above` already."""
        while True:
            entry = await self._table.get(view.id)
            if entry is None and not make:
                return
            if entry is not None:
                before = _decode(entry.value)
                if before.node != view.node or RANK[before.state] >= RANK[view.state] or RANK[before.state] > above:
                    return
                view = replace(view, at=before.at or view.at, by=before.by or view.by)
            with suppress(Conflict):
                await self._table.put(view.id, _encode(view), expect=entry.revision if entry else 0, ttl=KEPT_S)
                return

    async def _keep_sweeping(self) -> None:
        while True:
            try:
                await self.sweep()
            except BusClosed:
                return
            except BusError:
                pass  # the bus is away; there is another time
            await asyncio.sleep(SWEEP_S)

    async def sweep(self) -> None:
        """Say of every command whose time is up that it is expired, and count what waits."""
        now = time.time()
        waiting: Counter[str] = Counter()
        over: dict[str, int] = {}
        async for record in self._bus.read(f"{COMMANDS}.>", follow=False):
            node = record.subject.partition(".")[2]
            envelope = decode_envelope(record.data)
            if 0 < envelope.expires_at < now:
                await self.mark_expired(node, envelope)
                if not waiting[node]:
                    over[node] = record.seq
            else:
                waiting[node] += 1
        for node, seq in over.items():
            await self.trim(node, seq)
        self._waiting = waiting
