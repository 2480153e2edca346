"""The base of terminals whose transcript is followed: it is read in parts, of which few are in memory at once."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from ...background_tasks import cancel_and_wait
from ...events import Event
from ...sessions.attached_session import AttachedSession
from ...sessions.records import Remote
from .transcript_file import TranscriptCursor, TranscriptFile, TranscriptLine


class LineEvents(Protocol):
    """Makes events of a transcript's lines."""

    since: float

    def feed(self, line: TranscriptLine) -> list[tuple[Event, str]]:
        """The events, each with the cursor from which a reader can go on when it is written, or none."""
        ...


class Quiet:
    """For how long nothing happens in a terminal, as it was seen. Between two looks the machine may have stood still,
    and the terminal with it: that counts as one look only."""

    def __init__(self, look_s: float) -> None:
        """`look_s` is how often it is looked at."""
        self.seconds = 0.0
        self._look_s = look_s
        self._looked_at = time.monotonic()

    def look(self, *, quiet: bool) -> None:
        now = time.monotonic()
        self.seconds = self.seconds + min(now - self._looked_at, self._look_s) if quiet else 0.0
        self._looked_at = now

    def end(self) -> None:
        """Something has happened."""
        self.seconds = 0.0


Events = TypeVar("Events", bound=LineEvents)


class TranscriptTerminal(Generic[Events]):
    """A subclass says what its transcript is, and follows it."""

    remote: tuple[Remote, ...] = ()

    def __init__(
        self,
        process: int,
        session: str,
        cwd: str,
        path: Path,
        *,
        since: Callable[[], float | None],
        reading: asyncio.Semaphore,
    ) -> None:
        """`since`: turns that began before that time are not read; None: nothing may be read now. `reading` is held for
        each part of a transcript: of many long histories only few are in memory at once."""
        self.process = process
        self._session = session
        self._cwd = cwd
        self._path = path
        self._since = since
        self._reading = reading
        self._attached: AttachedSession | None = None
        self._events = self._new_events(TranscriptCursor())
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._set_up()

    # --- what a subclass says --------------------------------------------------------------------------------

    def _set_up(self) -> None:
        """What it holds of its own."""

    def _new_events(self, cursor: TranscriptCursor) -> Events:
        raise NotImplementedError

    def _new_file(self, cursor: TranscriptCursor) -> TranscriptFile:
        raise NotImplementedError

    async def _tell_line(self, attached: AttachedSession, line: TranscriptLine) -> None:
        for event, after in self._events.feed(line):
            attached.tell(event, after)

    # --- its life ------------------------------------------------------------------------------------------

    @property
    def transcript(self) -> Path:
        return self._path

    async def stop(self) -> None:
        """We stop reading; the terminal may go on."""
        if self._following is not None:
            await cancel_and_wait(self._following)

    async def let_go(self, reason: str) -> None:
        """Read nothing more, though the terminal is there."""
        await self.stop()
        if self._attached is not None:
            await self._attached.detach(reason)

    async def _read(self, attached: AttachedSession, file: TranscriptFile) -> bool:
        """Tell what was added; whether anything was."""
        more, grew = True, False
        while more:
            async with self._reading:
                added, more = await self._read_part(attached, file)
            grew = grew or added
        return grew

    async def _read_part(self, attached: AttachedSession, file: TranscriptFile) -> tuple[bool, bool]:
        """Whether anything was added, and whether there is more. What is read is in memory until this returns: not
        while the next part waits for its turn among those of other sessions."""
        if (since := self._since()) is None:  # it is let go of in a moment
            return False, False
        self._events.since = since
        lines, more = await asyncio.to_thread(file.read)
        for line in lines:
            await self._tell_line(attached, line)
        if more:
            await attached.flush()
        return bool(lines), more
