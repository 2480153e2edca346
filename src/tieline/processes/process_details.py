"""More of what /proc says of processes that are not ours, and a signal to one that waits for it."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from .process_table import process_info, process_key, read_entry, running_process

MAX_ARGUMENTS, MAX_ENVIRONMENT, MAX_STATUS = 64 << 10, 256 << 10, 16 << 10
MAX_FILES = 4096
"""Open files of a process that are looked at."""


def began_at(ticks: int) -> float:
    """When a process began whose `ProcessInfo.start` is that."""
    booted_at = time.time() - time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    return booted_at + ticks / os.sysconf("SC_CLK_TCK")


def is_own(pid: int) -> bool:
    """Whether it runs as the user that we run as."""
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()  # noqa: PTH116 (many are looked at)
    except OSError:
        return False


def program_of(pid: int) -> str:
    """The file that it runs. Empty: it is over, or cannot be seen."""
    return _link(f"/proc/{pid}/exe").removesuffix(" (deleted)")  # another version was installed meanwhile


def directory_of(pid: int) -> str:
    return _link(f"/proc/{pid}/cwd")


def arguments_of(pid: int) -> list[str]:
    return _words(pid, "cmdline", MAX_ARGUMENTS)


def environment_of(pid: int) -> dict[str, str]:
    """As it was when it began."""
    return dict(word.split("=", 1) for word in _words(pid, "environ", MAX_ENVIRONMENT) if "=" in word)


def open_files(pid: int) -> list[str]:
    with suppress(OSError):
        names = os.listdir(f"/proc/{pid}/fd")[:MAX_FILES]  # noqa: PTH208
        return [_link(f"/proc/{pid}/fd/{name}") for name in names]
    return []


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether it has a handler for that signal. One without would die of it, or ignore it."""
    with suppress(OSError, ValueError, IndexError):
        for line in read_entry(pid, "status", MAX_STATUS).splitlines():
            if line.startswith(b"SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def signal_if_caught(key: str, number: signal.Signals) -> bool:
    """Signal the process of that `process_key`, and no later one with its number. Whether it was."""
    if not hasattr(os, "pidfd_open") or not (pid := running_process(key)):
        return False
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if process_key(pid) != key or not catches(pid, number):
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def children_of(pid: int, among: list[int]) -> list[int]:
    """Those of these processes that it started."""
    return [each for each in among if (info := process_info(each)) and info.parent == pid]


def _words(pid: int, name: str, limit: int) -> list[str]:
    try:
        return read_entry(pid, name, limit).decode(errors="replace").removesuffix("\0").split("\0")
    except OSError:
        return []


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""
