"""The guard of this process: started when it is first needed, replaced when it was killed."""

import _socket
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, active_count

from . import guard

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
CODE = "import sys; sys.path.insert(0, sys.argv[1]); from tieline.processes.guard import main; main(int(sys.argv[2]))"
SEND_S = 30.0
"""For the guard to take what it is told."""


def _nothing() -> str:
    return ""


known: Callable[[], str] = _nothing
"""What a new guard must be told first."""
_guard: "GuardClient | None" = None
_lost = False
_lock = Lock()


class GuardClient:
    """The process that ends our children should we not be able to. It goes when its input ends."""

    def __init__(self, pid: int, input: int) -> None:
        """`input` is a descriptor and no socket: it is open until we are gone, and that is no leak."""
        self.pid = pid
        self.input = input
        self._over = False

    def send(self, line: str, descriptor: int | None) -> bool:
        rights = [] if descriptor is None else [_rights(descriptor)]
        input = _socket.socket(fileno=self.input)
        try:
            input.settimeout(SEND_S)
            input.sendmsg([line.encode()], rights)
        except (BrokenPipeError, ConnectionResetError):
            return False
        finally:
            input.detach()
        return True

    def kill(self) -> None:
        """For tests: it is replaced when it is next needed."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def alive(self) -> bool:
        if not self._over:  # looked at no more: another child may have its number by then
            try:
                self._over = os.waitpid(self.pid, os.WNOHANG)[0] != 0
            except ChildProcessError:
                self._over = True
        return not self._over

    def disown(self) -> None:
        """Let go of its input: it is gone, or not ours but our parent's."""
        with suppress(OSError):
            os.close(self.input)


def send(line: str, descriptor: int | None = None) -> None:
    """Raises OSError when no guard can be started."""
    global _guard, _lost
    with _lock:
        for _ in range(2):
            if _guard is None or not _guard.alive():
                if _guard is not None:
                    _lost = True
                    _guard.disown()
                _guard = _start()
                if words := known():
                    _guard.send(words, None)
            if _guard.send(line, descriptor):
                return


def pid() -> int | None:
    """Of the guard that runs; None: there is none."""
    return None if _guard is None or not _guard.alive() else _guard.pid


def was_lost() -> bool:
    """Whether a guard of this process was ever killed."""
    global _lost
    _lost = _lost or (_guard is not None and not _guard.alive())
    return _lost


def fork() -> None:
    """A guard without an interpreter's start: only for a process that is still small and has one thread."""
    global _guard
    if _guard is not None or active_count() > 1:  # a fork of a process with threads may find a lock taken for ever
        return
    parent = os.getpid()
    ours, theirs = _socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        _guard = GuardClient(pid, ours.detach())
        return
    try:
        os.setsid()
        os.chdir("/")
        os.dup2(theirs.fileno(), 0)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.closerange(3, os.sysconf("SC_OPEN_MAX") if sys.platform == "darwin" else _highest_descriptor() + 1)
        ours.detach()
        theirs.detach()
        guard.main(parent)
    finally:
        os._exit(0)


def _highest_descriptor() -> int:
    return max(map(int, os.listdir("/proc/self/fd")), default=255)  # noqa: PTH208


def _rights(descriptor: int) -> tuple[int, int, bytes]:
    return _socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptor.to_bytes(4, sys.byteorder)


def _start() -> GuardClient:
    import subprocess

    ours, theirs = _socket.socketpair()
    try:
        # -I -S: no site, no user's PYTHON* settings; it starts in a few milliseconds.
        popen = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", CODE, ROOT, str(os.getpid())],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env={},
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    popen.returncode = 0  # we wait for it ourselves; at our end it is meant to be there still
    return GuardClient(popen.pid, ours.detach())


def _forked() -> None:
    """A fork of this process must not keep our guard from seeing our end."""
    global _guard, _lock
    if _guard is not None:
        _guard.disown()
    _guard = None
    _lock = Lock()


os.register_at_fork(after_in_child=_forked)
