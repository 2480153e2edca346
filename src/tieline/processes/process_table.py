"""The process table of the kernel: parents, children and marks. Imports little, and only the standard library: the
guard and every reaper load it."""

import os
import signal
from contextlib import suppress

from ..environment import MARK
from .libc import call_libc

RUN_AS = "TIELINE_RUN_AS"
"""In the environment that a child is to have: the user it shall run as. The child itself does not get it."""

GUARD = "tieline-guard"
REAPER = "tieline-reaper"
"""The names that they give themselves. Anybody may take such a name: it only ever takes rights away."""

MAX_STAT = 4096
"""Bytes of a process's line in /proc, which has some fifty numbers and a short name."""

_SET_DUMPABLE, _SET_NAME, _SET_CHILD_SUBREAPER = 4, 15, 36


class ProcessInfo:
    """What /proc says of a process. `start` tells it from a later one with the same number."""

    __slots__ = ("name", "parent", "start", "state", "terminal")

    def __init__(self, stat: bytes) -> None:
        """Raises ValueError and IndexError for what is no such line."""
        head, _, rest = stat.rpartition(b")")
        fields = rest.split()
        self.name = head.partition(b"(")[2].decode(errors="replace")  # may itself have parentheses
        self.state = fields[0].decode()
        self.parent = int(fields[1])
        self.terminal = int(fields[4])  # the number of the terminal that controls it; 0: none
        self.start = int(fields[19])

    @property
    def over(self) -> bool:
        return self.state in "ZX"


def process_info(pid: int) -> ProcessInfo | None:
    """None: there is none of that number, or it cannot be seen."""
    try:
        return ProcessInfo(read_entry(pid, "stat", MAX_STAT))
    except (OSError, ValueError, IndexError):
        return None


def process_key(pid: int) -> str:
    """What no other process is ever called, as long as the machine runs. Empty: it is over, or cannot be seen."""
    info = process_info(pid)
    return "" if info is None or info.over else f"{pid}-{info.start}"


def running_process(key: str) -> int:
    """The number of the process of that `process_key`. 0: it is over."""
    number = key.partition("-")[0]
    return int(number) if number.isdigit() and process_key(int(number)) == key else 0


def read_entry(pid: int, name: str, limit: int) -> bytes:
    """A file of /proc. Without a file object, which takes as long again: every connection at the owner's socket is
    looked at."""
    file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, limit)
    finally:
        os.close(file)


def all_processes() -> list[int]:
    """Empty where there is no /proc."""
    with suppress(OSError):
        return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]  # noqa: PTH208
    return []


def children() -> list[int]:
    """Our own child processes, also those that are over and not yet reaped."""
    me = os.getpid()
    pids = _children(me)
    if pids is not None:
        return pids
    return [pid for pid in all_processes() if (info := process_info(pid)) and info.parent == me]


def _children(pid: int) -> list[int] | None:
    """Of a process with one thread. None: this kernel does not list them, or there is no such process."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:  # noqa: PTH123
            return [int(child) for child in file.read().split()]
    except OSError:
        return None


def only_child(root: int, pid: int) -> bool:
    """Whether it is the only one below that reaper, if it is over and not yet reaped. False also where that cannot be
    told. A few microseconds, where all processes of the machine would take milliseconds to look at."""
    # Twice: the kernel may leave one out while another is being reaped.
    return _children(root) == [pid] and _children(root) == [pid]


def descendants(*roots: int) -> list[int]:
    """All running descendants of these processes."""
    families: dict[int, list[int]] = {}
    over: set[int] = set()
    for pid in all_processes():
        if info := process_info(pid):
            families.setdefault(info.parent, []).append(pid)
            if info.over:
                over.add(pid)
    result: list[int] = []
    waiting = list(roots)
    while waiting:
        # Each family once: the table was not read at one moment, so it may contain a circle.
        for pid in families.pop(waiting.pop(), ()):
            waiting.append(pid)
            if pid not in over:
                result.append(pid)
    return result


def marked(marks: set[str]) -> list[int]:
    """Processes that carry one of the marks."""
    needles = [f"{MARK}={mark}\0".encode() for mark in marks]
    pids: list[int] = []
    for pid in all_processes() if needles else ():
        if pid != os.getpid():
            with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
                environ = file.read()
                if any(needle in environ for needle in needles):
                    pids.append(pid)
    return pids


def kill(groups: list[int], marks: set[str], number: int, reapers: tuple[int, ...] = ()) -> bool:
    """Signal these groups, all that carry the marks and all below the reapers, each once: to many agents a second
    SIGTERM means to drop everything. Whether there was anyone."""
    others = {pid for pid in (*marked(marks), *(descendants(*reapers) if reapers else ())) if _group(pid) not in groups}
    anyone = False
    for group in groups:
        with suppress(OSError):
            os.killpg(group, number)
            anyone = True
    for pid in others:
        anyone = _signal(pid, number) or anyone
    return anyone


def end_below(root: int, number: int) -> bool:
    """Signal all below it. Whether there was anyone."""
    anyone = False
    for pid in descendants(root):
        anyone = _signal(pid, number) or anyone
    return anyone


def _group(pid: int) -> int:
    with suppress(OSError):
        return os.getpgid(pid)
    return 0


def _signal(pid: int, number: int) -> bool:
    with suppress(OSError):
        os.kill(pid, number)
        return True
    return False


def reap(*, but: int = 0) -> set[int]:
    """Take note of children of ours that are over, so that they do not stay as zombies; `but` is kept as one."""
    over: set[int] = set()
    for pid in children():
        if pid != but:
            with suppress(ChildProcessError):
                over.add(os.waitpid(pid, os.WNOHANG)[0])
    return over


def adopt(name: str = "") -> bool:
    """Become the subreaper of all below us and, if there is a name, known by it. Whether this system has such a thing.

    From now on nobody but root can read the memory of this process or steer it.
    """
    held = _prctl(_SET_CHILD_SUBREAPER, 1) and _prctl(_SET_DUMPABLE, 0)
    return held and (not name or _prctl(_SET_NAME, name.encode() + b"\0"))


def _prctl(option: int, value: int | bytes) -> bool:
    return call_libc("prctl", option, value, 0, 0, 0) == 0


def unignore() -> None:
    """In a child that is about to become another program: the signals as every program expects them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
