"""Start a child in a session of its own, below a reaper. Synchronous and light: it runs before asyncio is imported, so
that the agent is already starting while we are."""

import _socket
import errno
import io
import marshal
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar

from . import guard_client, process_table, reaper
from .child import AnyChild, Reaped, Spawned

MAX_WRITTEN_AHEAD = 32 * 1024
"""Bytes written ahead: a pipe takes them at once, whether or not anybody reads yet."""


started: ContextVar[list[str] | None] = ContextVar("started", default=None)
"""Set to a list, it gets the mark of every child that is started from there, and by the tasks made there."""


class SpawnedProcess:
    """A child that was started and not yet attached to an event loop."""

    def __init__(self, child: AnyChild, mark: str) -> None:
        self.child = child
        self.mark = mark
        self.pid = child.pid
        self.written_ahead = b""

    def write_ahead(self, data: bytes) -> None:
        """Write what it will read first, before there is an event loop to do so."""
        if len(self.written_ahead) + len(data) <= MAX_WRITTEN_AHEAD:
            with suppress(OSError):  # it is gone: whoever takes it will see
                self.child.stdin.write(data)
                self.written_ahead += data

    def not_written_yet(self, data: bytes) -> bytes:
        """What of its next input was not written ahead. `launch` saw to it that the beginning is the same."""
        if not self.written_ahead:
            return data
        both = min(len(self.written_ahead), len(data))
        assert self.written_ahead[:both] == data[:both], "something else was written ahead"
        self.written_ahead = self.written_ahead[both:]
        return data[both:]

    def signal(self, number: int) -> bool:
        """Signal the whole group and every descendant. Whether there was anyone."""
        return not self.child.alone and process_table.kill([self.pid], {self.mark}, number, self.child.reapers)

    def kill_stragglers(self, within: float) -> None:
        """Kill descendants until none is to be seen: some fork while they are being killed."""
        deadline = time.monotonic() + within
        while not self.child.alone and time.monotonic() < deadline:
            if not process_table.kill([], {self.mark}, signal.SIGKILL, self.child.reapers):
                return
            time.sleep(0.002)

    def forget(self) -> None:
        """Nothing is left of it."""
        _live.pop(self.mark, None)
        self.child.close()
        if isinstance(self.child, Spawned):
            guard_client.send(f"-{self.mark}\n")


def spawn(
    argv: Sequence[str], *, cwd: str | os.PathLike[str], env: Mapping[str, str], words: bytes = b""
) -> SpawnedProcess:
    """Start it, unless it was started ahead and told nothing but the beginning of `words`, which it will be told
    first. Raises OSError as Popen does, and ValueError for an argument with a null byte."""
    if _ahead and (early := _ahead.pop(_key(argv, cwd, env), None)):
        if words.startswith(early.written_ahead):
            return early
        _discard(early)
    mark = os.urandom(8).hex()
    own = {**env, process_table.MARK: mark}
    user = own.pop(process_table.RUN_AS, "")
    if user and not REAPERS:  # never as ourselves instead
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), user)
    launched = SpawnedProcess(_reaped(argv, cwd, own, mark, user) if REAPERS else _spawned(argv, cwd, own, mark), mark)
    _live[mark] = launched
    if (marks := started.get()) is not None:
        marks.append(mark)
    return launched


REAPERS = sys.platform == "linux"
"""Whether this system lets a process have the orphans below it."""
START_S = 30.0
"""For the guard to start a child: a busy machine takes its time."""


def _reaped(argv: Sequence[str], cwd: str | os.PathLike[str], env: Mapping[str, str], mark: str, user: str) -> Reaped:
    request = marshal.dumps(
        (
            [os.fsencode(word) for word in argv],
            {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
            os.fsencode(cwd),
            _account(user) if user else None,
        )
    )
    if any("\0" in word for word in (*argv, *env, *env.values())):
        raise ValueError("embedded null byte")
    reply = b""
    for _ in range(2):  # a guard that was killed in the middle is replaced
        control, theirs = _socket.socketpair()
        inner: list[int] = []
        pipes: list[int] = []
        try:
            control.settimeout(START_S)
            guard_client.send(f"*{mark}\n", theirs.fileno())
            theirs.close()
            for outwards in (False, True, True):
                ends = os.pipe()
                inner.append(ends[outwards])
                pipes.append(ends[not outwards])
            with suppress(BrokenPipeError, ConnectionResetError):
                _send_request(control, request, inner)
                reply = control.recv(256)
        except BaseException:
            reply = b""
            raise
        finally:
            theirs.close()
            for descriptor in (*inner, *(pipes if reply[:1] in (b"", b"!") else ())):
                os.close(descriptor)
            if reply[:1] in (b"", b"!"):
                control.close()
        if reply[:1] == b"!":
            number, what = reply[1:].split()
            name = {b"cwd": os.fspath(cwd), b"user": user}.get(what, argv[0])
            whose = f" for {user}, who runs this agent (run_as)" if user else ""
            raise OSError(int(number), os.strerror(int(number)) + whose, name)
        if reply:
            control.setblocking(False)
            stdin, stdout, stderr = pipes
            return Reaped(control, reply, (io.FileIO(stdin, "w"), io.FileIO(stdout), io.FileIO(stderr)))
    raise OSError("the guard did not start it: this machine may have too many processes")


def _account(name: str) -> reaper.User:
    import pwd

    try:
        account = pwd.getpwnam(name)
    except KeyError:
        raise OSError(errno.ESRCH, "there is no such user", name) from None
    return os.fsencode(name), account.pw_uid, account.pw_gid


def _send_request(control: "_socket.socket", request: bytes, pipes: list[int]) -> None:
    data = memoryview(len(request).to_bytes(reaper.HEAD, "big") + request)
    rights = b"".join(pipe.to_bytes(4, sys.byteorder) for pipe in pipes)
    sent = control.sendmsg([data[:65536]], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    if rest := data[sent:]:  # to send nothing fails when the answer is there already, and nobody listens any more
        control.sendall(rest)


def _spawned(argv: Sequence[str], cwd: str | os.PathLike[str], env: Mapping[str, str], mark: str) -> Spawned:
    import subprocess

    guard_client.send(f"+0 {mark}\n")  # before there is a child: we may be killed between its start and the next line
    pipe = subprocess.PIPE
    try:
        popen = subprocess.Popen(
            list(argv), cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, bufsize=0
        )
    except BaseException:
        guard_client.send(f"-{mark}\n")
        raise
    guard_client.send(f"+{popen.pid} {mark}\n")
    return Spawned(popen)


def find(name: str, path: str) -> str:
    """The executable of a name, as a shell finds it on that PATH; empty when there is none. Not `shutil.which`, whose
    import takes as long as the start of some agents."""
    candidates = [name] if "/" in name else [f"{folder or '.'}/{name}" for folder in path.split(":")]
    for candidate in candidates:
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):  # noqa: PTH113
            return os.path.abspath(candidate)  # noqa: PTH100
    return ""


def ahead(argv: Sequence[str], *, cwd: str | os.PathLike[str], env: Mapping[str, str]) -> SpawnedProcess:
    """Start it before it is asked for: the next `launch` of the very same takes it. If nobody does, it ends with us."""
    guard_client.fork()
    early = spawn(argv, cwd=cwd, env=env)
    _ahead[_key(argv, cwd, env)] = early
    return early


def _discard(early: SpawnedProcess) -> None:
    early.signal(signal.SIGKILL)
    early.child.wait(1.0)
    for pipe in (early.child.stdin, early.child.stdout, early.child.stderr):
        pipe.close()
    early.forget()


def _key(argv: Sequence[str], cwd: str | os.PathLike[str], env: Mapping[str, str]) -> tuple[object, ...]:
    return (tuple(argv), os.fspath(cwd), frozenset(env.items()))


_ahead: dict[tuple[object, ...], SpawnedProcess] = {}
_live: dict[str, SpawnedProcess] = {}


def _groups() -> str:
    """The processes without a reaper, as a new guard reads them."""
    return "".join(
        f"+{launched.pid} {mark}\n" for mark, launched in _live.items() if isinstance(launched.child, Spawned)
    )


guard_client.known = _groups


def _forked() -> None:
    """A fork of this process has no children yet, and must not keep our reapers from seeing our end."""
    for launched in _live.values():
        launched.child.close()
    _live.clear()
    _ahead.clear()


os.register_at_fork(after_in_child=_forked)


def live() -> dict[str, int]:
    """Mark → process id of every child of ours that has not been closed yet."""
    return {mark: launched.pid for mark, launched in _live.items()}


def kill_all() -> None:
    """Every child of ours with all its descendants, at once."""
    reapers = tuple(reaper for launched in _live.values() for reaper in launched.child.reapers)
    process_table.kill(list(live().values()), set(_live), signal.SIGKILL, reapers)


def reapers() -> dict[int, str]:
    """Reaper → the mark of its child."""
    return {reaper: mark for mark, launched in list(_live.items()) for reaper in launched.child.reapers}


def has_exited(mark: str) -> bool:
    """Whether that child of ours is over, also when neither the event loop nor its reaper has noticed yet."""
    launched = _live.get(mark)
    if launched is None or launched.child.poll() is not None:
        return True
    info = process_table.process_info(launched.pid)
    if info is not None:
        return info.over
    try:
        os.kill(launched.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # another user's
        pass
    return False
