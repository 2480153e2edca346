"""The progress of a shutdown: what it waits for, line by line, for `tieline down` to show."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from .. import paths
from ..safe_file_write import replace_private_file
from ..sessions.records import SessionRecord

SHORT = 6
"""Of a session's id, its end: as the command line names sessions."""
SLOW_S = 1.0
"""A step of the end that takes longer than this is told."""


class ShutdownProgress:
    """`begin` when the end has begun; then `step` by step. Nothing is said before it began."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._file = paths.ending_file(env)
        self._begun = False
        self._slow: asyncio.TimerHandle | None = None
        self._waiting = 0
        with suppress(OSError):
            self._file.unlink(missing_ok=True)

    def begin(self, queued: int = 0) -> None:
        """`queued`: prompts that will not run before the next start."""
        self._begun = True
        with suppress(OSError):
            replace_private_file(self._file, b"")
        if queued:
            waits = "1 prompt waits" if queued == 1 else f"{queued} prompts wait"
            self._say(f"{waits} for the next start")

    def step(self, waits_for: str) -> None:
        """What is waited for from now on; said if it takes a while."""
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None
        if self._begun and waits_for:
            loop = asyncio.get_running_loop()
            self._slow = loop.call_later(SLOW_S, self._say, f"waiting for {waits_for}")

    def turns(self, running: tuple[SessionRecord, ...]) -> None:
        """The turns that are still to end: each is said once, then those that take long."""
        names = [f"{record.agent} ({record.id[-SHORT:]})" for record in running]
        if not self._waiting:
            for name, record in zip(names, running, strict=True):
                self._say(f"interrupting {name}: {record.title}".rstrip(": "))
        self._waiting = len(running)
        self.step(f"{', '.join(names)} to end" if names else "the agents to end")

    def _say(self, line: str) -> None:
        if self._begun:
            with suppress(OSError), self._file.open("a") as file:  # nobody hears it then; the end goes on
                file.write(line.replace("\n", " ") + "\n")
