"""A child process: its three pipes and its exit status. Light: it is imported before asyncio."""

import _socket
import os
import select
from contextlib import suppress

from . import process_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from io import FileIO

KILLED = -9
"""What a child's status is when its reaper was killed, and it with it."""


class Reaped:
    """One below a reaper, which tells of its end on `control`."""

    def __init__(self, control: "_socket.socket", reply: bytes, pipes: "tuple[FileIO, FileIO, FileIO]") -> None:
        line, _, self._heard = reply.partition(b"\n")  # one that ended at once has said so already
        self.pid, self.reaper, self._start, held = map(int, line.split())
        self.held = bool(held)
        """Whether what it leaves behind stays below its reaper."""
        self.stdin, self.stdout, self.stderr = pipes
        self.returncode: int | None = None
        self._control = control

    @property
    def reapers(self) -> tuple[int, ...]:
        """Its reaper, as long as no other process has the reaper's number."""
        info = process_table.process_info(self.reaper)
        return (self.reaper,) if info and info.start == self._start else ()

    @property
    def alone(self) -> bool:
        """Whether it is over and has left nothing: whatever it started would be below its reaper, as it still is."""
        return self.held and self.poll() is not None and process_table.only_child(self.reaper, self.pid)

    def poll(self) -> int | None:
        """Its status if it is over; it stays a zombie."""
        while self.returncode is None and self._control.fileno() >= 0:
            try:
                heard = self._control.recv(64, _socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError:
                heard = b""
            self._heard += heard
            if not heard:
                self.returncode = int(self._heard) if self._heard.endswith(b"\n") else KILLED
        return self.returncode

    def wait(self, timeout: float | None) -> bool:
        """Whether it is over within that time. None: wait for as long as it takes."""
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        while self.poll() is None:
            if not poller.poll(None if timeout is None else timeout * 1000):
                return False
        return True

    def watch(self) -> int | None:
        """A descriptor that is readable once it is over."""
        return self._control.fileno()

    def unwatch(self, descriptor: int) -> None: ...

    def close(self) -> None:
        """The reaper ends what may be left, and leaves. It is in nobody's way: the guard sees to it."""
        self._control.close()


class Spawned:
    """One that we started ourselves, where a system has no reapers."""

    held = False
    alone = False
    reapers: tuple[int, ...] = ()

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self._popen = popen
        self._status: int | None = None
        self.pid = popen.pid
        assert popen.stdin is not None and popen.stdout is not None and popen.stderr is not None
        self.stdin, self.stdout, self.stderr = popen.stdin, popen.stdout, popen.stderr

    @property
    def returncode(self) -> int | None:
        return self._status if self._popen.returncode is None else self._popen.returncode

    def poll(self) -> int | None:
        """Its status if it is over. It is not reaped where that can be helped: as long as it is a zombie, its group's
        number cannot become somebody else's."""
        if self._popen.returncode is None and self._status is None:
            try:
                ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            except ChildProcessError:  # somebody else did
                return self._popen.poll()
            except AttributeError:
                return self._popen.poll()
            if ended is not None:
                self._status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        return self.returncode

    def wait(self, timeout: float | None) -> bool:
        import subprocess

        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout=timeout)
        return self._popen.returncode is not None

    def watch(self) -> int | None:
        """None: it must be waited for in a thread."""
        try:
            return os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            return None

    def unwatch(self, descriptor: int) -> None:
        os.close(descriptor)

    def close(self) -> None: ...


AnyChild = Reaped | Spawned
