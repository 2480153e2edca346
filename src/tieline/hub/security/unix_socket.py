"""The owner's way in on this machine: a unix socket that nobody else can open, in a folder that nobody else can enter.

`paths.socket_file` says where; the hub writes it down as well (`client/hub_address.py`).
"""

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from ...errors import UsageError


class OwnerSocket:
    """The socket, bound and not yet listening. `close` takes it away, unless another hub has put its own there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _own_folder(path.parent)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with suppress(FileNotFoundError):
                path.unlink()  # of a hub that died without a word: one runs per state folder
            self.socket.bind(os.fspath(path))
            path.chmod(0o600)
            self._inode = path.lstat().st_ino
            self.socket.setblocking(False)
        except OSError as error:
            self.socket.close()
            raise UsageError(f"cannot make the socket {path}: {error.strerror}", field="TIELINE_HOME") from None

    def close(self) -> None:
        self.socket.close()
        with suppress(FileNotFoundError):  # from Python 3.13 on, asyncio takes it away with its server
            if self.path.lstat().st_ino != self._inode:
                return
            self.path.unlink()
        with suppress(OSError):  # there may be more in the folder
            self.path.parent.rmdir()


def _own_folder(folder: Path) -> None:
    """Makes the folder, or checks that it is ours: in a temporary folder any user could have made one of that name."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise UsageError(f"{folder} belongs to somebody else", field="TIELINE_HOME", hint="Remove it.")
    if status.st_mode & 0o077:
        folder.chmod(0o700)
