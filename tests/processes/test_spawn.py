"""A child is started by a reaper, which is told what to start."""

import _socket
import os
import socket
from typing import Any

import pytest

from tieline.processes import spawn
from tieline.processes.async_process import Process


class ReaperThatIsQuick(socket.socket):
    """Our end of the control socket; the reaper has answered and left before we do anything else."""

    reaper: socket.socket

    def sendmsg(self, *given: Any) -> int:
        sent = super().sendmsg(*given)
        self.reaper.recv(65536)
        self.reaper.send(b"!13 program\n")
        self.reaper.close()
        return sent


@pytest.mark.skipif(not spawn.REAPERS, reason="no reapers on this system")
def test_why_nothing_was_started_is_told_also_by_a_reaper_that_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    make = _socket.socketpair

    def pair() -> tuple[socket.socket, socket.socket]:
        ours, reaper = make()
        control = ReaperThatIsQuick(fileno=ours.detach())
        control.reaper = socket.socket(fileno=reaper.detach())
        return control, socket.socket(fileno=os.dup(control.reaper.fileno()))

    def send(line: str, descriptor: int) -> None:
        pass

    monkeypatch.setattr(_socket, "socketpair", pair)
    monkeypatch.setattr(spawn.guard_client, "send", send)
    with pytest.raises(PermissionError) as refused:
        Process.start(["/bin/true"], cwd="/", env={})
    assert refused.value.filename == "/bin/true"
