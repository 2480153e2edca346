"""The lock of a state directory: one hub or node at a time, how it is started, and what it says when it runs.

Light to import: the commands that ask about the process, or end it, need none of its parts.
"""

import fcntl
import os
import signal
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from .. import paths, state_directory
from ..client.hub_address import RunningHub
from ..errors import TielineError
from ..safe_file_write import replace_private_file

REJOIN = signal.SIGUSR1
"""Tells a hub that this machine joined another one, or left it: it looks at `places.node_file` again."""


class StartOptions(Struct, frozen=True, kw_only=True):
    """What shall run, as it is told to a process in the background."""

    what: Literal["hub", "node"] = "hub"
    node: bool = True  # with a node in the same process
    host: str = ""
    port: int | None = None
    insecure: bool = False
    bus: str = ""  # instead of the configured one
    nats: bool = False  # on a nats-server of its own
    ready: int = -1  # the descriptor to say on that it runs


class StartResult(Struct, frozen=True, kw_only=True):
    """Said when it runs, or why it does not."""

    url: str = ""
    login: str = ""  # a one-time link to the page
    phone: str = ""  # the way that phones come by, if one is set up
    waiting: tuple[str, ...] = ()  # why channels wait for a person
    problem: str = ""
    hint: str = ""


class AlreadyRunning(TielineError):
    def __init__(self, running: RunningHub | None) -> None:
        where = f" at {running.url} (process {running.pid})" if running else ""
        super().__init__(f"Tieline already runs{where}", hint="See `tieline status`; `tieline down` ends it.")
        self.running = running


# --- one per state directory ------------------------------------------------------------------------------


def lock_file(env: Mapping[str, str]) -> Path:
    return paths.state(env) / "running.lock"


@contextmanager
def single_instance(env: Mapping[str, str]) -> Generator[None]:
    """Held while it runs. Raises AlreadyRunning."""
    path = lock_file(env)
    state_directory.make(env)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(read_running(env)) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def running_pid(env: Mapping[str, str]) -> int:
    """The process that runs here, 0 for none. What it wrote down may be older than it: the lock is the truth."""
    try:
        descriptor = os.open(lock_file(env), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return 0
    except BlockingIOError:
        text = os.pread(descriptor, 32, 0).strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(descriptor)


def read_running(env: Mapping[str, str]) -> RunningHub | None:
    """The hub that runs here, as it described itself."""
    pid = running_pid(env)
    try:
        running = msgspec.json.decode(paths.running_file(env).read_bytes(), type=RunningHub)
    except (OSError, msgspec.MsgspecError):
        return None
    return running if running.pid == pid else None


@contextmanager
def running_file(env: Mapping[str, str], running: RunningHub) -> Generator[None]:
    path = paths.running_file(env)
    replace_private_file(path, msgspec.json.encode(running))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
