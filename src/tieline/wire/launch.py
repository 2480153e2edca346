"""Start a child in a session of its own, watched by the guard. Synchronous and light: it runs before asyncio is
imported, so that the agent is already starting while we are."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from threading import Lock, active_count

from . import guard

MAX_SAID = 32 * 1024
"""Bytes said ahead: a pipe takes them at once, whether or not anybody reads yet."""


started: ContextVar[list[str] | None] = ContextVar("started", default=None)
"""Set to a list, it gets the mark of every child that is started from there, and by the tasks made there."""


class Launched:
    """A child that was started and not yet attached to an event loop."""

    def __init__(self, popen: subprocess.Popen[bytes], mark: str) -> None:
        self.popen = popen
        self.mark = mark
        self.pid = popen.pid
        self.said = b""

    def say(self, words: bytes) -> None:
        """Tell it what it will be told first, before there is an event loop to do so."""
        if len(self.said) + len(words) <= MAX_SAID and self.popen.stdin is not None:
            with suppress(OSError):  # it is gone: whoever takes it will see
                self.popen.stdin.write(words)
                self.said += words

    def unsaid(self, words: bytes) -> bytes:
        """What of these, its next words, was not said ahead. `launch` saw to it that the beginning is the same."""
        if not self.said:
            return words
        both = min(len(self.said), len(words))
        assert self.said[:both] == words[:both], "it was told something else ahead"
        self.said = self.said[both:]
        return words[both:]

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


def launch(argv: Sequence[str], *, cwd: str | os.PathLike[str], env: Mapping[str, str], words: bytes = b"") -> Launched:
    """Start it, unless it was started ahead and told nothing but the beginning of `words`, which it will be told
    first. Raises OSError as Popen does, and ValueError for an argument with a null byte."""
    if _ahead and (early := _ahead.pop(_key(argv, cwd, env), None)):
        if words.startswith(early.said):
            return early
        _discard(early)
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
    if (marks := started.get()) is not None:
        marks.append(mark)
    return Launched(popen, mark)


def find(name: str, path: str) -> str:
    """The executable of a name, as a shell finds it on that PATH; empty when there is none. As `shutil.which`, whose
    import takes as long as the start of some agents."""
    places = [name] if "/" in name else [f"{place or '.'}/{name}" for place in path.split(":")]
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):  # noqa: PTH113
            return os.path.abspath(place)  # noqa: PTH100
    return ""


def ahead(argv: Sequence[str], *, cwd: str | os.PathLike[str], env: Mapping[str, str]) -> Launched:
    """Start it before it is asked for: the next `launch` of the very same takes it. If nobody does, it ends with us."""
    global _guard
    if _guard is None and active_count() == 1:  # a fork of a process with threads may find a lock taken for ever
        _guard = _fork_guard()
    early = launch(argv, cwd=cwd, env=env)
    _ahead[_key(argv, cwd, env)] = early
    return early


def _discard(early: Launched) -> None:
    early.signal(signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        early.popen.wait(timeout=1.0)
    for pipe in (early.popen.stdin, early.popen.stdout, early.popen.stderr):
        if pipe is not None:
            pipe.close()
    early.forget()


def _key(argv: Sequence[str], cwd: str | os.PathLike[str], env: Mapping[str, str]) -> tuple[object, ...]:
    return (tuple(argv), os.fspath(cwd), frozenset(env.items()))


_ahead: dict[tuple[object, ...], Launched] = {}
_guard: "_Guard | None" = None
_live: dict[str, int] = {}
_lock = Lock()


def _tell_guard(line: str) -> None:
    global _guard
    with _lock:
        if _guard is None or not _guard.alive():
            if _guard is not None:
                _guard.disown()
            _guard = _start_guard()
            line = "".join(f"+{pid} {mark}\n" for mark, pid in _live.items()) + line
        with suppress(BrokenPipeError):
            os.write(_guard.input, line.encode())


class _Guard:
    """The process that ends our children should we not be able to. It goes when its input ends."""

    def __init__(self, pid: int, input: int) -> None:
        """`input` is a descriptor and no file: it is open until we are gone, and that is no leak."""
        self.pid = pid
        self.input = input

    def kill(self) -> None:
        """For tests: it is replaced when it is next needed."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def alive(self) -> bool:
        with suppress(ChildProcessError):
            return os.waitpid(self.pid, os.WNOHANG)[0] == 0
        return False

    def disown(self) -> None:
        """Let go of its input: it is gone, or not ours but our parent's."""
        with suppress(OSError):
            os.close(self.input)


def _fork_guard() -> _Guard:
    """A guard without an interpreter's start: only for a process that is still small and has one thread."""
    parent = os.getpid()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(reading)
        return _Guard(pid, writing)
    try:
        os.setsid()
        os.chdir("/")
        os.dup2(reading, 0)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.closerange(3, os.sysconf("SC_OPEN_MAX") if sys.platform == "darwin" else _highest_descriptor() + 1)
        guard.main(parent)
    finally:
        os._exit(0)


def _highest_descriptor() -> int:
    return max(map(int, os.listdir("/proc/self/fd")), default=255)  # noqa: PTH208


def _start_guard() -> _Guard:
    reading, writing = os.pipe()
    try:
        # -I -S: no site, no user's PYTHON* settings; it starts in a few milliseconds.
        popen = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, str(os.getpid())],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env={},
        )
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    popen.returncode = 0  # we wait for it ourselves; at our end it is meant to be there still
    return _Guard(popen.pid, writing)


def _forked() -> None:
    """A fork of this process has no children yet, and must not keep our guard from seeing our end."""
    global _guard, _lock
    if _guard is not None:
        _guard.disown()
    _guard = None
    _live.clear()
    _lock = Lock()


os.register_at_fork(after_in_child=_forked)


def live() -> dict[str, int]:
    """Mark → process id of every child of ours that has not been closed yet."""
    return {mark: pid for mark, pid in _live.items() if pid}
