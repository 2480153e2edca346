"""Connects to Claude Code's terminals: each has a file that tells its session and what it is doing, and a socket
that takes a message of a peer.

An idle session takes it as a new turn. During a turn it waits in the memory of Claude Code until the running tool is
over, or the turn is, and goes to the model then. What is still there when Claude Code ends is lost with it; its
transcript says what went to the model. A hook would do the same, but each costs every turn some time.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from ...background_tasks import cancel_and_wait
from ...file_watcher import watch
from ...mesh.push import HarnessSession, Rung, SessionObserver, Unreachable
from ...protocol.mesh import Activity
from ...sessions.attacher import Attacher
from ..terminals.session_file_connector import SessionFile
from ..terminals.transcript_connector import Since, TranscriptConnector, is_plain
from ..terminals.transcript_file import transcript_path
from .terminal import ClaudeCodeTerminal
from .transcript import messages_in

REFUSAL_S = 0.5
"""What Claude Code refuses makes it close the connection at once, within this time."""
ATTACH_S, ATTACH_LOOK_S = 5.0, 0.2
"""A session that asks something is attached within this time, if it may be."""

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


class ClaudeCodeConnector(TranscriptConnector[ClaudeCodeSession, ClaudeCodeTerminal]):
    harness = "claude-code"
    display_name = "Claude Code"
    file_type = ClaudeCodeSession
    rungs: frozenset[Rung] = frozenset({"mid_turn", "idle_wake"})
    in_memory: frozenset[Rung] = frozenset({"mid_turn"})

    def __init__(self, env: Mapping[str, str]) -> None:
        super().__init__(Path(env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME", "/")) / ".claude"))
        self._transcripts: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def _read_along(self, observer: SessionObserver) -> AsyncGenerator[None, None]:
        try:
            async with super()._read_along(observer):
                yield
        finally:
            if self._transcripts is not None:
                await cancel_and_wait(self._transcripts)

    async def taken(self, session: HarnessSession, ids: set[str]) -> set[str]:
        if not is_plain(session.session):
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

    # --- sessions that we read along ---

    async def answer_prompt(self, session: str, input: Mapping[str, Any], pid: int) -> str:
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

    async def _after_look(self) -> None:
        before = {terminal.transcript.parent for terminal in self._terminals.values()}
        await super()._after_look()
        if before != {terminal.transcript.parent for terminal in self._terminals.values()}:
            await self._watch_transcripts()

    def _readable(self, file: ClaudeCodeSession) -> bool:
        return not file.once

    async def _attach(
        self, attacher: Attacher, file: ClaudeCodeSession, path: Path, since: Since
    ) -> ClaudeCodeTerminal:
        id = file.session_id
        push, status = partial(self._push_text, id), partial(self._status_now, file)
        terminal = ClaudeCodeTerminal(
            file.pid, id, file.cwd, path, since=since, reading=self._reading, push=push, status=status
        )
        working = file.status not in ("", "idle")
        attached = await attacher.attach(self.harness, id, cwd=file.cwd, terminal=terminal, working=working)
        terminal.follow(attached, file.status)
        return terminal

    async def _look_at(self, terminal: ClaudeCodeTerminal, file: ClaudeCodeSession) -> None:
        path = terminal.transcript
        if file.status not in ("", "idle") and not path.exists():
            path = await self._transcript(file)
        terminal.look(file.status, path)

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
