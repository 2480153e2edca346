"""Which process, of which user, is at the other end of a unix socket. The kernel says it."""

import socket
import struct
import sys

_LOCAL_PEERCRED, _LOCAL_PEERPID = 1, 2  # macOS


def peer_process(connection: socket.socket) -> tuple[int, int]:
    """Process and user, as they were when it connected or began to listen. Raises OSError."""
    if sys.platform == "darwin":
        (pid,) = struct.unpack("i", connection.getsockopt(0, _LOCAL_PEERPID, 4))
        _, uid = struct.unpack("II", connection.getsockopt(0, _LOCAL_PEERCRED, 8))
        return pid, uid
    pid, uid, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid
