"""Ends child processes when the process that started them is gone. Standard library only; run as a script.

One guard watches over one Tieline process, whose id is its argument. It reads `+GROUP MARK` and `-MARK` lines on its
standard input; group 0 announces a child that is about to be started. When that ends, or its parent dies by SIGKILL,
it ends every group it still knows, and every process that carries one of the marks in its environment: agents start
commands in sessions of their own, which a group signal does not reach.
"""

import os
import select
import signal
import sys
import time
from contextlib import suppress

MARK = "TIELINE_CHILD"
"""The environment variable that marks a child and, inherited, all its descendants."""

GRACE_S = 1.0
"""Between SIGTERM and SIGKILL: enough for an agent to write its session file."""


def marked(marks: set[str]) -> list[int]:
    """Processes that carry one of the marks. Empty where there is no /proc."""
    needles = [f"{MARK}={mark}\0".encode() for mark in marks]
    found: list[int] = []
    with suppress(OSError):
        for entry in os.listdir("/proc"):  # noqa: PTH208 (pathlib costs more to import than all of this)
            if entry.isdigit() and int(entry) != os.getpid():
                with suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:  # noqa: PTH123
                    environ = file.read()
                    if any(needle in environ for needle in needles):
                        found.append(int(entry))
    return found


def kill(groups: list[int], marks: set[str], number: int) -> bool:
    """Signal all of them, each once: to many agents a second SIGTERM means to drop everything. Whether there was
    anyone."""
    anyone = False
    for group in groups:
        with suppress(OSError):
            os.killpg(group, number)
            anyone = True
    for pid in marked(marks):
        with suppress(OSError):
            if os.getpgid(pid) not in groups:
                os.kill(pid, number)
                anyone = True
    return anyone


def end(children: dict[str, int]) -> None:
    groups, marks = [group for group in children.values() if group], set(children)
    announced = len(groups) < len(children)  # it may be between fork and exec: not yet to be seen
    kill(groups, marks, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline and (kill(groups, marks, 0) or announced):
        time.sleep(0.02)
    for _ in range(50):  # what forks while it is being killed needs another look
        if not kill(groups, marks, signal.SIGKILL):
            return
        time.sleep(0.02)


def main(parent: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watched: list[int] = [0]
    with suppress(OSError, AttributeError):
        watched.append(os.pidfd_open(parent))
    if os.getppid() != parent:  # it died before we looked; its id may already be somebody else's
        watched = [0]
    children: dict[str, int] = {}
    pending = b""
    while True:
        ready, _, _ = select.select(watched, [], [], None if os.getppid() == parent else 0)
        chunk = os.read(0, 65536) if 0 in ready else b""
        if not chunk:
            break
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            words = line[1:].decode().split()
            if line[:1] == b"+":
                children[words[1]] = int(words[0])
            else:
                children.pop(words[0], None)
    if children:
        end(children)


if __name__ == "__main__":
    main(int(sys.argv[1]))
    sys.exit(0)
