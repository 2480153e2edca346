"""The writer's transactions: publish, trim, put, delete, expire. They run on the writer's thread, without asyncio."""

import sqlite3
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from ...errors import Conflict
from ..subjects import family
from .database_file import SQL

REMEMBER_S = 86400
"""How long an id is remembered: well over the contract's DEDUPE_S, and yet a bounded table."""

FORGET_EVERY = 512
FORGET_STEP = 2048
"""Old ids go in steps, one per this many new ones, so that no publish waits for a large clean-up."""

INDEX_STEP = 4096
"""New records until the index of subjects is brought up to date: what a reader scans at most instead."""

MAX_CACHED_SUBJECTS = 65536
TRIM_STEP = 5000
EXPIRE_STEP = 500

Publication = tuple[str, bytes, str | None, Mapping[str, str] | None]
"""To be published: subject, data, id, headers."""

Row = tuple[int, str, float, Mapping[str, str] | None, bytes]
"""A new record: seq, subject, at, headers, data. A Record is only made of it for a follower."""


COLUMNS = 5
_ADD_RECORDS = [(rows, SQL["add_records"] + ", (?, ?, ?, ?, ?)" * (rows - 1)) for rows in (64, 16, 4, 1)]
"""One statement for many rows takes two thirds of the time, and asks for the interpreter's lock once, not for each."""


class Changed(NamedTuple):
    table: str
    key: str
    value: bytes | None
    revision: int


class Transactions:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.execute = connection.execute
        self._subjects: dict[str, int] = {}
        self._waiting: list[int | float | bytes | None] = []  # new records, COLUMNS values each
        self._ids = 0
        (self.high,) = self.execute(SQL["high"]).fetchone()
        (self._unindexed,) = self.execute(SQL["unindexed"]).fetchone()
        self.rows: list[Row] = []  # of the running transaction
        self.changes: list[Changed] = []
        self.now = time.time()

    # --- transactions ---

    def begin(self) -> None:
        self.now = time.time()
        self.rows = []
        self.changes = []
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.flush()
        if self._unindexed >= INDEX_STEP:
            self.index()
        self.execute("COMMIT")

    def rollback(self) -> None:
        self._waiting.clear()
        self._subjects.clear()  # some may have been added by what is undone
        if self.connection.in_transaction:
            self.execute("ROLLBACK")
        (self._unindexed,) = self.execute(SQL["unindexed"]).fetchone()

    def flush(self) -> None:
        """New records are gathered and inserted at once; anything that looks at records must call this first."""
        waiting = self._waiting
        if waiting:
            done, left = 0, len(waiting) // COLUMNS
            self._unindexed += left
            for rows, statement in _ADD_RECORDS:
                while left >= rows:
                    upto = done + rows * COLUMNS
                    self.execute(statement, waiting[done:upto])
                    done, left = upto, left - rows
            waiting.clear()

    def index(self) -> None:
        """Brings the index of subjects up to date."""
        self.flush()
        if self._unindexed:
            self.execute(SQL["index"])
            self.execute(SQL["keep_indexed"], (self.high,))
            self._unindexed = 0

    # --- records ---

    def publish(self, publications: Iterable[Publication]) -> list[int]:
        """The cursors. Many at once: this is the path that every event takes."""
        seqs: list[int] = []
        now, high = self.now, self.high
        number_of, wait, show = self._subjects.get, self._waiting.extend, self.rows.append
        for subject, data, id, headers in publications:
            if id is not None:
                if known := self.execute(SQL["known_id"], (family(subject), id)).fetchone():
                    seqs.append(known[0])
                    continue
                self._remember(family(subject), id, high + 1)
            high += 1
            number = number_of(subject) or self._subject(subject)
            wait((high, number, now, msgspec.json.encode(headers) if headers else None, data))
            show((high, subject, now, headers, data))
            seqs.append(high)
        self.high = high
        return seqs

    def add(self, publication: Publication) -> int | None:
        """One record without an id: a transaction by itself, without the words around it. None when there is more to
        do than that."""
        subject, data, id, headers = publication
        number = self._subjects.get(subject)
        if number is None or id is not None or self._unindexed + 1 >= INDEX_STEP:
            return None
        now, seq = time.time(), self.high + 1
        self.execute(SQL["add_records"], (seq, number, now, msgspec.json.encode(headers) if headers else None, data))
        self.high = seq
        self._unindexed += 1
        self.rows, self.changes = [(seq, subject, now, headers, data)], []
        return seq

    def _remember(self, family: str, id: str, seq: int) -> None:
        self.execute(SQL["add_id"], (family, id, seq, self.now))
        self._ids += 1
        if self._ids % FORGET_EVERY == 0:
            self.execute(SQL["forget_ids"], (self.now - REMEMBER_S, FORGET_STEP))

    def _subject(self, name: str) -> int:
        row = self.execute(SQL["subject"], (name,)).fetchone() or self.execute(SQL["add_subject"], (name,)).fetchone()
        if len(self._subjects) >= MAX_CACHED_SUBJECTS:
            self._subjects.clear()
        self._subjects[name] = row[0]
        return row[0]

    def trim(self, number: int, before: int) -> tuple[int, bool]:
        """One step of it: how many it removed, and whether that was all."""
        self.index()
        self.execute(SQL["keep_high"], (self.high,))
        removed = self.execute(SQL["trim"], (number, before, TRIM_STEP)).rowcount
        self.execute(SQL["trim_postings"], (number, number, before, TRIM_STEP))
        ended = removed < TRIM_STEP
        if ended and self.execute(SQL["drop_subject"], (number,)).rowcount:
            self._subjects.clear()
        return removed, ended

    # --- tables ---

    def put(self, table: str, key: str, value: bytes, expect: int | None, ttl: int | None) -> int:
        self._expect(table, key, expect)
        revision = self.high = self.high + 1
        expires = self.now + ttl if ttl is not None else None
        self.execute(SQL["put"], (table, key, value, revision, expires))
        self.changes.append(Changed(table, key, value, revision))
        return revision

    def delete(self, table: str, key: str, expect: int | None) -> None:
        self._expect(table, key, expect)
        self._remove(table, key)

    def expire(self) -> float | None:
        """Removes what is past its time; when the next will be."""
        for table, key in self.execute(SQL["expired"], (self.now, EXPIRE_STEP)).fetchall():
            self._remove(table, key)
        return self.execute(SQL["next_expiry"]).fetchone()[0]

    def _remove(self, table: str, key: str) -> None:
        if self.execute(SQL["delete"], (table, key)).rowcount:
            revision = self.high = self.high + 1
            self.execute(SQL["keep_high"], (revision,))
            self.changes.append(Changed(table, key, None, revision))

    def _expect(self, table: str, key: str, expect: int | None) -> None:
        if expect is None:
            return
        row = self.execute(SQL["entry"], (table, key, self.now)).fetchone()
        if (row[1] if row else 0) != expect:
            raise Conflict(table, key, expect)


def decode_headers(encoded: bytes | None) -> Mapping[str, str]:
    return msgspec.json.decode(encoded, type=dict[str, str]) if encoded else {}
