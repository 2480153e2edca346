"""The live way into Claude Code's terminals: each has a file that tells its session and what it is doing, and a socket
that takes a message of a peer.

An idle session takes it as a new turn. During a turn it waits in the memory of Claude Code until the running tool is
over, or the turn is, and goes to the model then. What is still there when Claude Code ends is lost with it; its
transcript says what went to the model. A hook would do the same, but each costs every turn some time.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from ..background_tasks import cancel_and_wait
from ..file_watcher import watch
from ..mesh.push import HarnessSession, Rung, SessionObserver, Unreachable
from ..protocol.mesh import Activity
from ..sessions.attacher import Attacher
from .claude_code_terminal import ClaudeCodeTerminal
from .claude_code_transcript import began_at, messages_in, transcript_path
from .session_file_reach import SessionFile, SessionFileReach

REFUSAL_S = 0.5
"""What Claude Code refuses makes it close the connection at once, within this time."""
MAX_READING = 2
"""Transcripts of which a part is in memory at once."""

ATTACH_S, ATTACH_LOOK_S = 5.0, 0.2
"""A session that asks something is attached within this time, if it may be."""
SWITCHED_OFF = "Tieline may not read along any more"

ACTIVITIES: Mapping[str, Activity] = {"": "idle", "idle": "idle", "busy": "working", "waiting": "working"}
"""By the status in a session's file: it has none before the first turn, and waits while it asks for a permission."""


class ClaudeCodeSession(SessionFile, frozen=True, rename="camel"):
    socket_folder: ClassVar[str] = "cc-socks"

    entrypoint: str = ""
    messaging_socket_path: str = ""
    status: str = ""

    @property
    def of_a_person(self) -> bool:
        return self.kind == "interactive" and (self.once or not self.entrypoint.startswith("sdk"))

    @property
    def once(self) -> bool:
        """`claude -p`: it answers one prompt and ends, and nobody sits before it."""
        return self.entrypoint == "sdk-cli"

    @property
    def socket(self) -> str:
        return self.messaging_socket_path


class ClaudeCodeReach(SessionFileReach[ClaudeCodeSession]):
    harness = "claude-code"
    display_name = "Claude Code"
    file_type = ClaudeCodeSession
    rungs: frozenset[Rung] = frozenset({"mid_turn", "idle_wake"})
    in_memory: frozenset[Rung] = frozenset({"mid_turn"})

    def __init__(self, env: Mapping[str, str]) -> None:
        super().__init__(Path(env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME", "/")) / ".claude"))
        self._projects = self._home / "projects"
        self._terminals: dict[str, ClaudeCodeTerminal] = {}  # of sessions that we read along
        self._began: dict[tuple[str, int], float] = {}  # session and process → when its conversation began
        self._transcripts: asyncio.Task[None] | None = None
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
            if self._transcripts is not None:
                await cancel_and_wait(self._transcripts)
            for terminal in self._terminals.values():
                await terminal.stop()
            self._terminals.clear()

    async def taken(self, session: HarnessSession, ids: set[str]) -> set[str]:
        if not _is_plain(session.session):
            return set()
        path = await asyncio.to_thread(transcript_path, self._projects, session.cwd, session.session)
        return await asyncio.to_thread(messages_in, path, ids)

    def _activity(self, file: ClaudeCodeSession) -> Activity:
        return "working" if file.once else ACTIVITIES.get(file.status, "unknown")

    async def _hand_over(self, file: ClaudeCodeSession, text: str) -> None:
        """There is no answer; when Claude Code ends the connection after us, it has read the line."""
        message = {"role": "user", "content": text}
        line = self._line({"type": "user", "msgV": 1, "msg_id": str(uuid.uuid4()), "message": message})
        async with self._connected(file) as (reader, writer):
            writer.write(line)
            await writer.drain()
            with suppress(TimeoutError):
                async with asyncio.timeout(REFUSAL_S):
                    if not await reader.read(1):
                        raise Unreachable("Claude Code takes no messages from other programs")
            writer.write_eof()
            while await reader.read(4096):
                pass

    async def _after_look(self) -> None:
        await self._attach_all()

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

    async def _may_read(self, attacher: Attacher, file: ClaudeCodeSession) -> bool:
        """A conversation may have begun before its process (it is resumed) or after it (it was cleared): its first line
        counts, where it has one, and that is looked at only if it matters."""
        key = (file.session_id, file.pid)
        if file.once or not _is_plain(file.session_id):
            return False
        if not attacher.allowed(self.harness, file.cwd, time.time()):
            return False
        if key not in self._began:
            path = await asyncio.to_thread(transcript_path, self._projects, file.cwd, file.session_id)
            if began := await asyncio.to_thread(began_at, path):
                self._began[key] = began
            elif attacher.allowed(self.harness, file.cwd, file.started_at / 1000):
                self._began[key] = file.started_at / 1000
        return key in self._began and attacher.allowed(self.harness, file.cwd, self._began[key])

    async def _attach(self, attacher: Attacher, file: ClaudeCodeSession) -> None:
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

    def _read_since(self, attacher: Attacher, file: ClaudeCodeSession, began: float) -> float | None:
        return attacher.on_since(file.cwd) if attacher.allowed(self.harness, file.cwd, began) else None

    def _status_now(self, file: ClaudeCodeSession) -> str:
        try:
            now = self._decode(self._folder / f"{file.pid}.json")
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


def _is_plain(session: str) -> bool:
    """Whether it can be part of a file's name."""
    return session.replace("-", "").isalnum()
