"""A node's orders: durable here before their sender is told so, then carried out, one after the other within a session,
several sessions at a time. An order is taken off when what became of it was given to `done`.

They wait in a table, not in a group of the bus: a node is the only one that takes them, and after a crash they go on at
once and in their order, where the leases of whoever died would have to run out first.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..bus.base import Bus, Table
from ..errors import BusClosed, BusError
from ..protocol.commands import CommandEnvelope, Result, decode_envelope
from .command_executor import CommandExecutor

INBOX = "inbox"
PLACES = "places"
AT_ONCE = 64
MOST_HELD = 128
"""Orders that are here and not carried out yet; beyond that their sender waits."""
AGAIN_S = 1.0
"""Until what the bus did not take is tried again."""

_encode = msgspec.json.encode


class InboxPosition(Struct, frozen=True, kw_only=True):
    """The last order that is here, by the numbers of the sender's log."""

    log: str = ""
    seq: int = 0


class CommandInbox:
    """`load` it, `run` it in a task; `take` what comes."""

    def __init__(self, bus: Bus, name: str) -> None:
        """The name says whose orders they are and how they come."""
        self.place = InboxPosition()
        self._name = name
        self._table: Table = bus.table(INBOX)
        self._places: Table = bus.table(PLACES)
        self._held: set[str] = set()
        self._waiting: asyncio.Queue[tuple[str, CommandEnvelope]] = asyncio.Queue()  # bounded by what is held
        self._room = asyncio.Event()

    async def load(self) -> None:
        if entry := await self._places.get(self._name):
            self.place = msgspec.json.decode(entry.value, type=InboxPosition)
        for entry in sorted(await self._table.entries(f"{self._name}.>"), key=lambda entry: entry.revision):
            log, seq = entry.key.split(".")[-2:]
            if log == self.place.log and int(seq) > self.place.seq:
                self.place = replace(self.place, seq=int(seq))  # we died before that was written down
            self._hold(entry.key, decode_envelope(entry.value))

    async def take(self, log: str, orders: Sequence[tuple[int, CommandEnvelope]]) -> None:
        """Durable when it returns; what is here already is taken once."""
        while len(self._held) >= MOST_HELD:
            self._room.clear()
            await self._room.wait()
        taken: list[tuple[str, CommandEnvelope]] = []
        try:
            for seq, order in orders:
                key = f"{self._name}.{log}.{seq}"
                if key not in self._held:
                    await self._table.put(key, _encode(order))
                    taken.append((key, order))
            await self.move(InboxPosition(log=log, seq=orders[-1][0]))
        finally:
            for key, order in taken:  # not before it is known that they came: else they might come and be done again
                self._hold(key, order)

    async def move(self, place: InboxPosition) -> None:
        if place != self.place:
            await self._places.put(self._name, _encode(place))
            self.place = place

    def _hold(self, key: str, order: CommandEnvelope) -> None:
        self._held.add(key)
        self._waiting.put_nowait((key, order))

    async def run(self, executor: CommandExecutor, done: Callable[[Result], Awaitable[None]]) -> None:
        """Carry them out, until it is cancelled."""
        slots = asyncio.Semaphore(AT_ONCE)
        tails: dict[str, asyncio.Task[None]] = {}

        async def one(key: str, order: CommandEnvelope, before: asyncio.Task[None] | None) -> None:
            try:
                if before is not None:
                    await asyncio.wait({before})
                await self._execute(key, order, executor, done)
            finally:
                slots.release()

        def over(session: str, task: asyncio.Task[None]) -> None:
            if tails.get(session) is task:
                del tails[session]

        async with asyncio.TaskGroup() as group:
            while True:
                await slots.acquire()
                key, order = await self._waiting.get()
                # A session's orders follow each other; all without one are on their own.
                session = getattr(order.command, "session", "") or order.id
                task = tails[session] = group.create_task(one(key, order, tails.get(session)))
                task.add_done_callback(lambda task, session=session: over(session, task))

    async def _execute(
        self, key: str, order: CommandEnvelope, executor: CommandExecutor, done: Callable[[Result], Awaitable[None]]
    ) -> None:
        result = await executor.execute(order)
        while True:
            try:
                await done(result)
                await self._table.delete(key)
                break
            except BusClosed:
                return  # it is carried out by the next one, who finds it here
            except BusError:
                await asyncio.sleep(AGAIN_S)
        self._held.discard(key)
        self._room.set()
