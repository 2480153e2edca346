"""The owner's socket: where it lies, and that nobody else can have put it there."""

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hub.conftest import running

from tieline.bootstrap.process_lock import running_file
from tieline.client import connect
from tieline.client.hub_address import RunningHub as Found
from tieline.errors import UsageError
from tieline.hub.security.unix_socket import OwnerSocket
from tieline.paths import LONGEST_SOCKET, socket_file


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder whose state folder is too deep for a socket's path. What lies in /tmp for it is taken away."""
    path = tmp_path / ("d" * 60) / ("e" * 60)
    path.mkdir(parents=True)
    yield path
    folder = socket_file({"TIELINE_HOME": str(path / "state")}).parent
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)


async def test_a_hub_whose_state_folder_is_deep_is_found(deep: Path) -> None:
    async with running(deep) as hub:
        way = Path(hub.serving.socket)
        assert len(os.fsencode(way)) <= LONGEST_SOCKET and not way.is_relative_to(deep)
        assert [path.stat().st_mode & 0o777 for path in (way, way.parent)] == [0o600, 0o700]
        with running_file(hub.env, Found(hub.url, os.getpid(), socket=str(way))):
            async with connect(hub.env) as client:
                assert (await client.me()).device.id == "owner"
    assert not way.parent.exists()


def test_each_state_folder_has_a_socket_of_its_own(tmp_path: Path) -> None:
    short, first, second = ({"TIELINE_HOME": f"/s{name}"} for name in ("", "/a" * 60, "/b" * 60))
    assert socket_file(short).is_relative_to("/s")
    assert socket_file(first) != socket_file(second)


def test_the_folders_that_are_made_for_it_are_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "own" / "hub.sock"
    before = os.umask(0)
    try:
        local = OwnerSocket(path)
    finally:
        os.umask(before)
    assert [folder.stat().st_mode & 0o777 for folder in (path.parent, path.parent.parent)] == [0o700, 0o700]
    local.close()


def test_all_folders_above_it_are_made(tmp_path: Path) -> None:
    path = tmp_path / "none" / "of" / "these" / "hub.sock"
    local = OwnerSocket(path)
    assert path.is_socket()
    assert local.socket.gettimeout() == 0.0, "the loop does not wait for it"
    local.close()


@pytest.mark.parametrize("taken", [False, True], ids=["still there", "taken away"])
def test_its_folder_goes_with_it(tmp_path: Path, taken: bool) -> None:
    """Newer Pythons take the socket away when its server closes; another hub's socket stays, and its folder."""
    path = tmp_path / "own" / "hub.sock"
    local = OwnerSocket(path)
    if taken:
        path.unlink()
    local.close()
    assert not path.parent.exists()
    older = OwnerSocket(path)
    newer = OwnerSocket(path)
    older.close()
    assert path.is_socket()
    newer.close()
    assert not path.parent.exists()


@pytest.mark.parametrize("what", ["a link", "a file", "a folder"])
def test_what_somebody_else_put_there_is_refused(deep: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In /tmp anybody can be there first."""
    path = socket_file({"TIELINE_HOME": str(deep / "state")})
    if what == "a link":
        path.parent.symlink_to(deep)
    elif what == "a file":
        path.parent.touch()
    else:
        path.parent.mkdir()
        other = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: other)
    try:
        with pytest.raises(UsageError, match="belongs to somebody else"):
            OwnerSocket(path)
        assert not list(deep.iterdir())
    finally:
        if what != "a folder":
            path.parent.unlink()


def test_a_folder_that_others_can_enter_is_closed(deep: Path) -> None:
    path = socket_file({"TIELINE_HOME": str(deep / "state")})
    path.parent.mkdir()
    path.parent.chmod(0o777)
    local = OwnerSocket(path)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    local.close()


def test_a_hub_that_ends_leaves_the_socket_of_the_next_one(tmp_path: Path) -> None:
    first, second = (OwnerSocket(tmp_path / "own" / "hub.sock") for _ in range(2))
    first.close()
    second.socket.listen()
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(second.path))
    second.close()
    assert not second.path.exists()


def test_a_socket_that_cannot_be_made_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "own" / "socket"
    path.mkdir(mode=0o700, parents=True)
    path.parent.chmod(0o700)
    made: list[socket.socket] = []
    make = socket.socket

    def noted(family: int, kind: int) -> socket.socket:
        made.append(make(family, kind))
        return made[-1]

    monkeypatch.setattr(socket, "socket", noted)
    with pytest.raises(UsageError, match="cannot make the socket"):
        OwnerSocket(path)
    assert [socket.fileno() for socket in made] == [-1]
