"""Reads tables from the file of a bus without opening the bus."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from ...errors import BusUnavailable

WAIT_S = 1.0
"""For a writer who has the file at that moment."""


def read_saved_tables(path: str, *names: str) -> dict[str, list[bytes]]:
    """The values of each table. No file: nothing is saved. Raises BusUnavailable."""
    saved: dict[str, list[bytes]] = {name: [] for name in names}
    if not Path(path).exists():
        return saved
    query = "SELECT tbl, value FROM entries WHERE tbl = ? AND (expires IS NULL OR expires > ?)"
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=WAIT_S)) as connection:
            for name in names:
                saved[name] = [bytes(value) for _, value in connection.execute(query, (name, time.time()))]
    except sqlite3.Error as error:
        raise BusUnavailable(f"{path} cannot be read: {error}") from None
    return saved
