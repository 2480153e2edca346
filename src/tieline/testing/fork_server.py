"""`tieline`, or a hub, in a process that is forked from one with the imports done.

What a command or a hub does is the same; its start takes a tenth. Whatever is about the start itself, about signals or
about a terminal starts the program.
"""

import atexit
import ctypes
import gc
import io
import json
import os
import pkgutil
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Literal, NoReturn

import msgspec
from msgspec.structs import replace

from ..bootstrap.process_lock import StartOptions, StartResult

MAX_REQUEST = 128 * 1024
MAX_DESCRIPTORS = 4
CHUNK = 1 << 16
NOTHING_SAID = b'{"problem": "it ended at once"}'
SHORTEST_S = 0.001
LOCALE = {"LANG": "C.UTF-8"}
"""Python reads it once, at its start."""
LATER = ("importlib.metadata", "rich.markdown", "rich.table", "tieline.client", "tieline.config",
         "tieline.drivers.registry", "tieline.harnesses.registry", "tomlkit")  # fmt: skip
"""What most commands import when they run."""
PR_SET_PDEATHSIG = 1

ForkTarget = Literal["cli", "hub"]


def can_run(env: Mapping[str, str], given: str) -> bool:
    return started_alike(env) and len(given) < 4096


def started_alike(env: Mapping[str, str]) -> bool:
    """Whether Python would start with this environment as the server did."""
    own = {name for name in env if name.startswith(("LANG", "LC_", "PYTHON"))} - {"PYTHONDONTWRITEBYTECODE"}
    return all(env[name] == LOCALE.get(name) for name in own) and hasattr(socket, "send_fds")


@cache
def server(target: ForkTarget) -> "ForkServer":
    """The one of this process."""
    return ForkServer(target)


class ForkServer:
    def __init__(self, target: ForkTarget) -> None:
        self._folder = TemporaryDirectory(prefix="fork-")
        self._path = f"{self._folder.name}/socket"
        argv = [sys.executable, "-P", "-m", __name__, target, self._path]
        # All three are pipes, as they will be in the forks: Python looks at the kind of its streams only at its start.
        self._process = subprocess.Popen(
            argv, cwd="/", env=LOCALE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        atexit.register(self._end)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == b"ready\n", line + self._process.stdout.read()

    def _end(self) -> None:
        self._process.communicate()  # it ends with its input
        self._folder.cleanup()

    def start(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], descriptors: Sequence[int], timeout: float
    ) -> "ForkedProcess":
        """Run it in a session of its own. The descriptors are its 0, 1, 2 and so on; they stay open here as well."""
        request = json.dumps({"argv": list(argv), "cwd": str(cwd), "env": dict(env)}).encode()
        call = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            call.settimeout(timeout)
            call.connect(self._path)
            socket.send_fds(call, [request], list(descriptors))
            return ForkedProcess(int(call.recv(CHUNK)), call, argv)
        except BaseException:
            call.close()
            raise

    def run(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], given: str, timeout: float
    ) -> "subprocess.CompletedProcess[str]":
        """Run it as subprocess.run would, in a session of its own."""
        deadline = time.monotonic() + timeout
        (stdin, writing), (out, stdout), (err, stderr) = (os.pipe() for _ in range(3))
        process = None
        try:
            try:
                streams = (stdin, stdout, stderr)
                process = self.start(argv, cwd=cwd, env=env, descriptors=streams, timeout=timeout)
            finally:
                for descriptor in (stdin, stdout, stderr):
                    os.close(descriptor)
            with suppress(BrokenPipeError):
                os.write(writing, given.encode())
            os.close(writing)
            outputs = _read_all((out, err), deadline)
            status = process.wait(max(0.0, deadline - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired):
            if process is not None:
                os.killpg(process.pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(argv), timeout) from None
        finally:
            os.close(out)
            os.close(err)
        return subprocess.CompletedProcess(list(argv), status, *(text.decode() for text in outputs))


def start_hub(
    order: StartOptions, *, cwd: Path, env: Mapping[str, str], log: Path, timeout: float
) -> "tuple[ForkedProcess | subprocess.Popen[bytes], StartResult]":
    """A hub (or a node) once it runs, or has said why it does not. What it writes is added to `log`."""
    read_end, ready = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = _start_hub(order, cwd=cwd, env=env, descriptors=(nothing, output, ready), timeout=timeout)
    except BaseException:
        os.close(read_end)
        raise
    finally:
        for descriptor in (nothing, output, ready):  # when the hub ends early, nobody holds the other end
            os.close(descriptor)
    with os.fdopen(read_end, "rb") as answers:
        answered, _, _ = select.select([answers], [], [], timeout)
        line = answers.readline() if answered else b""
    return process, msgspec.json.decode(line or NOTHING_SAID, type=StartResult)


def _start_hub(
    order: StartOptions, *, cwd: Path, env: Mapping[str, str], descriptors: tuple[int, int, int], timeout: float
) -> "ForkedProcess | subprocess.Popen[bytes]":
    nothing, output, ready = descriptors

    def argument(descriptor: int) -> str:
        return msgspec.json.encode(replace(order, ready=descriptor)).decode()

    if started_alike(env):
        argv = ["tieline.bootstrap", argument(3)]
        streams = (nothing, output, output, ready)
        return server("hub").start(argv, cwd=cwd, env=env, descriptors=streams, timeout=timeout)
    return subprocess.Popen(
        [sys.executable, "-m", "tieline.bootstrap", argument(ready)],
        cwd=cwd, env=env, stdin=nothing, stdout=output, stderr=output, pass_fds=(ready,), start_new_session=True,
    )  # fmt: skip


class ForkedProcess:
    """As much of a `Popen` as tests need."""

    def __init__(self, pid: int, call: socket.socket, argv: Sequence[str]) -> None:
        self.pid = pid
        self._call = call
        self._argv = argv
        self._status: int | None = None

    def send_signal(self, number: int) -> None:
        """Nothing happens when it has ended: its number stays its own until the server has told so."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self._status

    def wait(self, timeout: float) -> int:
        """Its exit status."""
        if self._status is None:
            self._call.settimeout(max(timeout, SHORTEST_S))  # zero would be another kind of error
            try:
                self._status = int(self._call.recv(CHUNK))
            except TimeoutError:
                raise subprocess.TimeoutExpired(list(self._argv), timeout) from None
            self._call.close()
        return self._status


def _read_all(descriptors: Sequence[int], deadline: float) -> list[bytearray]:
    outputs = {descriptor: bytearray() for descriptor in descriptors}
    with selectors.DefaultSelector() as selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(deadline - time.monotonic())
            if not ready and time.monotonic() > deadline:
                raise TimeoutError
            for key, _ in ready:
                if chunk := os.read(key.fd, CHUNK):
                    outputs[key.fd] += chunk
                else:
                    selector.unregister(key.fd)
    return list(outputs.values())


def serve(target: ForkTarget, path: str) -> None:
    """Fork one process per call, and tell its number and then its status; until standard input ends."""
    main = _hub() if target == "hub" else _cli()
    gc.freeze()
    calls: dict[int, socket.socket] = {}
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, _go_on)
    signal.set_wakeup_fd(wake)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, selectors.DefaultSelector() as selector:
        listener.bind(path)
        listener.listen()
        for source in (0, woken, listener):
            selector.register(source, selectors.EVENT_READ)
        os.write(1, b"ready\n")
        while True:
            for key, _ in selector.select():
                if key.fd == 0:
                    return
                if key.fd == woken:
                    os.read(woken, CHUNK)
                    _tell_ended(calls)
                    continue
                call, _ = listener.accept()
                request, descriptors, _, _ = socket.recv_fds(call, MAX_REQUEST, MAX_DESCRIPTORS)
                pid = os.fork()
                if not pid:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for each in (call, *calls.values()):
                        each.close()
                    os.close(woken)
                    os.close(wake)
                    selector.close()
                    listener.close()
                    _become(main, descriptors, **json.loads(request))
                for descriptor in descriptors:
                    os.close(descriptor)
                calls[pid] = call
                call.send(b"%d" % pid)


def _go_on(number: int, frame: FrameType | None) -> None:
    """A signal that is handled wakes the selector; one that is ignored does not."""


def _tell_ended(calls: dict[int, socket.socket]) -> None:
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with suppress(OSError), calls.pop(pid) as call:
                call.send(b"%d" % os.waitstatus_to_exitcode(status))


def _become(
    main: Callable[[], int | None], descriptors: Sequence[int], argv: list[str], cwd: str, env: dict[str, str]
) -> NoReturn:
    os.setsid()  # no controlling terminal either
    _end_with_parent()
    high = [_above(descriptor, len(descriptors)) for descriptor in descriptors]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv = argv
    status = 1
    try:
        status = main() or 0
    except SystemExit as exit:
        status = exit.code if isinstance(exit.code, int) else 1
    except BaseException:
        traceback.print_exc()
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.main_thread():
            thread.join()
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)  # to clean up all that was imported takes longer than the command


def _above(descriptor: int, number: int) -> int:
    """The same where no other one will be put."""
    if descriptor > number:
        return descriptor
    import fcntl

    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD, number + 1)
    os.close(descriptor)
    return copy


def _end_with_parent() -> None:
    """When the tests are killed, the server ends, and with it all that it has forked."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _cli() -> Callable[[], None]:
    import tieline.cli.app
    from tieline.cli import main

    for module in pkgutil.walk_packages(tieline.cli.__path__, "tieline.cli."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for name in LATER:
        import_module(name)
    with redirect_stdout(io.StringIO()):
        tieline.cli.app.start(["--version"])  # what is computed at the first use stays too
    return main


def _hub() -> Callable[[], int]:
    from tieline.bootstrap.__main__ import load

    main = load()
    return lambda: main(sys.argv[1])


if __name__ == "__main__":
    serve("hub" if sys.argv[1] == "hub" else "cli", sys.argv[2])
