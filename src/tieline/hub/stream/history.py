"""Pages of a session's log: onward from a cursor, or the newest before one.

The bus reads forward only. The newest are found by looking back a little, then further, until there are enough: what is
read is at most a few times what is shown, however long the log is.
"""

from collections import deque
from contextlib import aclosing

from msgspec import Struct

from ...bus.base import Bus
from ...sessions.event_log import EventAssembler, subject
from .encoded_frames import EncodedFrame, encode_event

MAX_PAGE = 8 * 1024 * 1024
"""Bytes of a page; one event that is larger comes alone."""
FIRST_LOOK = 4
FURTHER = 4
"""How far back the first look goes, in pages, and how much further each one after it."""


class LogPage(Struct, frozen=True, kw_only=True):
    """Events, oldest first. `first` and `last` are the log's own ends; `more`: there are further ones that way."""

    events: tuple[EncodedFrame, ...]
    first: int
    last: int
    more: bool

    def json(self) -> bytes:
        events = b",".join(frame.data for frame in self.events)
        more = b"true" if self.more else b"false"
        return b'{"events":[%b],"first":%d,"last":%d,"more":%b}' % (events, self.first, self.last, more)


async def page_after(bus: Bus, session: str, *, after: int, before: int | None, limit: int) -> LogPage:
    """The next events after a cursor, up to another cursor."""
    first, last = await bus.first(subject(session)), await bus.last(subject(session))
    events: list[EncodedFrame] = []
    size, more = 0, False
    assembler = EventAssembler(bus)
    async with aclosing(bus.read(subject(session), after=after, follow=False)) as records:
        async for record in records:
            if before is not None and record.seq >= before:
                break
            whole = await assembler.join(record)
            made = None if whole is None else encode_event(whole)
            if made is None:
                continue
            if len(events) == limit or (events and size + made[0].size > MAX_PAGE):
                more = True
                break
            events.append(made[0])
            size += made[0].size
    return LogPage(events=tuple(events), first=first, last=last, more=more)


async def page_before(bus: Bus, session: str, *, before: int | None, limit: int) -> LogPage:
    """The last events before a cursor, or of the whole log."""
    first, last = await bus.first(subject(session)), await bus.last(subject(session))
    end = last + 1 if before is None else min(before, last + 1)
    back = limit * FIRST_LOOK
    while True:
        start = max(0, end - 1 - back)
        events, more = await _read_last(bus, session, start, end, limit)
        if more or start < max(first, 1):
            return LogPage(events=tuple(events), first=first, last=last, more=more)
        back *= FURTHER


async def _read_last(bus: Bus, session: str, start: int, end: int, limit: int) -> tuple[deque[EncodedFrame], bool]:
    """The last events between two cursors, and whether there are more than a page holds."""
    events: deque[EncodedFrame] = deque()
    size, more = 0, False
    assembler = EventAssembler(bus)
    async with aclosing(bus.read(subject(session), after=start, follow=False)) as records:
        async for record in records:
            if record.seq >= end:
                break
            whole = await assembler.join(record)
            made = None if whole is None else encode_event(whole)
            if made is None:
                continue
            events.append(made[0])
            size += made[0].size
            while len(events) > limit or (size > MAX_PAGE and len(events) > 1):
                size -= events.popleft().size
                more = True
    return events, more
