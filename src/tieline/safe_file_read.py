"""Reads files that others may have made: never waits on a pipe, never reads more than the bound."""

import os
import stat


def read_regular(path: str | os.PathLike[str], limit: int, *, last: bool = False) -> bytes:
    """At most `limit` bytes of a regular file: the first, or the last. Raises OSError, also for pipes, sockets and
    devices, whose opening or reading could wait for ever."""
    return _read(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), path, limit, last=last)


def _read(descriptor: int, path: str | os.PathLike[str], limit: int, *, last: bool = False) -> bytes:
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(f"{os.fspath(path)} is not a regular file")
        if last:
            os.lseek(descriptor, max(0, about.st_size - limit), os.SEEK_SET)
        parts: list[bytes] = []
        while limit > 0 and (part := os.read(descriptor, min(limit, 1024 * 1024))):
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def read_inside(root: str, path: str, limit: int) -> bytes:
    """At most `limit` bytes of a regular file in a directory. Links count as what they point to, and none leads out:
    also not one that is laid while we read. Raises OSError."""
    base = os.path.realpath(root)
    inner = os.path.relpath(os.path.realpath(os.path.join(base, path)), base)  # noqa: PTH118 (`..` is for realpath)
    if inner == ".." or inner.startswith("../"):
        raise OSError(f"{path} is not inside {root}")
    return _read(open_file(base, inner), path, limit)


def open_file(base: str, inner: str) -> int:
    """A descriptor of a regular file below a folder, reached without following any link. Raises OSError."""
    folder = open_folder(base, os.path.dirname(inner))  # noqa: PTH120
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(os.path.basename(inner), flags, dir_fd=folder)  # noqa: PTH119
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{inner} is not a regular file")
    return descriptor


def open_folder(base: str, inner: str) -> int:
    """A descriptor of a folder below another, reached without following any link. Raises OSError."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(base, flags)
    for part in inner.split("/") if inner else ():
        try:
            below = os.open(part, flags, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
    return folder
