"""The base of connectors into terminals that only hooks tell of: each hook names its session and, by the process that
started it, its terminal. Which ones run is kept in a file, for a hub that comes after this one.

There is no way to wake an idle session: its hooks hand messages over. These only read along.
"""

import asyncio
import logging
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from ... import paths
from ...background_tasks import cancel_and_wait
from ...errors import UsageError
from ...mesh.harness_processes import starter_of
from ...mesh.push import HarnessSession, Rung, SessionObserver, Unreachable
from ...processes.ancestry import agent_ancestor
from ...processes.process_details import is_own
from ...processes.process_table import process_info
from ...safe_file_read import read_regular
from ...safe_file_write import replace_private_file
from ...sessions.attacher import Attacher
from .hooked_terminal import HookedTerminal, HookNote

LOOK_S = 1.0
"""How often it is looked whether terminals still run, and whether they may be read."""
MAX_FILE = 1024 * 1024
MAX_SESSIONS = 200
MAX_READING = 2
"""Records of which a part is in memory at once."""
MAX_WAITING = 100
"""Hooks of a session that is not attached yet."""
SWITCHED_OFF = "Tieline may not read along any more"

log = logging.getLogger("tieline.mesh")


class TerminalSession(Struct, frozen=True):
    """A session in a terminal, as its hooks told."""

    session: str
    process: int  # 0: unknown
    start: int
    cwd: str
    record: str
    """The path of its record."""
    seen_at: float

    @property
    def runs(self) -> bool:
        if not self.process:
            return True  # a hook reports the end of the session
        info = process_info(self.process)
        return info is not None and not info.over and info.start == self.start


class HookConnector:
    """`on_hook` works inside `open`. A subclass says where its records are and what they say of themselves."""

    harness: ClassVar[str]
    terminal: ClassVar[type[HookedTerminal[Any]]]
    start_event: ClassVar[str] = "SessionStart"
    end_event: ClassVar[str] = "SessionEnd"
    looks: ClassVar[bool] = False
    """Whether records are looked at again and again, since not all turns begin with a hook."""
    terminals_only: ClassVar[bool] = False
    """Whether the same hooks fire where there is no terminal, in a server or an editor: such sessions are not read."""
    adopt_refusal: ClassVar[str] = ""
    """Why Tieline cannot go on with a conversation of its terminals. Empty: it can."""
    rungs: frozenset[Rung] = frozenset()
    in_memory: frozenset[Rung] = frozenset()
    attacher: Attacher | None = None

    def __init__(self, env: Mapping[str, str]) -> None:
        self._file = paths.state(env) / f"{self.harness}-terminals.json"
        self._sessions: dict[str, TerminalSession] = {}
        self._kept: dict[str, TerminalSession] = {}  # as the file has them
        self._ended: set[str] = set()
        self._terminals: dict[str, HookedTerminal[Any]] = {}  # of sessions that we read along
        self._began: dict[str, float] = {}  # session → when its conversation began
        self._waiting: dict[str, list[HookNote]] = {}  # hooks of sessions that are not attached yet
        self._reading = asyncio.Semaphore(MAX_READING)
        self._looked = False
        self._changed = asyncio.Event()

    # --- what a subclass says ----------------------------------------------------------------------------------

    def _record(self, session: str, input: Mapping[str, Any]) -> Path | None:
        """The record of the session that a hook tells of. None: it names none."""
        raise NotImplementedError

    def _is_record(self, path: str) -> bool:
        """Whether the harness would keep one there. The hook may be anybody's: no other file is read."""
        raise NotImplementedError

    def _head(self, path: Path) -> tuple[str, float]:
        """The session that a record is of, and when it began. Empty and 0: it does not say so yet."""
        raise NotImplementedError

    # --- its life --------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def open(self, observer: SessionObserver) -> AsyncGenerator[None, None]:
        kept = await asyncio.to_thread(self._load)
        self._sessions = {**kept, **self._sessions}
        if self.attacher is not None and self.adopt_refusal:
            self.attacher.on_adopt(self.harness, self._refuse_adopt)
        task = asyncio.create_task(self._watch(observer), name=f"{self.harness}-connector")
        try:
            yield
        finally:
            await cancel_and_wait(task)
            for terminal in self._terminals.values():
                await terminal.stop()
            self._terminals.clear()

    async def _refuse_adopt(self, session: str) -> None:
        hint = f"Go on with it at its terminal: `{self.harness} --resume {session}`."
        raise UsageError(self.adopt_refusal, field="session", hint=hint)

    async def taken(self, session: HarnessSession, ids: set[str]) -> set[str]:
        return set()  # its history cannot be asked

    async def push(self, session: HarnessSession, text: str, sender: str) -> None:
        raise Unreachable(self.terminal.how)

    @property
    def known(self) -> dict[str, int]:
        """The sessions that run, each with its process."""
        return {id: known.process for id, known in self._sessions.items()}

    # --- what hooks tell -----------------------------------------------------------------------------------

    def on_hook(self, session: str, event: str, input: Mapping[str, Any], pid: int) -> None:
        if event == self.end_event:
            if session in self._sessions:
                self._ended.add(session)
                self._changed.set()
            return
        known = self._sessions.get(session)
        if known is None or event == self.start_event:
            known = self._find_terminal(session, input, pid)
            if known is None or len(self._sessions) >= MAX_SESSIONS:
                return
            self._sessions[session] = known
            self._ended.discard(session)
            self._changed.set()
        note = HookNote(event, input)
        if terminal := self._terminals.get(session):
            terminal.on_hook(note)
        elif len(waiting := self._waiting.setdefault(session, [])) < MAX_WAITING:
            waiting.append(note)

    def _find_terminal(self, session: str, input: Mapping[str, Any], pid: int) -> TerminalSession | None:
        """None: it is an agent's, or its record is nowhere where its harness would put it."""
        record, cwd = self._record(session, input), input.get("cwd")
        if record is None or not isinstance(cwd, str) or not self._is_record(str(record)):
            return None
        process = starter_of(pid) if pid else 0
        info = process_info(process) if process else None
        if process and agent_ancestor(process) is not None:
            return None
        if self.terminals_only and process and sys.platform == "linux":
            if info is None or not info.terminal or not is_own(process):
                return None
        return TerminalSession(session, process, info.start if info else 0, cwd, str(record), time.time())

    # --- sessions ------------------------------------------------------------------------------------------

    async def _watch(self, observer: SessionObserver) -> None:
        while True:
            self._changed.clear()
            try:
                await self._look(observer)
            except Exception:
                log.exception("the sessions of %s could not be looked at", self.harness)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S if self._sessions else None):
                    await self._changed.wait()

    async def _look(self, observer: SessionObserver) -> None:
        newest = {known.process: id for id, known in self._sessions.items() if known.process}
        over = [
            id
            for id, known in self._sessions.items()
            if id in self._ended or not known.runs or newest.get(known.process, id) != id
        ]
        for id in over:
            known = self._sessions.pop(id)
            self._ended.discard(id)
            self._waiting.pop(id, None)
            self._began.pop(id, None)
            if terminal := self._terminals.pop(id, None):
                await terminal.ended()
            await observer.ended(HarnessSession(harness=self.harness, session=id, cwd=known.cwd))
        if attacher := self.attacher:
            for known in list(self._sessions.values()):
                await self._attach(attacher, known)
            if not self._looked:
                self._looked = True
                await attacher.only(self.harness, self._terminals.keys())
        if self.looks:
            for terminal in self._terminals.values():
                terminal.look_again()
        if self._kept != self._sessions:
            self._kept = dict(self._sessions)
            await asyncio.to_thread(self._keep, self._kept)

    async def _attach(self, attacher: Attacher, known: TerminalSession) -> None:
        id, terminal = known.session, self._terminals.get(known.session)
        if terminal is not None and terminal.process != known.process:  # resumed in another terminal
            await self._terminals.pop(id).stop()
            terminal = None
        if terminal is not None:
            if not attacher.allowed(self.harness, known.cwd, self._began[id]):
                await self._terminals.pop(id).let_go(SWITCHED_OFF)
            return
        may = await self._may_read(attacher, known)
        if may is False:
            self._waiting.pop(id, None)
        if not may:
            return
        since = partial(self._read_since, attacher, known, self._began[id])
        terminal = self.terminal(known.process, id, known.cwd, Path(known.record), since=since, reading=self._reading)
        attached = await attacher.attach(self.harness, id, cwd=known.cwd, terminal=terminal)
        for note in self._waiting.pop(id, ()):
            terminal.on_hook(note)
        terminal.follow(attached)
        self._terminals[id] = terminal

    async def _may_read(self, attacher: Attacher, known: TerminalSession) -> bool | None:
        """None: its record does not say yet when it began."""
        id = known.session
        if not attacher.allowed(self.harness, known.cwd, time.time()):
            return False
        if id not in self._began:
            owner, began = await asyncio.to_thread(self._head, Path(known.record))
            if owner not in ("", id):
                return False  # the record of another session
            if not owner:
                if known.seen_at < time.time() - LOOK_S:  # it is written with the session's start
                    return None
                began = known.seen_at
            self._began[id] = began
        return attacher.allowed(self.harness, known.cwd, self._began[id])

    def _read_since(self, attacher: Attacher, known: TerminalSession, began: float) -> float | None:
        return attacher.on_since(known.cwd) if attacher.allowed(self.harness, known.cwd, began) else None

    def _load(self) -> dict[str, TerminalSession]:
        try:
            kept = msgspec.json.decode(read_regular(self._file, MAX_FILE), type=dict[str, TerminalSession])
        except (OSError, msgspec.MsgspecError):
            return {}
        return {id: known for id, known in kept.items() if known.process and self._is_record(known.record)}

    def _keep(self, sessions: dict[str, TerminalSession]) -> None:
        with suppress(OSError):
            replace_private_file(self._file, msgspec.json.encode(sessions))
