"""The live way into Claude Code's terminals: each has a file that tells its session and what it is doing, and a socket
that takes a message of a peer as a new turn.

Only an idle session is woken over the socket. What is written there during a turn waits in the memory of Claude Code
until the running tool is over, and is lost with it; the hooks hand it over when the model is asked next.
"""

import asyncio
import logging
import os
import sys
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ..background_tasks import cancel_and_wait
from ..file_watcher import watch
from ..mesh.push import HarnessSession, Rung, SessionObserver, Unreachable
from ..processes.ancestry import agent_ancestor
from ..processes.process_table import process_info
from ..processes.socket_peer import peer_process
from ..protocol.mesh import Activity
from ..safe_file_read import read_regular
from ..sessions.attacher import Attacher
from .claude_code_terminal import ClaudeCodeTerminal
from .claude_code_transcript import began_at, transcript_path

LOOK_S = 2.0
"""How often running sessions are looked at: a process that was killed leaves its file as it is."""
ABSENT_S = 30.0
"""How often Claude Code is looked for where it was never used."""
REFRESH_S = 60.0
"""How often an unchanged session is reported again: it is alive."""
REFUSAL_S = 0.5
"""What Claude Code refuses makes it close the connection at once, within this time."""
MAX_FILE = 64 * 1024
MAX_FILES = 1000
MAX_SESSIONS = 200
MAX_READING = 2
"""Transcripts of which a part is in memory at once."""
MAX_LINE = 1024 * 1024
"""A longer line is refused by Claude Code."""

ATTACH_S, ATTACH_LOOK_S = 5.0, 0.2
"""A session that asks something is attached within this time, if it may be."""
SWITCHED_OFF = "Tieline may not read along any more"

ACTIVITIES: Mapping[str, Activity] = {"": "idle", "idle": "idle", "busy": "working", "waiting": "working"}
"""By the status in a session's file: it has none before the first turn, and waits while it asks for a permission."""

log = logging.getLogger("tieline.mesh")


class SessionFile(Struct, frozen=True, rename="camel"):
    """`sessions/PID.json`, what we need of it."""

    pid: int
    session_id: str
    cwd: str = ""
    started_at: float = 0
    proc_start: str = ""
    kind: str = ""
    entrypoint: str = ""
    messaging_socket_path: str = ""
    status: str = ""

    @property
    def of_a_person(self) -> bool:
        return self.kind == "interactive" and not self.entrypoint.startswith("sdk")

    @property
    def has_its_own_socket(self) -> bool:
        """The file may be anybody's: a path that no Claude Code would choose is not connected to."""
        path = Path(self.messaging_socket_path)
        return path.is_absolute() and path.name == f"{self.pid}.sock" and path.parent.name.startswith("cc-socks")

    @property
    def state(self) -> str:
        """Of its process, as the kernel writes it. Empty: it is over, and its number may be another's."""
        if sys.platform != "linux":
            return "S" if _runs(self.pid) else ""
        found = process_info(self.pid)
        return "" if found is None or found.over or str(found.start) != self.proc_start else found.state


class ClaudeCodeReach:
    """`push` works inside `open`."""

    harness = "claude-code"
    rungs: frozenset[Rung] = frozenset({"idle_wake"})
    attacher: Attacher | None = None
    in_memory: frozenset[Rung] = frozenset()

    def __init__(self, env: Mapping[str, str]) -> None:
        self._home = Path(env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME", "/")) / ".claude")
        self._folder, self._projects = self._home / "sessions", self._home / "projects"
        self._files: dict[str, SessionFile] = {}  # session → its file
        self._told: dict[str, HarnessSession] = {}
        self._driven: dict[tuple[int, str], bool] = {}  # process → whether it descends from an agent
        self._terminals: dict[str, ClaudeCodeTerminal] = {}  # of sessions that we read along
        self._began: dict[tuple[str, int], float] = {}  # session and process → when its conversation began
        self._transcripts: asyncio.Task[None] | None = None
        self._reading = asyncio.Semaphore(MAX_READING)
        self._looked = False
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def open(self, observer: SessionObserver) -> AsyncGenerator[None, None]:
        tasks = [asyncio.create_task(part, name="claude-code-reach") for part in (self._watch(), self._tell(observer))]
        try:
            yield
        finally:
            await cancel_and_wait(*tasks)
            if self._transcripts is not None:
                await cancel_and_wait(self._transcripts)
            for terminal in self._terminals.values():
                await terminal.stop()
            self._terminals.clear()

    async def taken(self, session: HarnessSession, ids: set[str]) -> set[str]:
        return set()  # its history cannot be asked

    async def push(self, session: HarnessSession, text: str, sender: str) -> None:
        await self._push_text(session.session, text)

    async def _push_text(self, session: str, text: str) -> None:
        file = self._files.get(session)
        if file is None or not file.state:
            raise Unreachable("this session of Claude Code has ended")
        if file.state in "Tt":  # it would take the message when it goes on, however often it was sent meanwhile
            raise Unreachable("this Claude Code is suspended")
        message = {"role": "user", "content": text}
        line = msgspec.json.encode({"type": "user", "msgV": 1, "msg_id": str(uuid.uuid4()), "message": message}) + b"\n"
        if len(line) > MAX_LINE:
            raise Unreachable("the message is longer than Claude Code takes over its socket; its hooks take it")
        try:
            await _hand_over(file, line)
        except OSError as error:
            raise Unreachable(f"Claude Code did not take the message: {error.strerror or error}") from None

    # --- sessions ---

    async def _watch(self) -> None:
        while not self._home.is_dir():  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(ABSENT_S)
        async for _ in watch(lambda: [self._folder / "none", *self._paths()]):
            self._changed.set()

    async def _tell(self, observer: SessionObserver) -> None:
        refresh_at = time.monotonic() + REFRESH_S
        while True:
            self._changed.clear()
            self._files = self._persons(await asyncio.to_thread(self._read))
            if refresh := time.monotonic() >= refresh_at:
                refresh_at = time.monotonic() + REFRESH_S
            for id in self._told.keys() - self._files.keys():
                await _report(observer.ended(self._told.pop(id)))
            for id, file in self._files.items():
                activity = ACTIVITIES.get(file.status, "unknown")
                session = HarnessSession(harness=self.harness, session=id, cwd=file.cwd, activity=activity)
                if (refresh or self._told.get(id) != session) and await _report(observer.changed(session)):
                    self._told[id] = session
            await _report(self._attach_all())
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S if self._files else None):
                    await self._changed.wait()

    # --- sessions that we read along ---

    async def answer_prompt(self, session: str, input: Mapping[str, Any]) -> str:
        """A terminal shows a permission prompt; its hook prints what this returns."""
        attacher, file = self.attacher, self._files.get(session)
        if attacher is None or (file is not None and not attacher.allowed(self.harness, file.cwd, time.time())):
            return ""
        with suppress(TimeoutError):  # a session that has just begun is attached at the next look
            async with asyncio.timeout(ATTACH_S):
                while session not in self._terminals:
                    self._changed.set()
                    await asyncio.sleep(ATTACH_LOOK_S)
        terminal = self._terminals.get(session)
        return "" if terminal is None else await terminal.answer_prompt(input)

    async def _attach_all(self) -> None:
        attacher = self.attacher
        if attacher is None:
            return
        before = {terminal.transcript.parent for terminal in self._terminals.values()}
        for id in self._terminals.keys() - self._files.keys():
            await self._terminals.pop(id).ended()
        for id, file in self._files.items():
            terminal = self._terminals.get(id)
            if terminal is not None and terminal.process != file.pid:  # resumed in another terminal
                await self._terminals.pop(id).stop()
                terminal = None
            if terminal is None:
                if await self._may_read(attacher, file):
                    await self._attach(attacher, file)
            elif not attacher.allowed(self.harness, file.cwd, self._began[id, file.pid]):
                await self._terminals.pop(id).let_go(SWITCHED_OFF)
            else:
                path = terminal.transcript
                if file.status not in ("", "idle") and not path.exists():
                    path = await asyncio.to_thread(transcript_path, self._projects, file.cwd, id)
                terminal.look(file.status, path)
        running = {(file.session_id, file.pid) for file in self._files.values()}
        self._began = {known: began for known, began in self._began.items() if known in running}
        if not self._looked:
            self._looked = True
            await attacher.only(self.harness, self._terminals.keys())
        if before != {terminal.transcript.parent for terminal in self._terminals.values()}:
            await self._watch_transcripts()

    async def _may_read(self, attacher: Attacher, file: SessionFile) -> bool:
        """A conversation may have begun before its process (it is resumed) or after it (it was cleared): its first line
        counts, where it has one, and that is looked at only if it matters."""
        key = (file.session_id, file.pid)
        if not file.session_id.replace("-", "").isalnum() or not attacher.allowed(self.harness, file.cwd, time.time()):
            return False
        if key not in self._began:
            path = await asyncio.to_thread(transcript_path, self._projects, file.cwd, file.session_id)
            if began := await asyncio.to_thread(began_at, path):
                self._began[key] = began
            elif attacher.allowed(self.harness, file.cwd, file.started_at / 1000):
                self._began[key] = file.started_at / 1000
        return key in self._began and attacher.allowed(self.harness, file.cwd, self._began[key])

    async def _attach(self, attacher: Attacher, file: SessionFile) -> None:
        id = file.session_id
        path = await asyncio.to_thread(transcript_path, self._projects, file.cwd, id)
        push, status = partial(self._push_text, id), partial(self._status_now, file)
        since = partial(self._read_since, attacher, file, self._began[id, file.pid])
        terminal = ClaudeCodeTerminal(
            file.pid, id, file.cwd, since=since, push=push, status=status, reading=self._reading
        )
        working = file.status not in ("", "idle")
        attached = await attacher.attach(self.harness, id, cwd=file.cwd, terminal=terminal, working=working)
        terminal.follow(attached, path, file.status)
        self._terminals[id] = terminal

    def _read_since(self, attacher: Attacher, file: SessionFile, began: float) -> float | None:
        return attacher.on_since(file.cwd) if attacher.allowed(self.harness, file.cwd, began) else None

    def _status_now(self, file: SessionFile) -> str:
        try:
            now = msgspec.json.decode(read_regular(self._folder / f"{file.pid}.json", MAX_FILE), type=SessionFile)
        except (OSError, msgspec.MsgspecError):  # it is being written
            return "waiting"
        return now.status if now.session_id == file.session_id else ""

    async def _watch_transcripts(self) -> None:
        """All by one task, which has one thread: it begins anew with each new folder."""
        if self._transcripts is not None:
            await cancel_and_wait(self._transcripts)
        self._transcripts = asyncio.create_task(self._look_at_transcripts(), name="claude-code-transcripts")

    async def _look_at_transcripts(self) -> None:
        async for _ in watch(lambda: [terminal.transcript for terminal in self._terminals.values()]):
            for id, terminal in self._terminals.items():
                if file := self._files.get(id):
                    terminal.look(file.status)

    def _paths(self) -> list[Path]:
        try:
            with os.scandir(self._folder) as entries:
                return [Path(entry) for entry in islice(entries, MAX_FILES) if entry.name.endswith(".json")]
        except OSError:
            return []

    def _read(self) -> list[SessionFile]:
        """Those whose process lives, the newest last."""
        before = {f"{file.pid}.json": file for file in self._files.values()}
        found: list[SessionFile] = []
        for path in self._paths():
            try:
                file = msgspec.json.decode(read_regular(path, MAX_FILE), type=SessionFile)
            except OSError:
                continue
            except msgspec.MsgspecError:  # it is being written, or is none
                file = before.get(path.name)
            if file and path.name == f"{file.pid}.json" and file.of_a_person and file.has_its_own_socket and file.state:
                found.append(file)
        return sorted(found, key=lambda file: file.started_at)[-MAX_SESSIONS:]

    def _persons(self, files: list[SessionFile]) -> dict[str, SessionFile]:
        """By session, without those of agents. What two terminals have resumed is the newer one's."""
        known = {(file.pid, file.proc_start): file for file in files}
        self._driven = {
            key: self._driven[key] if key in self._driven else agent_ancestor(file.pid) is not None
            for key, file in known.items()
        }
        return {file.session_id: file for key, file in known.items() if not self._driven[key]}


async def _hand_over(file: SessionFile, line: bytes) -> None:
    """Raises OSError and Unreachable. There is no answer; when Claude Code ends the connection after us, it has read
    the line."""
    reader, writer = await asyncio.open_unix_connection(file.messaging_socket_path)
    try:
        if peer_process(writer.get_extra_info("socket")) != (file.pid, os.getuid()):
            raise Unreachable("the socket of this session belongs to another process")
        writer.write(line)
        await writer.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(REFUSAL_S):
                if not await reader.read(1):
                    raise Unreachable("Claude Code takes no messages from other programs")
        writer.write_eof()
        while await reader.read(4096):
            pass
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


async def _report(told: Awaitable[None]) -> bool:
    try:
        await told
    except Exception:
        log.exception("a session of Claude Code could not be reported")
        return False
    return True
