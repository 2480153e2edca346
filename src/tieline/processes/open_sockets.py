"""Who listens on this machine, and how many are connected to a socket: as Linux tells it."""

import os
from contextlib import suppress
from pathlib import Path

_LISTENING, _CONNECTED = "0A", "03"


def listening_ports() -> set[int]:
    """The TCP ports on which something listens on this machine. Empty: this system does not list them."""
    ports: set[int] = set()
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            rows = (line.split() for line in Path(file).read_text().splitlines()[1:])
            ports |= {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTENING}
    return ports


def connections_to(socket: Path) -> int:
    """How many are connected to a unix socket. -1: this system does not tell."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()
    except OSError:
        return -1
    path = os.path.realpath(socket)
    rows = (line.split(maxsplit=7) for line in lines)
    return sum(len(row) == 8 and row[5] == _CONNECTED and row[7] == path for row in rows)
