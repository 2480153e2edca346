"""Start a child in a session of its own, watched by the guard. Synchronous and light: it runs before asyncio is
imported, so that the agent is already starting while we are."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

from . import guard


class Launched:
    """A child that was started and not yet attached to an event loop."""

    def __init__(self, popen: subprocess.Popen[bytes], mark: str) -> None:
        self.popen = popen
        self.mark = mark
        self.pid = popen.pid

    def signal(self, number: int) -> bool:
        """Signal the whole group and every marked descendant. Whether there was anyone."""
        return guard.kill([self.pid], {self.mark}, number)

    def forget(self) -> None:
        """Nothing is left of it: the guard need not watch it any longer."""
        _live.pop(self.mark, None)
        _tell_guard(f"-{self.mark}\n")


def launch(argv: Sequence[str], *, cwd: str | os.PathLike[str], env: Mapping[str, str]) -> Launched:
    """Start it. Raises OSError as Popen does."""
    mark = os.urandom(8).hex()
    popen = subprocess.Popen(
        list(argv),
        cwd=cwd,
        env={**env, guard.MARK: mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        bufsize=0,
    )
    _live[mark] = popen.pid
    _tell_guard(f"+{popen.pid} {mark}\n")
    return Launched(popen, mark)


_guard: subprocess.Popen[bytes] | None = None
_guard_owner = 0
_live: dict[str, int] = {}
_lock = Lock()


def _tell_guard(line: str) -> None:
    global _guard, _guard_owner
    with _lock:
        if _guard_owner != os.getpid() or _guard is None or _guard.poll() is not None:
            # -I -S: no site, no user's PYTHON* settings; it starts in a few milliseconds.
            _guard = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(guard.__file__))],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env={},
                bufsize=0,
            )
            _guard_owner = os.getpid()
        assert _guard.stdin is not None
        with suppress(BrokenPipeError):
            _guard.stdin.write(line.encode())


def live() -> dict[str, int]:
    """Mark → process id of every child of ours that has not been closed yet."""
    return dict(_live)
