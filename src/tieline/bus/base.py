"""The bus contract. One body of tests holds every implementation to it (`tieline.testing.bus_contract`).

- `publish` returns when the record is durable, with its cursor. The same id again (in the same family of subjects,
  within DEDUPE_S) is the same record: nothing is stored and the first one's cursor comes back. Calls for one subject
  are stored in the order in which they were made, also when one does not wait for the other.
- `read` gives the records of a pattern in order: what is there after a cursor, then, if it follows, what comes,
  without a gap or a double. A slow reader holds nothing up and needs bounded memory: it reads on from the log.
- `table` keeps the latest value per key, with revisions to compare and an optional time to live.
- `trim` removes records for good. `first` and `last` say what is there.
- `announce` reaches the present listeners (`listen`) in every process on the bus, and is not stored. A slow listener
  loses the oldest announcements and delays no publisher. Announcements and records do not share subjects.

Cursors are ints that grow, with gaps; one belongs to the family that it was read from. Errors are in `tieline.errors`.
"""

import re
from asyncio import Future
from collections.abc import AsyncGenerator, Mapping
from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from ..errors import BadSubject, RecordTooLarge, UsageError

MAX_RECORD = 1024 * 1024
"""Bytes of one record's data: what a NATS server carries with `max_payload` raised to 2 MB."""

DEDUPE_S = 600
"""How long every bus remembers an id at least: a crash, a restart and a second try fit in it."""

_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_RESERVED = ("nats-", "kv-", "tieline-")
_MAX_HEADERS = 4096


class Record(Struct, frozen=True, gc=False):
    subject: str
    seq: int
    data: bytes
    headers: Mapping[str, str]
    at: float  # seconds since the epoch, by the clock of the bus


class Announcement(Struct, frozen=True, gc=False):
    """A message to the present listeners. It is not stored."""

    subject: str
    data: bytes


class Entry(Struct, frozen=True):
    """A key's present value."""

    key: str
    value: bytes
    revision: int


class Change(Struct, frozen=True):
    """A key's new value; None: it was deleted or expired."""

    key: str
    value: bytes | None
    revision: int


class Stats(Struct, frozen=True):
    records: int
    subjects: int
    bytes: int  # what it takes on disk, as far as the bus knows
    last: int  # the highest cursor so far


class Table(Protocol):
    @property
    def name(self) -> str: ...

    async def get(self, key: str) -> Entry | None: ...

    async def put(self, key: str, value: bytes, *, expect: int | None = None, ttl: int | None = None) -> int:
        """The new revision. `expect` is the revision to replace, 0 for none; another one there raises Conflict.
        `ttl` is in whole seconds; a put without one keeps the value for good."""
        ...

    async def delete(self, key: str, *, expect: int | None = None) -> None:
        """Nothing to delete is fine, unless a revision was expected."""
        ...

    def watch(self, pattern: str = ">") -> AsyncGenerator[Change, None]:
        """The present values, oldest first, then what changes. Values that were replaced before they were read are
        left out, the latest never is."""
        ...

    async def keys(self, pattern: str = ">") -> list[str]:
        """In order."""
        ...

    async def entries(self, pattern: str = ">") -> list[Entry]:
        """The present values, in the order of their keys, in one go."""
        ...


class Bus(Protocol):
    async def publish(
        self, subject: str, data: bytes, *, id: str | None = None, headers: Mapping[str, str] | None = None
    ) -> int: ...

    def publish_nowait(
        self, subject: str, data: bytes, *, id: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Future[int]:
        """The same, under way when it returns: for many in order, without a task for each."""
        ...

    def read(self, pattern: str, *, after: int = 0, follow: bool = True) -> AsyncGenerator[Record, None]:
        """Nothing happens before the first `anext`; without `follow` it ends after what is there by then."""
        ...

    def table(self, name: str) -> Table: ...

    async def trim(self, pattern: str, *, keep: int | None = None, before: int | None = None) -> int:
        """Removes the pattern's records but the newest `keep`, or those with a cursor below `before`. Says how many."""
        ...

    async def first(self, pattern: str) -> int:
        """The cursor of the oldest record that is still there, 0 for none."""
        ...

    async def last(self, pattern: str) -> int:
        """The cursor of the newest record, 0 for none."""
        ...

    async def announce(self, subject: str, data: bytes) -> None:
        """Reaches the present listeners. Never waits, and is lost while the bus is out of reach."""
        ...

    def listen(self, pattern: str) -> AsyncGenerator[Announcement, None]:
        """What is announced from the first `anext` on."""
        ...

    async def stats(self) -> Stats: ...


def check_data(data: bytes, limit: int = MAX_RECORD) -> None:
    if len(data) > limit:
        raise RecordTooLarge(len(data), limit)


def check_headers(headers: Mapping[str, str]) -> None:
    size = 0
    for name, value in headers.items():
        size += _header_size(name, value) if len(value) <= _MAX_HEADERS else len(value)
    if size > _MAX_HEADERS:
        raise BadSubject("headers", "", f"together they have {size} bytes, the maximum is {_MAX_HEADERS}")


@lru_cache(256)
def _header_size(name: str, value: str) -> int:
    """Of a header that is right. The same ones come again and again."""
    if not _HEADER.fullmatch(name):
        raise BadSubject("headers", name, "a header's name has 1 to 64 letters, digits or -")
    if name.lower().startswith(_RESERVED):
        raise BadSubject("headers", name, f"names that begin with {', '.join(_RESERVED)} are reserved by the bus")
    if value != value.strip() or not value.isprintable():
        raise BadSubject("headers", name, "a header's value is printable text without white space around it")
    return len(name) + len(value.encode())


def check_id(id: str) -> None:
    if not id or len(id) > 256 or not id.isascii() or not id.isprintable() or id != id.strip():
        raise BadSubject("id", id, "an id is 1 to 256 printable ASCII characters without white space around it")


def check_put(value: bytes, expect: int | None, ttl: int | None) -> None:
    check_data(value)
    if expect is not None and expect < 0:
        raise UsageError("a revision cannot be negative", field="expect")
    if ttl is not None and ttl < 1:
        raise UsageError("a time to live is at least one second", field="ttl")


def check_trim(keep: int | None, before: int | None) -> None:
    if (keep is None) == (before is None):
        raise UsageError("give either keep or before", field="keep")
    if (keep if keep is not None else before or 0) < 0:
        raise UsageError("cannot be negative", field="keep" if keep is not None else "before")
