"""What goes over a link, kind by kind. Each is worked on by one task, so that a slow disk holds the node up and nothing
piles up here."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...background_tasks import cancel_and_wait
from ...bus.base import check_headers
from ...bus.subjects import check_key, check_subject
from ...protocol import node_link as p
from ...protocol.commands import READING, CommandEnvelope, decode_envelope
from ...sessions.ask_rules import AskRule
from ...sessions.event_log import deltas_subject
from ...sessions.rule_book import RULES
from .byte_queue import ByteQueue
from .command_queue import subject
from .handshake import CLOSE_BAD_FRAME, LinkClosing
from .replica import Replica

if TYPE_CHECKING:
    from ..hub import Hub

BACKLOG = 8 * 1024 * 1024
"""Bytes of frames of one kind that wait to be worked on."""
STATES = 128
"""Values that are written at once."""
IDLE_S = 30.0
"""Without a record for so long it is written down how far the log is."""
MAX_DELTA = 512 * 1024

SendDown = Callable[[p.AnyDownFrame], Awaitable[None]]
QueuedFrame = p.LinkRecords | p.LinkState | p.Synced | p.Results | p.Delta


class _Batch(Struct):
    records: tuple[p.LogRecord, ...]
    size: int
    states: int  # those that came before must be there first: they say whose the sessions are


class _Value(Struct):
    frame: p.LinkState | p.Synced
    size: int


class _Results(Struct):
    frame: p.Results
    size: int


class Upstream:
    """Records, values and results of a node, on their way to the bus."""

    def __init__(self, hub: "Hub", replica: Replica, node: str, send: SendDown) -> None:
        self._hub = hub
        self._replica = replica
        self._node = node
        self._send = send
        self._records: ByteQueue[_Batch] = ByteQueue(BACKLOG, lambda batch: batch.size)
        self._states: ByteQueue[_Value] = ByteQueue(BACKLOG, lambda value: value.size)
        self._results: ByteQueue[_Results] = ByteQueue(BACKLOG, lambda results: results.size)

    async def put(self, frame: QueuedFrame, size: int) -> None:
        """Waits while too much waits. Raises Closing, BadSubject."""
        match frame:
            case p.LinkRecords(records=records):
                _check(records)
                await self._records.put(_Batch(records, size, self._states.enqueued))
            case p.LinkState(key=key):
                check_key(key)
                await self._states.put(_Value(frame, size))
            case p.Synced():
                await self._states.put(_Value(frame, size))
            case p.Results():
                await self._results.put(_Results(frame, size))
            case p.Delta(session=session, event=event):
                if self._replica.owns(session) and len(bytes(event)) <= MAX_DELTA:
                    await self._hub.bus.announce(deltas_subject(session), bytes(event))

    async def store_records(self) -> None:
        replica = self._replica
        while True:
            try:
                async with asyncio.timeout(IDLE_S):
                    (batch,) = await self._records.take()
            except TimeoutError:
                await replica.save_idle()
                continue
            if not all(replica.owns(record.subject.partition(".")[2]) for record in batch.records):
                await self._states.wait_processed(batch.states)
            await self._send(p.Kept(seq=await replica.append(batch.records)))

    async def store_states(self) -> None:
        while True:
            latest: dict[tuple[str, str], p.LinkState] = {}
            for value in await self._states.take(STATES):
                if isinstance(value.frame, p.LinkState):
                    latest[value.frame.table, value.frame.key] = value.frame
                    continue
                await self._apply(latest)
                latest.clear()
                await self._replica.finish_sync(value.frame.table)
            await self._apply(latest)

    async def _apply(self, states: dict[tuple[str, str], p.LinkState]) -> None:
        """Sessions first: the others are theirs."""
        for table in ("sessions", "prompts", "asks"):
            async with asyncio.TaskGroup() as group:
                for state in states.values():
                    if state.table == table:
                        group.create_task(self._replica.apply(state))

    async def handle_results(self) -> None:
        while True:
            for batch in await self._results.take():
                for result in batch.frame.results:
                    await self._hub.dispatcher.handle_result(result, self._node)
                await self._send(p.Heard(ids=tuple(result.id for result in batch.frame.results)))


class Downstream:
    """Commands, on their way from the bus to a node."""

    def __init__(self, hub: "Hub", node: str, send: SendDown) -> None:
        self._hub = hub
        self._node = node
        self._send = send
        self._sent: list[tuple[int, CommandEnvelope]] = []
        self._has_room = asyncio.Event()
        self._acknowledged_event = asyncio.Event()
        self._acknowledged = 0
        self._rules = 0  # the revision that was sent last

    async def send_commands(self, after: int) -> None:
        async with aclosing(self._hub.bus.read(subject(self._node), after=after)) as records:
            async for record in records:
                await self._send_command(record.seq, decode_envelope(record.data))

    async def _send_command(self, seq: int, envelope: CommandEnvelope) -> None:
        if 0 < envelope.expires_at < time.time():
            await self._hub.dispatcher.queue.mark_expired(self._node, envelope)
            return
        while len(self._sent) >= p.BATCH:
            self._has_room.clear()
            await self._has_room.wait()
        self._sent.append((seq, envelope))
        if isinstance(envelope.command, READING):
            envelope = replace(envelope, expires_at=0.0)  # it was in time when it was sent
        await self._send(p.LinkCommands(orders=((seq, envelope),)))

    async def send_rules(self) -> None:
        """All that hold on the node, now and whenever one changes."""
        table = self._hub.bus.table(RULES)
        changed = asyncio.Event()
        changed.set()

        async def watch() -> None:
            async with aclosing(table.watch()) as changes:
                async for _ in changes:
                    changed.set()

        watching = asyncio.create_task(watch())
        try:
            while True:
                waiting = asyncio.create_task(changed.wait())
                try:
                    await asyncio.wait({waiting, watching}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await cancel_and_wait(waiting)
                if watching.done():
                    watching.result()
                    return
                changed.clear()
                entries = await table.entries()
                revision = max((entry.revision for entry in entries), default=0)
                if revision == self._rules and revision:
                    continue  # the watch began with what was sent already
                self._rules = revision
                rules = (msgspec.json.decode(entry.value, type=AskRule) for entry in entries)
                now = time.time()
                held = tuple(rule for rule in rules if rule.holds(now) and rule.node in ("", self._node))
                await self._send(p.LinkRules(revision=self._rules, rules=held))
        finally:
            await cancel_and_wait(watching)

    def sent_rules(self, revision: int) -> int:
        """What the node says that it has. Of what was not sent it cannot have anything."""
        return min(revision, self._rules)

    def acknowledge(self, seq: int) -> None:
        """The node says that it has all of them up to there. Of what was not sent it cannot have anything."""
        self._acknowledged = max(self._acknowledged, min(seq, self._sent[-1][0] if self._sent else 0))
        self._acknowledged_event.set()

    async def process_acknowledged(self) -> None:
        """Commands are durable at the node: show it, and forget them here."""
        while True:
            await self._acknowledged_event.wait()
            self._acknowledged_event.clear()
            seq = self._acknowledged
            for _, envelope in [sent for sent in self._sent if sent[0] <= seq]:
                await self._hub.dispatcher.queue.mark_received(self._node, envelope)
            self._sent = [sent for sent in self._sent if sent[0] > seq]
            self._has_room.set()
            await self._hub.dispatcher.queue.trim(self._node, seq)


def _check(records: tuple[p.LogRecord, ...]) -> None:
    if len(records) > p.BATCH:
        raise LinkClosing(CLOSE_BAD_FRAME, "BadFrame", f"more than {p.BATCH} records")
    for record in records:
        check_subject(record.subject)
        check_headers(record.headers)
