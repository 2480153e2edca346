"""Reads files that others may have made: never waits on a pipe, never reads more than the bound."""

import os
import stat


def read_regular(path: str | os.PathLike[str], limit: int) -> bytes:
    """At most `limit` bytes of a regular file. Raises OSError, also for pipes, sockets and devices, whose opening or
    reading could wait for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{os.fspath(path)} is not a regular file")
        parts: list[bytes] = []
        while limit > 0 and (part := os.read(descriptor, min(limit, 1024 * 1024))):
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
