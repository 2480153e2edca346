"""A hub that counts what its own code reads from files, SQLite apart: `python counting_hub.py ORDER FILE` writes the
number of bytes into the file when it ends."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tieline.bootstrap import daemon

count = 0


def counting(read: Callable[..., bytes]) -> Callable[..., bytes]:
    def counted(*arguments: Any) -> bytes:
        global count
        data = read(*arguments)
        count += len(data)
        return data

    return counted


if __name__ == "__main__":
    os.read, os.pread = counting(os.read), counting(os.pread)
    status = daemon.main(sys.argv[1])
    Path(sys.argv[2]).write_text(str(count))
    sys.exit(status)
