"""A hub that counts what its own code reads from files, SQLite apart, and what the daemon of Codex tells it:
`python counting_hub.py ORDER FILE` writes both numbers of bytes into the file when it ends."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from websockets.asyncio import client
from websockets.asyncio.client import ClientConnection

from tieline.bootstrap.__main__ import load

read_size = 0
received = 0


def counting(read: Callable[..., bytes]) -> Callable[..., bytes]:
    def counted(*arguments: Any) -> bytes:
        global read_size
        data = read(*arguments)
        read_size += len(data)
        return data

    return counted


class CountingConnection(ClientConnection):
    async def recv(self, decode: bool | None = None) -> Any:
        global received
        data = await super().recv(decode)
        received += len(data)
        return data


if __name__ == "__main__":
    main = load()
    os.read, os.pread = counting(os.read), counting(os.pread)
    client.ClientConnection = CountingConnection
    status = main(sys.argv[1])
    Path(sys.argv[2]).write_text(f"{read_size} {received}")
    sys.exit(status)
