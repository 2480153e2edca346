"""Ctrl-C, SIGTERM and SIGHUP. The first asks the turn to end; the second leaves at once. No child survives either."""

import asyncio
import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from ..processes import spawn
from .errors import SIGNALLED

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """`with Signals(first, leave)`: inside, `first` runs on the loop at the first signal.

    Plain handlers, not the loop's: a loop that is held up (a full pipe, say) could not act on its own.
    """

    def __init__(self, first: Callable[[], None], leave: Callable[[], None]) -> None:
        """`leave` puts the terminal in order; it runs right before the process ends."""
        self.number = 0
        self._first = first
        self._leave = leave
        self._found: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        self._loop = asyncio.get_running_loop()
        for number in NUMBERS:
            self._found[number] = signal.signal(number, self._on)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._found.items():
            # A closed window is told of twice, by the kernel and by the shell. What is tidied up now is not cut short.
            hung_up = number == self.number == signal.SIGHUP
            signal.signal(number, signal.SIG_IGN if hung_up else handler)

    @property
    def status(self) -> int:
        """The exit status that tells of the signal; 0 when there was none."""
        return SIGNALLED + self.number if self.number else 0

    def _on(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            self.at_once()
        self.number = number
        self._loop.call_soon_threadsafe(self._first)

    def at_once(self) -> None:
        """Kill what we started and leave. Their reapers end whatever was being born meanwhile."""
        spawn.kill_all()
        try:
            self._leave()
        finally:
            os._exit(self.status or SIGNALLED + signal.SIGINT)


class Suspension:
    """Ctrl-Z: the terminal is put in order before the process stops, and taken again when it goes on."""

    def __init__(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._before = before
        self._after = after

    def __enter__(self) -> "Suspension":
        self._found = signal.signal(signal.SIGTSTP, self._on)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGTSTP, self._found)

    def _on(self, number: int, frame: FrameType | None) -> None:
        self._before()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._after()
