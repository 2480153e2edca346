"""Marks turns of a session as read at the hub once a person has seen them here, so that no other device calls them
unread."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from ..errors import TielineError
from ..protocol.request_bodies import MarkChange
from ..protocol.stream_frames import AnyHubFrame, MarkFrame, Ready, SessionFrame
from ..protocol.views import SessionMark
from ..sessions.records import SessionRecord
from .sessions import SessionsApi

COUNTED_S = 2.0
"""The hub counts a turn a moment after its end is told; nobody waits longer for that."""


class ReadTurns:
    """`on_frame` takes every frame of the stream that shows the session."""

    def __init__(self, client: SessionsApi, session: str) -> None:
        self._client = client
        self._session = session
        self._turns = 0  # that the hub has counted
        self._seen = 0
        self._before: int | None = None  # turns before the one that is shown
        self._counted = asyncio.Event()

    def on_frame(self, frame: AnyHubFrame) -> None:
        match frame:
            case Ready(snapshot=now):
                self._count_turns(now.sessions)
                self._note_seen(now.marks)
            case SessionFrame(session=session):
                self._count_turns((session,))
            case MarkFrame(mark=mark):
                self._note_seen((mark,))
            case _:
                pass

    def turn_started(self) -> None:
        """The turn that begins now is shown here from its beginning."""
        self._before = self._turns

    @property
    def counted(self) -> bool:
        """Whether the hub has counted the turn that was shown."""
        return self._counted.is_set()

    async def mark_all(self) -> None:
        """Everything up to now was shown."""
        await self._mark()

    async def mark_turn(self) -> None:
        """The turn that was shown, when it is counted; not together with others that nobody has read."""
        if self._before is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(COUNTED_S):
                await self._counted.wait()
                if self._seen >= self._before:
                    await self._mark()

    async def _mark(self) -> None:
        if self._turns > self._seen:
            with suppress(TielineError):  # the session was removed, or the hub is away: it stays unread
                self._note_seen((await self._client.mark_session(self._session, MarkChange(seen_turns=self._turns)),))

    def _count_turns(self, records: Iterable[SessionRecord]) -> None:
        self._turns = next((record.turns for record in records if record.id == self._session), self._turns)
        if self._before is not None and self._turns > self._before:
            self._counted.set()

    def _note_seen(self, marks: Iterable[SessionMark]) -> None:
        self._seen = next((mark.seen_turns for mark in marks if mark.id == self._session), self._seen)
