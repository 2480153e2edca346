"""The daemon as the subreaper of its agents' orphans.

An agent that kills the guard and then its reaper leaves orphans without a reaper. They come to the daemon instead of
init: `ancestry` tells them from a person's processes, and the daemon kills them.

Only a daemon does this. A program that uses Tieline as a library may have orphans of its own.
"""

import os
import signal
from contextlib import suppress

from . import guard_client, process_table, spawn

_subreaper = 0
"""The process that became one; 0: none did."""


def become() -> None:
    """Orphans come to this process from now on; others of the same user can neither read its memory nor steer it."""
    global _subreaper
    if process_table.adopt():
        _subreaper = os.getpid()


def has_orphans(pid: int) -> bool:
    """Whether that is this process, and an agent's orphans may be its children: a guard that lives has them all."""
    return pid == _subreaper == os.getpid() and guard_client.was_lost()


def kill_orphans() -> None:
    """Call it whenever a child ends: the orphans come when their last reaper ends, and one by one as their parents
    are killed."""
    me = os.getpid()
    if not has_orphans(me) or me == 1:  # in a container everybody's orphans come to the first process
        return
    if orphans := _orphans():
        for pid in (*process_table.descendants(*orphans), *orphans):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _orphans() -> list[int]:
    """Our children, except the guard, running reapers and the processes of our own session: an agent begins a session
    of its own, and no process that it starts can enter ours. So a plugin still gets the exit status of a process that
    it started."""
    reapers = {pid for pid in spawn.reapers() if (info := process_table.process_info(pid)) and not info.over}
    return [
        pid
        for pid in process_table.children()
        if pid != guard_client.pid() and pid not in reapers and not _in_our_session(pid)
    ]


def _in_our_session(pid: int) -> bool:
    with suppress(OSError):
        return os.getsid(pid) == os.getsid(0)
    return False
