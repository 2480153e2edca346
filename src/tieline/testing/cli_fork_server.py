"""`tieline` in a process that is forked from one with the imports done.

What a command does is the same; its start takes a tenth. Whatever is about the start itself, about signals or about a
terminal starts the program.
"""

import atexit
import gc
import io
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NoReturn

MAX_REQUEST = 128 * 1024
CHUNK = 1 << 16
LOCALE = {"LANG": "C.UTF-8"}
"""Python reads it once, at its start."""
LATER = ("importlib.metadata", "rich.markdown", "rich.table", "tieline.client", "tieline.config",
         "tieline.drivers.registry", "tieline.harnesses.registry", "tomlkit")  # fmt: skip
"""What most commands import when they run."""


def can_run(env: Mapping[str, str], given: str) -> bool:
    started_alike = all(env.get(name) == LOCALE.get(name) for name in env if name.startswith(("LANG", "LC_", "PYTHON")))
    return started_alike and len(given) < 4096 and hasattr(socket, "send_fds")


@cache
def server() -> "ForkServer":
    """The one of this process."""
    return ForkServer()


class ForkServer:
    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="cli-")
        self._path = f"{self._folder.name}/socket"
        argv = [sys.executable, "-P", "-m", __name__, self._path]
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

    def run(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], given: str, timeout: float
    ) -> "subprocess.CompletedProcess[str]":
        """Run the CLI as subprocess.run would, in a session of its own."""
        deadline = time.monotonic() + timeout
        request = json.dumps({"argv": list(argv), "cwd": str(cwd), "env": dict(env)}).encode()
        pipes = [os.pipe() for _ in range(3)]
        (stdin, writing), (out, stdout), (err, stderr) = pipes
        pid = 0
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as call:
            try:
                call.settimeout(timeout)
                call.connect(self._path)
                socket.send_fds(call, [request], [stdin, stdout, stderr])
                for descriptor in (stdin, stdout, stderr):
                    os.close(descriptor)
                pid = int(call.recv(CHUNK))
                with suppress(BrokenPipeError):
                    os.write(writing, given.encode())
                os.close(writing)
                outputs = _read_all((out, err), deadline)
                call.settimeout(max(0.0, deadline - time.monotonic()))
                status = int(call.recv(CHUNK))
            except TimeoutError:
                if pid:
                    os.killpg(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(argv), timeout) from None
            finally:
                os.close(out)
                os.close(err)
        return subprocess.CompletedProcess(list(argv), status, *(text.decode() for text in outputs))


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


def serve(path: str) -> None:
    """Fork one process per call, and tell its number and then its status; until standard input ends."""
    _import_all()
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
                request, descriptors, _, _ = socket.recv_fds(call, MAX_REQUEST, 3)
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
                    _become(descriptors, **json.loads(request))
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


def _become(descriptors: Sequence[int], argv: list[str], cwd: str, env: dict[str, str]) -> NoReturn:
    os.setsid()  # no controlling terminal either
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv = argv
    from tieline.cli import main

    status = 1
    try:
        main()
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


def _import_all() -> None:
    import tieline.cli.app

    for module in pkgutil.walk_packages(tieline.cli.__path__, "tieline.cli."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for name in LATER:
        import_module(name)
    with redirect_stdout(io.StringIO()):
        tieline.cli.app.start(["--version"])  # what is computed at the first use stays too


if __name__ == "__main__":
    serve(sys.argv[1])
