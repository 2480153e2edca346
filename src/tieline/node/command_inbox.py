"""The inbox of a node: commands are durable before they are acknowledged, then executed, in order within a session,
several sessions at a time. A command is removed when its result was given to `done`.

Commands wait in a table: after a crash they are executed at once and in order.
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
"""Commands that wait to be executed; beyond that their sender waits."""
AGAIN_S = 1.0
"""Until a failed write to the bus is tried again."""

_encode = msgspec.json.encode


class InboxPosition(Struct, frozen=True, kw_only=True):
    """The last command received, by the numbers of the sender's log."""

    log: str = ""
    seq: int = 0


class CommandInbox:
    """`load` it, `run` it in a task; `take` what comes."""

    def __init__(self, bus: Bus, name: str) -> None:
        """`name`: whose commands these are and how they come."""
        self.position = InboxPosition()
        self._name = name
        self._table: Table = bus.table(INBOX)
        self._positions: Table = bus.table(PLACES)
        self._held: set[str] = set()
        self._waiting: asyncio.Queue[tuple[str, CommandEnvelope]] = asyncio.Queue()  # bounded by what is held
        self._room = asyncio.Event()

    async def load(self) -> None:
        if entry := await self._positions.get(self._name):
            self.position = msgspec.json.decode(entry.value, type=InboxPosition)
        for entry in sorted(await self._table.entries(f"{self._name}.>"), key=lambda entry: entry.revision):
            log, seq = entry.key.split(".")[-2:]
            if log == self.position.log and int(seq) > self.position.seq:
                self.position = replace(self.position, seq=int(seq))  # the process died before that was stored
            self._hold(entry.key, decode_envelope(entry.value))

    async def take(self, log: str, envelopes: Sequence[tuple[int, CommandEnvelope]]) -> None:
        """Durable when it returns; a command that is here already is ignored."""
        while len(self._held) >= MOST_HELD:
            self._room.clear()
            await self._room.wait()
        taken: list[tuple[str, CommandEnvelope]] = []
        try:
            for seq, envelope in envelopes:
                key = f"{self._name}.{log}.{seq}"
                if key not in self._held:
                    await self._table.put(key, _encode(envelope))
                    taken.append((key, envelope))
            await self.move(InboxPosition(log=log, seq=envelopes[-1][0]))
        finally:
            for key, envelope in taken:  # after the position is stored: else they might come and be executed again
                self._hold(key, envelope)

    async def move(self, position: InboxPosition) -> None:
        if position != self.position:
            await self._positions.put(self._name, _encode(position))
            self.position = position

    def _hold(self, key: str, envelope: CommandEnvelope) -> None:
        self._held.add(key)
        self._waiting.put_nowait((key, envelope))

    async def run(self, executor: CommandExecutor, done: Callable[[Result], Awaitable[None]]) -> None:
        """Execute them until cancelled."""
        slots = asyncio.Semaphore(AT_ONCE)
        tails: dict[str, asyncio.Task[None]] = {}

        async def execute_after(key: str, envelope: CommandEnvelope, before: asyncio.Task[None] | None) -> None:
            try:
                if before is not None:
                    await asyncio.wait({before})
                await self._execute(key, envelope, executor, done)
            finally:
                slots.release()

        def forget(session: str, task: asyncio.Task[None]) -> None:
            if tails.get(session) is task:
                del tails[session]

        async with asyncio.TaskGroup() as group:
            while True:
                await slots.acquire()
                key, envelope = await self._waiting.get()
                # Commands of a session follow each other; one without a session waits for none.
                session = getattr(envelope.command, "session", "") or envelope.id
                task = tails[session] = group.create_task(execute_after(key, envelope, tails.get(session)))
                task.add_done_callback(lambda task, session=session: forget(session, task))

    async def _execute(
        self, key: str, envelope: CommandEnvelope, executor: CommandExecutor, done: Callable[[Result], Awaitable[None]]
    ) -> None:
        result = await executor.result_of(envelope)
        while True:
            try:
                await done(result)
                await self._table.delete(key)
                break
            except BusClosed:
                return  # it is still in the table, and executed at the next start
            except BusError:
                await asyncio.sleep(AGAIN_S)
        self._held.discard(key)
        self._room.set()
