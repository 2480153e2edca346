"""The base of connectors whose terminals each have a session file (see `session_file_connector`) and a transcript in
the folder of their project, which is read along with the person's consent."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from ...mesh.push import SessionObserver
from ...sessions.attacher import Attacher
from .session_file_connector import File, SessionFileConnector
from .transcript_file import began_at, transcript_path

MAX_READING = 2
"""Transcripts of which a part is in memory at once."""
SWITCHED_OFF = "Tieline may not read along any more"

Since = Callable[[], float | None]
"""Turns that began before that time are not read; None: nothing may be read now."""


class ReadTerminal(Protocol):
    """A terminal that we read along."""

    @property
    def process(self) -> int: ...

    async def stop(self) -> None:
        """We stop reading; the terminal may go on."""
        ...

    async def ended(self) -> None:
        """The terminal is gone."""
        ...

    async def let_go(self, reason: str) -> None:
        """Read nothing more, though the terminal is there."""
        ...


Terminal = TypeVar("Terminal", bound=ReadTerminal)


class TranscriptConnector(SessionFileConnector[File], Generic[File, Terminal]):
    transcripts: ClassVar[str] = ""
    """The folder with the transcripts, in that of a project."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._projects = self._home / "projects"
        self._terminals: dict[str, Terminal] = {}  # of sessions that we read along
        self._began: dict[tuple[str, int], float] = {}  # session and process → when its conversation began
        self._reading = asyncio.Semaphore(MAX_READING)
        self._looked = False

    def open(self, observer: SessionObserver) -> AbstractAsyncContextManager[None]:
        return self._read_along(observer)

    @asynccontextmanager
    async def _read_along(self, observer: SessionObserver) -> AsyncGenerator[None, None]:
        try:
            async with self._observed(observer):
                yield
        finally:
            for terminal in self._terminals.values():
                await terminal.stop()
            self._terminals.clear()

    # --- what a subclass says ---

    def _readable(self, file: File) -> bool:
        """Whether a person sits before it."""
        return True

    async def _attach(self, attacher: Attacher, file: File, path: Path, since: Since) -> Terminal:
        """Attach the session, and follow its transcript."""
        raise NotImplementedError

    async def _look_at(self, terminal: Terminal, file: File) -> None:
        """The file was read again."""
        raise NotImplementedError

    # --- sessions that we read along ---

    async def _after_look(self) -> None:
        attacher = self.attacher
        if attacher is None:
            return
        for id in self._terminals.keys() - self._files.keys():
            await self._terminals.pop(id).ended()
        for id, file in self._files.items():
            terminal = self._terminals.get(id)
            if terminal is not None and terminal.process != file.pid:  # resumed in another terminal
                await self._terminals.pop(id).stop()
                terminal = None
            if terminal is None:
                if await self._may_read(attacher, file):
                    began = self._began[id, file.pid]
                    since = partial(self._read_since, attacher, file, began)
                    self._terminals[id] = await self._attach(attacher, file, await self._transcript(file), since)
            elif not attacher.allowed(self.harness, file.cwd, self._began[id, file.pid]):
                await self._terminals.pop(id).let_go(SWITCHED_OFF)
            else:
                await self._look_at(terminal, file)
        running = {(file.session_id, file.pid) for file in self._files.values()}
        self._began = {known: began for known, began in self._began.items() if known in running}
        if not self._looked:
            self._looked = True
            await attacher.only(self.harness, self._terminals.keys())

    async def _may_read(self, attacher: Attacher, file: File) -> bool:
        """A conversation may have begun before its process (it is resumed) or after it (it was cleared): its first line
        counts, where it has one, and that is looked at only if it matters."""
        key = (file.session_id, file.pid)
        if not self._readable(file) or not is_plain(file.session_id):
            return False
        if not attacher.allowed(self.harness, file.cwd, time.time()):
            return False
        if key not in self._began:
            if began := await asyncio.to_thread(began_at, await self._transcript(file)):
                self._began[key] = began
            elif attacher.allowed(self.harness, file.cwd, file.started_at / 1000):
                self._began[key] = file.started_at / 1000
        return key in self._began and attacher.allowed(self.harness, file.cwd, self._began[key])

    async def _transcript(self, file: File) -> Path:
        """Where it is, or will be."""
        return await asyncio.to_thread(transcript_path, self._projects, file.cwd, file.session_id, self.transcripts)

    def _read_since(self, attacher: Attacher, file: File, began: float) -> float | None:
        return attacher.on_since(file.cwd) if attacher.allowed(self.harness, file.cwd, began) else None


def is_plain(session: str) -> bool:
    """Whether it can be part of a file's name."""
    return session.replace("-", "").isalnum()
