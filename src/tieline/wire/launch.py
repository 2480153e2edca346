"""Start a child in a session of its own, watched by the guard. Synchronous and light: it runs before asyncio is
imported, so that the agent is already starting while we are."""

import os
import signal
import subprocess
import sys
import time
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

    def kill_stragglers(self, within: float) -> None:
        """Kill marked descendants until none is to be seen: some fork while they are being killed."""
        deadline = time.monotonic() + within
        while guard.kill([], {self.mark}, signal.SIGKILL) and time.monotonic() < deadline:
            time.sleep(0.002)

    def forget(self) -> None:
        """Nothing is left of it: the guard need not watch it any longer."""
        _live.pop(self.mark, None)
        _tell_guard(f"-{self.mark}\n")


def launch(argv: Sequence[str], *, cwd: str | os.PathLike[str], env: Mapping[str, str]) -> Launched:
    """Start it, unless it was started ahead. Raises OSError as Popen does, and ValueError for an argument with a null
    byte."""
    if _ahead and (early := _ahead.pop(_key(argv, cwd, env), None)):
        return early
    mark = os.urandom(8).hex()
    _live[mark] = 0
    _tell_guard(f"+0 {mark}\n")  # before there is a child: we may be killed between its start and the next line
    try:
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
    except BaseException:
        _live.pop(mark, None)
        _tell_guard(f"-{mark}\n")
        raise
    _live[mark] = popen.pid
    _tell_guard(f"+{popen.pid} {mark}\n")
    return Launched(popen, mark)


def ahead(argv: Sequence[str], *, cwd: str | os.PathLike[str], env: Mapping[str, str]) -> None:
    """Start it before it is asked for: the next `launch` of the very same takes it. If nobody does, it ends with us."""
    early = launch(argv, cwd=cwd, env=env)
    _ahead[_key(argv, cwd, env)] = early


def _key(argv: Sequence[str], cwd: str | os.PathLike[str], env: Mapping[str, str]) -> tuple[object, ...]:
    return (tuple(argv), os.fspath(cwd), frozenset(env.items()))


_ahead: dict[tuple[object, ...], Launched] = {}
_guard: subprocess.Popen[bytes] | None = None
_live: dict[str, int] = {}
_lock = Lock()


def _tell_guard(line: str) -> None:
    global _guard
    with _lock:
        if _guard is None or _guard.poll() is not None:
            _guard = _start_guard()
            line = "".join(f"+{pid} {mark}\n" for mark, pid in _live.items()) + line
        assert _guard.stdin is not None
        with suppress(BrokenPipeError):
            _guard.stdin.write(line.encode())


def _start_guard() -> subprocess.Popen[bytes]:
    # -I -S: no site, no user's PYTHON* settings; it starts in a few milliseconds.
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(guard.__file__)), str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env={},
        bufsize=0,
    )


def _forked() -> None:
    """A fork of this process has no children yet, and must not keep our guard from seeing our end."""
    global _guard, _lock
    if _guard is not None and _guard.stdin is not None:
        with suppress(OSError):
            _guard.stdin.close()
        _guard.returncode = 0  # not ours to wait for
    _guard = None
    _live.clear()
    _lock = Lock()


os.register_at_fork(after_in_child=_forked)


def live() -> dict[str, int]:
    """Mark → process id of every child of ours that has not been closed yet."""
    return {mark: pid for mark, pid in _live.items() if pid}
