"""Signals: the first SIGINT, SIGTERM or SIGHUP interrupts the turn, a second exits at once; no child survives."""

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

    Plain handlers, not the loop's: a blocked loop (a full pipe, say) could not run its own.
    """

    def __init__(self, first: Callable[[], None], leave: Callable[[], None]) -> None:
        """`leave` restores the terminal; it runs right before the process exits."""
        self.number = 0
        self._first = first
        self._leave = leave
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        self._loop = asyncio.get_running_loop()
        for number in NUMBERS:
            self._previous[number] = signal.signal(number, self._on)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            # A closed window sends SIGHUP twice (kernel and shell): the second must not cut the clean-up short.
            hung_up = number == self.number == signal.SIGHUP
            signal.signal(number, signal.SIG_IGN if hung_up else handler)

    @property
    def status(self) -> int:
        """The exit status for the signal; 0 when there was none."""
        return SIGNALLED + self.number if self.number else 0

    def _on(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            self.at_once()
        self.number = number
        self._loop.call_soon_threadsafe(self._first)

    def at_once(self) -> None:
        """Kill all children and exit. Their reapers end those that were being started."""
        spawn.kill_all()
        try:
            self._leave()
        finally:
            os._exit(self.status or SIGNALLED + signal.SIGINT)


class Suspension:
    """Ctrl-Z: restores the terminal before the process stops, and takes it again when the process continues."""

    def __init__(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._before = before
        self._after = after

    def __enter__(self) -> "Suspension":
        self._previous = signal.signal(signal.SIGTSTP, self._on)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGTSTP, self._previous)

    def _on(self, number: int, frame: FrameType | None) -> None:
        self._before()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._after()
