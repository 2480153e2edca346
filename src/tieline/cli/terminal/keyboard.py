"""The person's keyboard: one key, or a line. The terminal is always put back as it was found."""

import asyncio
import atexit
import os
import re
import select
import sys
import termios
from collections.abc import Callable, Container
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal

Mode = Literal["quiet", "key", "line"]
"""quiet: nothing typed is shown, and it is forgotten · key: each key counts · line: as in a shell, with Enter."""

MAX_DIGITS = 9
"""More choices than one key can name are answered with a line."""
MAX_LINE = 4096
"""What a terminal hands over as one line."""
NO_TEXT = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|O.|.)?|[\x00-\x1f\x7f]")
"""What keys such as arrows send in the middle of a line, and its end."""


class Keyboard:
    """`with keyboard() as keys`. Modes change its terminal; leaving the block, or the process, restores it."""

    def __init__(self, descriptor: int, *, ours: bool) -> None:
        self._descriptor = descriptor
        self._ours = ours  # opened by us, so closed by us
        self._found: list[Any] = termios.tcgetattr(descriptor)
        self._mode: Mode | None = None
        self._touched = False
        self._wake_read, self._wake_write = os.pipe()

    def __enter__(self) -> "Keyboard":
        atexit.register(self.restore)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()
        atexit.unregister(self.restore)
        for descriptor in (self._wake_read, self._wake_write, *([self._descriptor] if self._ours else [])):
            os.close(descriptor)

    def set(self, mode: Mode) -> None:
        """What was typed before is thrown away: nobody answers a question that they have not seen.

        So call it before the question is put, and read (`key`, `line`) after.
        """
        attributes: list[Any] = [*self._found[:6], list(self._found[6])]
        flags: int = attributes[3]
        if mode == "line":
            flags |= termios.ICANON | termios.ECHO
        else:
            flags &= ~termios.ECHO
            if mode == "key":
                flags &= ~termios.ICANON
                attributes[6][termios.VMIN], attributes[6][termios.VTIME] = 1, 0
        attributes[3] = flags
        self._touched = True
        termios.tcsetattr(self._descriptor, termios.TCSAFLUSH, attributes)
        self._mode = mode

    def quiet(self) -> None:
        """Keep stray keys off the screen; not for a job in the background, which touching the terminal would stop."""
        self._mode = None
        with suppress(OSError, termios.error):
            if os.tcgetpgrp(self._descriptor) == os.getpgrp():
                self.set("quiet")

    def restore(self) -> None:
        """As it was found. Safe to call at any time, also from a signal's handler."""
        if self._touched:
            with suppress(OSError, termios.error):
                termios.tcsetattr(self._descriptor, termios.TCSANOW, self._found)

    def reapply(self) -> None:
        """After the process was stopped and continued: the mode that it had."""
        if self._mode is not None:
            with suppress(OSError, termios.error):
                self.set(self._mode)

    async def key(self, accepted: Container[str], refuse: Callable[[], None]) -> str:
        """One of these keys; others are refused. Empty when the terminal is gone.

        Several at once are a paste or an arrow's sequence: nobody means them as an answer.
        """
        try:
            if self._mode != "key":
                self.set("key")
            while data := await self._read():
                key = data.decode(errors="replace").lower()
                if len(key) == 1 and key in accepted:
                    return key
                refuse()
            return ""
        except termios.error:  # hung up
            return ""
        finally:
            self.quiet()

    async def line(self) -> str | None:
        """One line, without its end; None at the end of input."""
        try:
            if self._mode != "line":
                self.set("line")
            data = await self._read()
        except termios.error:
            return None
        finally:
            self.quiet()
        return NO_TEXT.sub("", data.decode(errors="replace")) if data else None

    async def _read(self) -> bytes:
        """In a thread, because not every event loop can watch a terminal; cancelling ends the thread at once."""
        reading = asyncio.ensure_future(asyncio.to_thread(self._wait))
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            os.write(self._wake_write, b"x")
            await asyncio.wait({reading}, timeout=5)
            raise

    def _wait(self) -> bytes:
        try:
            ready, _, _ = select.select([self._descriptor, self._wake_read], [], [])
            if self._wake_read in ready:
                os.read(self._wake_read, 1)
                return b""
            return os.read(self._descriptor, MAX_LINE)
        except OSError:  # hung up
            return b""


def keyboard() -> Keyboard | None:
    """The terminal that the person types on: standard input, or the controlling one. None where there is none."""
    with suppress(OSError, termios.error, ValueError):
        if sys.stdin.isatty():
            return Keyboard(sys.stdin.fileno(), ours=False)
    with suppress(OSError, termios.error):
        return Keyboard(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC), ours=True)
    return None
