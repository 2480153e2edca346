"""The session's log: every event is a record first, then everyone reads the log after their cursor.

Live and replay are the same stream. Deltas are ephemeral: they reach those who listen right now, and the whole item
that follows is in the log. A listener who is too slow loses deltas, never items.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import count

from msgspec import Struct

from ..background_tasks import cancel_and_wait
from ..bus.base import MAX_RECORD, Announcement, Bus, Record
from ..events import AnyEvent, Event, TextDelta, ThinkingDelta, ToolOutput, decode, encode

EPHEMERAL = (TextDelta, ThinkingDelta, ToolOutput)
MAX_UNREAD_DELTAS = 1000
"""Deltas kept for one slow listener; the oldest go first."""
PART = "Part"
"""The header of a record that holds a part of an event: its number and how many there are."""
MAX_INCOMPLETE = 1000
"""Events of which some parts are still missing, at most; the oldest are given up."""
MAX_IN_FLIGHT = 64
"""Events of one turn that may be on their way to the disk at once."""


class LogEntry(Struct, frozen=True):
    """An event and its place in the log; deltas have none."""

    event: AnyEvent
    seq: int = 0
    at: float = 0.0


AT = "At"
"""The header that says when it happened, where that is not when it was written down: a node's event, at its hub."""


def subject(session: str) -> str:
    return f"events.{session}"


def happened_at(record: Record) -> float:
    return float(record.headers.get(AT, record.at))


async def last_before(bus: Bus, moment: float, upto: int | None = None) -> int:
    """The last event in front of which all are from before that time; 0 for none. One that comes from the future was
    written while the clock was wrong: it keeps nothing, or nothing after it would ever be too old."""
    last, now = 0, time.time()
    async with aclosing(bus.read("events.>", follow=False)) as records:
        async for record in records:
            if moment <= record.at <= now or (upto is not None and record.seq > upto):
                break
            if record.at < moment:
                last = record.seq
    return last


def deltas_subject(session: str) -> str:
    return f"deltas.{session}"


class EventLog:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def append(self, session: str, event: Event, *, id: str | None = None) -> int:
        """Durable when it returns. The same id twice in a session is one record. What is too large for one record is
        several, in order."""
        data = encode(event)
        if id:
            id = f"{session}.{id}"  # the bus knows ids by the family of subjects: all sessions share one
        if len(data) <= MAX_RECORD:
            return await self._bus.publish(subject(session), data, id=id)
        last = -(-len(data) // MAX_RECORD)
        seq = 0
        for part in range(last):
            piece = data[part * MAX_RECORD : (part + 1) * MAX_RECORD]
            own = f"{id}.{part}" if id else None
            seq = await self._bus.publish(subject(session), piece, id=own, headers={PART: f"{part + 1}/{last}"})
        return seq

    def append_nowait(self, session: str, event: Event) -> "asyncio.Future[int] | None":
        """Under way when it returns; None if it takes more than one record. Without an id: nobody writes it a second
        time, and to look for the first would cost as much as to write it."""
        data = encode(event)
        return self._bus.publish_nowait(subject(session), data) if len(data) <= MAX_RECORD else None

    async def announce(self, session: str, event: Event) -> None:
        """A delta, for those who listen now, in whichever process. One that is too large for it is not said."""
        data = encode(event)
        if len(data) <= MAX_RECORD:
            await self._bus.announce(deltas_subject(session), data)

    def writer(self, session: str) -> "LogWriter":
        return LogWriter(self, session)

    async def read(
        self, session: str, *, after: int = 0, follow: bool = True, deltas: bool = False
    ) -> AsyncGenerator[LogEntry, None]:
        """The session's events after a cursor, then as they happen."""
        if not (follow and deltas):
            async for entry in _entries(self._bus, session, after=after, follow=follow):
                yield entry
            return
        joint = _Joint()
        entries = _entries(self._bus, session, after=after, follow=True)
        pumps = {
            asyncio.create_task(joint.pump_deltas(self._bus.listen(deltas_subject(session)))),
            asyncio.create_task(joint.pump_entries(entries)),
        }
        try:
            async with aclosing(joint.entries(pumps)) as joined:
                async for entry in joined:
                    yield entry
        finally:
            await cancel_and_wait(*pumps)


class LogWriter:
    """Writes one turn: in order, many at once on their way, all of them down when `close` returns."""

    def __init__(self, log: EventLog, session: str) -> None:
        self._log = log
        self._session = session
        self._last = 0
        self._flying: deque[asyncio.Future[int]] = deque()

    async def write(self, event: Event) -> None:
        if isinstance(event, EPHEMERAL):
            await self._log.announce(self._session, event)
            return
        while len(self._flying) >= MAX_IN_FLIGHT:
            self._last = await self._flying.popleft()
        if flying := self._log.append_nowait(self._session, event):
            self._flying.append(flying)
        else:  # nothing may come between its records
            await self.close()
            self._last = await self._log.append(self._session, event)

    async def close(self) -> int:
        """Everything is down when it returns, with the last one's place in the log. Raises what the bus raised."""
        problem: BaseException | None = None
        while self._flying:
            try:
                self._last = await self._flying.popleft()
            except Exception as error:
                problem = problem or error
        if problem is not None:
            raise problem
        return self._last


class _Joint:
    """Joins what comes from the log with what is said live, in the order in which it came."""

    def __init__(self) -> None:
        self._tickets = count()
        self._durable: deque[tuple[int, LogEntry]] = deque()
        self._deltas: deque[tuple[int, LogEntry]] = deque(maxlen=MAX_UNREAD_DELTAS)
        self._changed = asyncio.Event()
        self._room = asyncio.Event()

    async def pump_deltas(self, announcements: AsyncGenerator[Announcement, None]) -> None:
        async with aclosing(announcements):
            async for announcement in announcements:
                self._deltas.append((next(self._tickets), LogEntry(decode(announcement.data))))
                self._changed.set()

    async def pump_entries(self, entries: AsyncGenerator[LogEntry, None]) -> None:
        async with aclosing(entries):
            async for entry in entries:
                self._durable.append((next(self._tickets), entry))
                self._changed.set()
                if len(self._durable) >= MAX_IN_FLIGHT:  # the log waits better than we do
                    self._room.clear()
                    await self._room.wait()

    async def entries(self, pumps: "set[asyncio.Task[None]]") -> AsyncGenerator[LogEntry, None]:
        while True:
            if self._durable and not (self._deltas and self._deltas[0][0] < self._durable[0][0]):
                entry = self._durable.popleft()[1]
                self._room.set()
                yield entry
            elif self._deltas:
                yield self._deltas.popleft()[1]
            elif ended := [pump for pump in pumps if pump.done()]:
                await ended[0]  # its failure is the reader's
                return
            else:
                self._changed.clear()
                waiter = asyncio.create_task(self._changed.wait())
                try:
                    await asyncio.wait({waiter, *pumps}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waiter.cancel()


async def _entries(bus: Bus, session: str, *, after: int, follow: bool) -> AsyncGenerator[LogEntry, None]:
    """Records as events. An event whose last part was never written (a crash) is left out."""
    assembler = EventAssembler(bus)
    async with aclosing(bus.read(subject(session), after=after, follow=follow)) as records:
        async for record in records:
            if (event := await assembler.join(record)) is not None:
                yield LogEntry(decode(event.data), event.seq, event.at)


class LogEvent(Struct, frozen=True, gc=False):
    """An event of the log, put together if it came in parts. Its place is the last part's."""

    seq: int
    session: str
    at: float
    data: bytes


class EventAssembler:
    """Joins the parts of events; parts of several sessions may be interleaved."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._incomplete: dict[str, list[bytes]] = {}

    async def join(self, record: Record) -> LogEvent | None:
        """The event that a record completes, if it does."""
        session = record.subject.partition(".")[2]
        part = record.headers.get(PART)
        if part is None:
            self._incomplete.pop(session, None)  # its last part was never written: a crash
            return LogEvent(record.seq, session, happened_at(record), record.data)
        number, last = _part_number(part)
        parts = self._incomplete.pop(session, [])
        if number == 1:
            parts = []
        elif len(parts) != number - 1:  # the reader's cursor was in the middle of it
            parts = await self._read_earlier_parts(session, record.seq, number)
        if len(parts) != number - 1:
            return None
        parts.append(record.data)
        if number == last:
            return LogEvent(record.seq, session, happened_at(record), b"".join(parts))
        while len(self._incomplete) >= MAX_INCOMPLETE:
            del self._incomplete[next(iter(self._incomplete))]
        self._incomplete[session] = parts
        return None

    async def _read_earlier_parts(self, session: str, before: int, number: int) -> list[bytes]:
        parts: list[bytes] = []
        async with aclosing(self._bus.read(subject(session), follow=False)) as records:
            async for record in records:
                if record.seq >= before:
                    break
                part = _part_number(record.headers.get(PART, ""))[0]
                if part == 1:
                    parts = []
                parts = [*parts, record.data] if part == len(parts) + 1 else []
        return parts if len(parts) == number - 1 else []


def _part_number(part: str) -> tuple[int, int]:
    number, _, last = part.partition("/")
    return (int(number), int(last)) if number.isdigit() and last.isdigit() else (0, 0)
