"""What the hub reads of the process at the other end of the owner's socket."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tieline.hub.security import local_peer
from tieline.hub.security.local_peer import MAX_CMDLINE, MAX_COMMAND, LocalPeer, peer_of
from tieline.processes.ancestry import Ancestry

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descent is read from /proc")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[socket.socket]:
    """The hub's end of a connection that this process made."""
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as ours:
        listening.bind(str(tmp_path / "a"))
        listening.listen()
        ours.connect(str(tmp_path / "a"))
        with listening.accept()[0] as theirs:
            yield theirs


@pytest.fixture(params=[None, "a session"])
def found(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Ancestry:
    """What the descent of this process is taken for."""
    found = Ancestry(request.param, (os.getpid(), 1), 7)

    def ancestry(pid: int) -> Ancestry:
        assert pid == os.getpid()
        return found

    monkeypatch.setattr(local_peer, "ancestry", ancestry)
    return found


def test_all_that_is_known_of_it_is_told(connection: socket.socket, found: Ancestry) -> None:
    peer = peer_of(connection)
    assert (peer.pid, peer.problem, peer.mark) == (os.getpid(), "", found.agent)
    assert (peer.cwd, peer.lineage, peer.terminal) == (str(Path.cwd()), found.processes, 7)
    assert peer.command and peer.via == f"pid {os.getpid()} {peer.command}"


def pidfd_is_known(connection: socket.socket) -> bool:
    """Whether the kernel gives a handle on the process that connected."""
    try:
        os.close(connection.getsockopt(socket.SOL_SOCKET, 77))
    except OSError:
        return False
    return True


@pytest.mark.usefixtures("found")
def test_the_process_is_held_while_it_is_looked_at(connection: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a handle, where the kernel has one to give: its number alone may become another process's."""
    held: list[int] = []

    def has_exited(handle: int) -> bool:
        told = Path(f"/proc/self/fdinfo/{handle}").read_text().split("\n")
        assert f"Pid:\t{os.getpid()}" in told
        held.append(handle)
        return False

    monkeypatch.setattr(local_peer, "_has_exited", has_exited)
    assert not peer_of(connection).problem
    assert len(held) == pidfd_is_known(connection)
    for handle in held:
        with pytest.raises(OSError):
            os.fstat(handle)


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize("error", [PermissionError("hidden"), ValueError("no such form")])
def test_what_cannot_be_read_is_nobody(
    connection: socket.socket, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def unreadable(pid: int) -> str:
        raise error

    monkeypatch.setattr(local_peer, "_cwd", unreadable)
    peer = peer_of(connection)
    assert "cannot tell" in peer.problem
    assert (peer.pid, peer.mark, peer.cwd, peer.lineage, peer.terminal) == (os.getpid(), None, "", (), 0)


@pytest.mark.parametrize(
    "words, told",
    [
        (["/usr/bin/curl", "-s", "x"], "curl -s x"),
        (["/usr/bin/python3", "/home/me/bin/tieline", "approve", "7"], "tieline approve 7"),
        (["/usr/bin/python3.11", "-m", "tieline"], "python3.11 -m tieline"),
        (["python3"], "python3"),
        (["/opt/node/", "x/y"], "node x/y"),
        (["x", "a\x1b[2J", "b\u202ec"], "x a [2J b c"),
        (["x" * MAX_COMMAND], "x" * MAX_COMMAND),
        (["x" * (MAX_COMMAND + 1)], "x" * (MAX_COMMAND - 1) + "…"),
        ([], ""),
    ],
)
def test_its_command_is_as_a_person_would_have_typed_it(
    words: list[str], told: str, connection: socket.socket, found: Ancestry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_entry(pid: int, name: str, limit: int) -> bytes:
        assert (pid, name, limit) == (os.getpid(), "cmdline", MAX_CMDLINE)
        return b"".join(word.encode() + b"\0" for word in words)

    monkeypatch.setattr(local_peer, "read_entry", read_entry)
    assert peer_of(connection).command == told


def test_one_without_a_command_is_its_number() -> None:
    assert LocalPeer(pid=5).via == "pid 5"
