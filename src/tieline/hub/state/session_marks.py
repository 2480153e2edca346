"""How far the hub's person has read each session, and which ones are pinned: set here, told by the live state.

All devices of a hub are one person's. What is kept is bounded by the sessions: marks of removed ones go with the next
change.
"""

import msgspec

from ...bus.base import Bus
from ...errors import ConcurrentChange, Conflict
from ...protocol.request_bodies import MarkChange
from ...protocol.views import SessionMark
from ...sessions.records import SESSIONS, SessionRecord
from .live_state import MARKS, LiveState, decode_mark

TRIES = 10
"""A change is made again when another device made one meanwhile."""


class SessionMarks:
    def __init__(self, bus: Bus, state: LiveState) -> None:
        self._table = bus.table(MARKS)
        self._sessions = bus.table(SESSIONS)
        self._state = state

    async def change(self, session: SessionRecord, change: MarkChange) -> SessionMark:
        """What was read stays read, whichever device says so last; nobody has read what is still to come."""
        for _ in range(TRIES):
            entry = await self._table.get(session.id)
            before = decode_mark(entry.value) if entry else SessionMark(id=session.id)
            seen = max(before.seen_turns, min(change.seen_turns or 0, session.turns))
            pinned = before.pinned if change.pinned is None else change.pinned
            mark = SessionMark(id=session.id, seen_turns=seen, pinned=pinned)
            if mark == before:
                return before
            try:
                await self._table.put(session.id, msgspec.json.encode(mark), expect=entry.revision if entry else 0)
            except Conflict:
                continue
            await self._forget_removed()
            return mark
        raise ConcurrentChange("mark")

    async def _forget_removed(self) -> None:
        for id in self._state.marks.keys() - self._state.sessions.keys():
            if await self._sessions.get(id) is None:  # another hub may know of a session before we do
                await self._table.delete(id)
