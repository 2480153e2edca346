"""Starts a reaper for every child, and ends them when the process that they are started for is gone.

One guard serves one Tieline process, whose id it is told. It stays small, so that a fork of it costs little. It reads
lines on its standard input, a socket: `*MARK`, with a control socket, asks for a reaper. Where a system knows no
subreapers Tieline starts its children itself, and tells of them with `+GROUP MARK` and `-MARK`; group 0 announces one
that is about to be started. When the input ends, or its parent dies by SIGKILL, the guard sees to it that nothing
stays: by reaper, by group, and by the mark in the environment.

It is a subreaper as well: what an agent whose reaper was killed left behind comes here, and is ended.
"""

import _socket
import os
import select
import signal
import time
from contextlib import suppress

from . import process_table, reaper

GRACE_S = reaper.GRACE_S
MOST = 16
"""Control sockets that come with one read."""


class Guard:
    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._input = _socket.socket(fileno=0)
        self._gone: list[int] = []  # readable when the parent is gone
        self._reapers: set[int] = set()
        self._children: dict[str, int] = {}  # those without a reaper: mark → group
        self._controls: list[int] = []
        self._pending = b""

    def run(self) -> None:
        process_table.adopt(process_table.GUARD)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        with suppress(OSError, AttributeError):
            self._gone.append(os.pidfd_open(self._parent))
        if os.getppid() != self._parent:  # it died before we looked; its id may already be somebody else's
            self._gone = []
        self._wake, writing = os.pipe()
        for descriptor in (self._wake, writing):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        watched = [0, self._wake, *self._gone]
        while True:
            ready, _, _ = select.select(watched, [], [], None if os.getppid() == self._parent else 0)
            if self._wake in ready:
                self._look_after_orphans()
            elif 0 not in ready or not self._read():
                break
        self._end()

    def _read(self) -> bool:
        """What we are told. False: there is no more."""
        chunk, ancillary, _, _ = self._input.recvmsg(65536, _socket.CMSG_SPACE(MOST * 4))
        self._controls += reaper.descriptors(ancillary)
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        for line in lines:
            words = line[1:].decode().split()
            match line[:1]:
                case b"*" if self._controls:
                    self._fork(self._controls.pop(0))
                case b"+":
                    self._children[words[1]] = int(words[0])
                case _:
                    self._children.pop(words[0], None)
        return bool(chunk)

    def _fork(self, control: int) -> None:
        try:
            pid = os.fork()
        except OSError:  # too many processes: whoever asked sees its socket closed
            os.close(control)
            return
        if pid:
            self._reapers.add(pid)
            os.close(control)
            return
        try:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, 0)  # our parent's input is not ours
            for descriptor in (nowhere, self._wake, signal.set_wakeup_fd(-1), *self._controls):
                os.close(descriptor)
            reaper.serve(_socket.socket(fileno=control), self._gone)
        finally:
            os._exit(0)

    def _look_after_orphans(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake, 4096)
        self._reapers -= process_table.reap()  # not those that a look at our children leaves out, as it may
        for stray in set(process_table.children()) - self._reapers:  # its reaper was killed
            with suppress(OSError):
                os.kill(stray, signal.SIGKILL)

    def _end(self) -> None:
        if self._children:
            end(self._children)
        deadline = time.monotonic() + GRACE_S + 2.0  # the reapers have seen it as well
        while self._reapers and time.monotonic() < deadline:
            self._look_after_orphans()
            time.sleep(0.02)
        for _ in range(reaper.ROUNDS):
            if not process_table.end_below(os.getpid(), signal.SIGKILL):
                return
            time.sleep(0.02)
            process_table.reap()


def end(children: dict[str, int]) -> None:
    groups, marks = [group for group in children.values() if group], set(children)
    announced = len(groups) < len(children)  # it may be between fork and exec: not yet to be seen
    process_table.kill(groups, marks, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline and (process_table.kill(groups, marks, 0) or announced):
        time.sleep(0.02)
    for _ in range(reaper.ROUNDS):  # what forks while it is being killed needs another look
        if not process_table.kill(groups, marks, signal.SIGKILL):
            return
        time.sleep(0.02)


def main(parent: int) -> None:
    Guard(parent).run()
