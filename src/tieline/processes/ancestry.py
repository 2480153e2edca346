"""From which agent a process descends.

Every agent's processes stay below its reaper, whatever they do to their environment, their session and their parents;
so it is enough to go up from one to the next. A reaper of ours names the agent. A reaper or guard of another Tieline on
this machine is known by its name: whose agent it is cannot be told, but that it is one can. Anybody may take such a
name, and only loses rights by it. An agent that kills its reaper and the guard comes to the daemon (`subreaper`).
"""

import os
import sys
from contextlib import suppress
from typing import NamedTuple

from . import process_table, spawn, subreaper

UNKNOWN = "unknown"
"""It descends from an agent of which no more can be told, or what it descends from could not be read."""
MOST = 512
"""Generations that are looked at: more are an attempt to get lost."""
ATTEMPTS = 20
"""At a parent that changes while it is looked at."""


class Ancestry(NamedTuple):
    agent: str | None  # the mark of our agent that it is or descends from; UNKNOWN; None: there is no agent above it
    processes: tuple[int, ...] = ()  # it and those above it, the nearest first, as far as they were looked at
    terminal: int = 0  # the number of the terminal that controls it; 0: none


def agent_ancestor(pid: int) -> str | None:
    """See `Ancestry.agent`."""
    return ancestry(pid).agent


def ancestry(pid: int) -> Ancestry:
    """The ancestry of a process. The caller makes sure that the number stays that process's meanwhile: it holds a
    pidfd, or checks afterwards."""
    if pid <= 0:  # of another namespace
        return Ancestry(UNKNOWN)
    info = process_table.process_info(pid)
    terminal = info.terminal if info is not None else 0
    if not spawn.REAPERS:
        return Ancestry(_by_mark(pid), (), terminal)
    ours = spawn.reapers()
    current, current_info, seen = pid, info, list[int]()
    agent: str | None = UNKNOWN
    while current_info is not None and len(seen) < MOST:
        seen.append(current)
        if current in ours or current_info.name in (process_table.REAPER, process_table.GUARD):
            agent = ours.get(current, UNKNOWN)
            break
        if current != pid and subreaper.has_orphans(current):  # of an agent that killed its reaper and the guard
            break
        if current_info.parent == 0:  # the first process, or one of the kernel's
            agent = None
            break
        current, current_info = _parent(current, current_info)
    return Ancestry(agent, tuple(seen), terminal)


def _parent(pid: int, info: process_table.ProcessInfo) -> tuple[int, process_table.ProcessInfo | None]:
    """The parent of a process at one moment: the parent may end meanwhile, and another process get its number."""
    for _ in range(ATTEMPTS):
        above = process_table.process_info(info.parent)
        if above is not None and above.start < info.start:  # nobody else had that number since
            return info.parent, above
        again = process_table.process_info(pid)
        if again is None or again.start != info.start:
            return pid, None
        if above is not None and again.parent == info.parent:
            return info.parent, above
        info = again
    return pid, None


def _by_mark(pid: int) -> str | None:
    """Where there are no reapers. Weaker: what leaves its group and empties its environment is not seen."""
    groups = {group: mark for mark, group in spawn.live().items()}
    with suppress(OSError):
        for group in (os.getpgid(pid), os.getsid(pid)):
            if group in groups:
                return groups[group]
    return _environ_mark(pid)


def _environ_mark(pid: int) -> str | None:
    import subprocess

    if sys.platform == "linux":
        return next((mark for mark in spawn.live() if pid in process_table.marked({mark})), None)
    try:
        shown = subprocess.run(
            ["/bin/ps", "-E", "-ww", "-o", "command=", "-p", str(pid)],
            capture_output=True,
            timeout=5,
            env={},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    for word in shown.stdout.decode(errors="replace").split():
        name, _, mark = word.partition("=")
        if name == process_table.MARK:
            return mark if mark in spawn.live() else UNKNOWN
    return None
