"""The durable log under everything: subjects, records, tables. See `base` for the contract.

`open_bus(url)` picks the implementation and imports it when it is needed:

    sqlite:///path/to/file    one process, one file, nothing to run
    sqlite://:memory:         gone when it is closed
    nats://host:port[,host:port…][?replicas=3]    JetStream
"""

from contextlib import AbstractAsyncContextManager
from importlib import import_module

from ..errors import BadSubject, BusClosed, BusError, BusFull, BusLocked, BusUnavailable, Conflict, RecordTooLarge
from ..errors import UsageError as _UsageError
from .base import (
    DEDUPE_S,
    MAX_RECORD,
    Announcement,
    Bus,
    Change,
    Entry,
    Record,
    Stats,
    Table,
)

__all__ = [
    "DEDUPE_S",
    "MAX_RECORD",
    "Announcement",
    "BadSubject",
    "Bus",
    "BusClosed",
    "BusError",
    "BusFull",
    "BusLocked",
    "BusUnavailable",
    "Change",
    "Conflict",
    "Entry",
    "Record",
    "RecordTooLarge",
    "Stats",
    "Table",
    "open_bus",
    "read_saved_tables",
]

_SCHEMES = {"sqlite": "sqlite", "nats": "nats", "tls": "nats"}


def open_bus(url: str) -> AbstractAsyncContextManager[Bus]:
    """The bus lives inside the context: `async with open_bus(url) as bus`."""
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in _SCHEMES:
        known = "sqlite:///path, sqlite://:memory: or nats://host:port"
        raise _UsageError(f"unsupported bus URL scheme {scheme!r}", field="bus", hint=f"Use {known}.")
    opened: AbstractAsyncContextManager[Bus] = import_module(f".{_SCHEMES[scheme]}", __name__).open_bus(url)
    return opened


def read_saved_tables(url: str, *names: str) -> dict[str, list[bytes]]:
    """The values of tables as they are now, without opening the bus. Raises BusUnavailable: only of a file."""
    scheme, _, path = url.partition("://")
    if scheme != "sqlite":
        raise BusUnavailable(f"only a running hub can read a bus of scheme {scheme!r}")
    saved: dict[str, list[bytes]] = import_module(".sqlite.read_only_tables", __name__).read_saved_tables(path, *names)
    return saved
