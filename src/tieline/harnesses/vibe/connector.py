"""Mistral Vibe's terminals, read along: each has a lease for its session, a file that names its process, from the
session's start to its end. Its hooks tell less, and later."""

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ...background_tasks import cancel_and_wait
from ...file_watcher import watch
from ...mesh.push import SessionObserver
from ...processes.ancestry import agent_ancestor
from ...processes.process_details import arguments_of, directory_of, is_own
from ...processes.process_table import ProcessInfo, process_info
from ...safe_file_read import read_inside
from ..terminals.acp_transcript import parse_time
from ..terminals.hook_connector import MAX_SESSIONS, HookConnector, TerminalSession
from .record import read_meta
from .terminal import VibeTerminal

LEASE = ".lock.json"
SETTLED_S = 3.0
"""A terminal may open a session and leave it at once: one that was never prompted counts after so long."""
SESSION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Other leases are of no session."""
MAX_LEASE = 64 * 1024
MAX_LEASES = 1000
ABSENT_S = 30.0
"""How often Vibe is looked for where it was never used."""
PROGRAM = "vibe-app-server"
"""What the process of a terminal is called that has the session. Its parent draws the terminal."""
HEADLESS = re.compile(r"-p|--prompt(-file)?(=.*)?", re.DOTALL).fullmatch
"""With these options nobody sits before it."""
RESUMES = re.compile(r"-c|--continue|--resume(=.*)?", re.DOTALL).fullmatch
"""With these a terminal opens a session that nobody prompts, before the one that it resumes. That may take long."""


class _Lease(Struct, frozen=True):
    session_id: str
    process_id: int
    acquired_at: str = ""

    @property
    def began_at(self) -> float:
        return parse_time(self.acquired_at)


class VibeConnector(HookConnector):
    harness = "vibe"
    terminal = VibeTerminal
    looks = True
    adopt_refusal = (
        "a session of Vibe's terminal cannot be taken over: Tieline runs Vibe without subagents, whose profiles lift "
        "what is asked, and Vibe opens no session without them that had them"
    )

    def __init__(self, env: Mapping[str, str]) -> None:
        self._home = Path(env.get("VIBE_HOME") or Path(env.get("HOME", "/")) / ".vibe")
        self._logs = self._home / "logs/session"
        self._records = self._logs / "unified"
        self._agents: dict[tuple[int, int], bool] = {}  # process → whether it descends from an agent
        self._prompted: dict[tuple[int, int], bool] = {}  # processes that have had a session that was prompted
        super().__init__(env)

    def _is_record(self, path: str) -> bool:
        return Path(os.path.realpath(path)).parent == Path(os.path.realpath(self._records))

    def _head(self, path: Path) -> tuple[str, float]:
        """A session that was never prompted has no record yet: it began with its lease."""
        if meta := read_meta(path):
            owner, began = meta.session_id, parse_time(meta.start_time)
        elif lease := self._lease(f"{path.name}{LEASE}"):
            owner, began = lease.session_id, lease.began_at
        else:
            owner, began = "", 0.0
        return owner, began if isfinite(began) else 0.0

    def on_hook(self, session: str, event: str, input: Mapping[str, Any], pid: int) -> None:
        """The record tells all that the hooks tell."""
        self._changed.set()

    @asynccontextmanager
    async def open(self, observer: SessionObserver) -> AsyncGenerator[None, None]:
        async with super().open(observer):
            watching = asyncio.create_task(self._watch_leases(), name="vibe-leases")
            try:
                yield
            finally:
                await cancel_and_wait(watching)

    async def _watch_leases(self) -> None:
        while not self._home.is_dir():  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(ABSENT_S)
        async for _ in watch(
            lambda: [self._logs / "active/none", *(self._logs / "active" / name for name in self._names())]
        ):
            self._changed.set()
            asyncio.get_running_loop().call_later(SETTLED_S, self._changed.set)

    async def _look(self, observer: SessionObserver) -> None:
        sessions = await asyncio.to_thread(self._find_sessions)
        self._ended |= self._sessions.keys() - sessions.keys()
        for id, session in sessions.items():
            known = self._sessions.get(id)
            if known is None or (known.process, known.cwd) != (session.process, session.cwd):
                self._sessions[id] = session
        await super()._look(observer)

    def _find_sessions(self) -> dict[str, TerminalSession]:
        """The sessions that people have opened in terminals, one per process. A process may have more leases than that
        of its terminal's session: of subagents, and for a moment of sessions that it tidies up. These begin later."""
        leases = [lease for name in self._names() if (lease := self._lease(name))]
        by_process: dict[int, TerminalSession] = {}
        for lease in sorted(leases, key=lambda lease: (lease.session_id not in self._sessions, lease.began_at)):
            if lease.process_id not in by_process and (session := self._session(lease)):
                by_process[lease.process_id] = session
        return {session.session: session for session in list(by_process.values())[-MAX_SESSIONS:]}

    def _session(self, lease: _Lease) -> TerminalSession | None:
        record, info = self._records / lease.session_id, process_info(lease.process_id)
        if not self._is_record(str(record)) or (
            sys.platform == "linux" and not self._is_persons(lease.process_id, info)
        ):
            return None
        meta = read_meta(record)
        if meta is not None and info is not None:
            self._prompted = _with(self._prompted, (lease.process_id, info.start), True)
        elif lease.session_id not in self._sessions and self._may_leave(lease, info):
            return None
        cwd = meta.cwd if meta else directory_of(lease.process_id)
        if not cwd or (meta and meta.parent_session_id):  # it cannot be told, or it is a subagent's
            return None
        process, start = (lease.process_id, info.start) if info else (0, 0)
        return TerminalSession(lease.session_id, process, start, cwd, str(record), time.time())

    def _may_leave(self, lease: _Lease, info: ProcessInfo | None) -> bool:
        """Whether its terminal may leave a session at once that was never prompted."""
        if time.time() - lease.began_at < SETTLED_S:
            return True
        if info is None or (lease.process_id, info.start) in self._prompted:
            return False
        return any(map(RESUMES, arguments_of(info.parent)))

    def _is_persons(self, pid: int, info: ProcessInfo | None) -> bool:
        """A lease stays where it is when its process is killed, and may be anybody's."""
        if info is None or info.over or info.name != PROGRAM or not info.terminal or not is_own(pid):
            return False
        return not any(map(HEADLESS, arguments_of(info.parent))) and not self._is_agents(pid, info.start)

    def _is_agents(self, pid: int, start: int) -> bool:
        if (known := self._agents.get((pid, start))) is None:
            known = agent_ancestor(pid) is not None
            self._agents = _with(self._agents, (pid, start), known)
        return known

    def _names(self) -> list[str]:
        try:
            with os.scandir(self._logs / "active") as entries:
                return [entry.name for entry in islice(entries, MAX_LEASES) if entry.name.endswith(LEASE)]
        except OSError:
            return []

    def _lease(self, name: str) -> _Lease | None:
        try:
            lease = msgspec.json.decode(read_inside(str(self._logs / "active"), name, MAX_LEASE), type=_Lease)
        except (OSError, msgspec.MsgspecError):  # it is being written, or is none
            return None
        return lease if name == f"{lease.session_id}{LEASE}" and SESSION.fullmatch(lease.session_id) else None


def _with(known: dict[tuple[int, int], bool], process: tuple[int, int], value: bool) -> dict[tuple[int, int], bool]:
    """What is known of the latest processes, and of this one."""
    latest = ((key, each) for key, each in islice(reversed(known.items()), MAX_SESSIONS) if key != process)
    return {**dict(latest), process: value}
