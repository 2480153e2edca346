"""Queries for the records of a pattern after a cursor. They run on a reader's thread.

One subject is one range of the index. Several are either probed one by one within a window of cursors, or the window is
scanned and filtered: whichever touches less. Windows grow while little is found, so a sparse pattern crosses a long log
in a few steps and a dense one reads no more than it gives.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator

import msgspec

from ..base import Record
from ..subjects import is_literal, literal_prefix, matcher
from .database_file import SQL
from .transactions import decode_headers

CHUNK_RECORDS = 256
CHUNK_BYTES = 4 * 1024 * 1024
"""What is read, and buffered, at once for one reader."""

WINDOW = 1024
MOST_SCANNED = 65536
"""Rows that one call scans at most: other readers wait their turn behind it."""

MOST_REMEMBERED = 65536
"""Subjects that one reader remembers having looked at."""

PROBE_COST = 16
"""One look-up in the index costs about as much as scanning this many rows."""


class RecordQuery:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._literal = is_literal(pattern)
        self._matches = matcher(pattern)
        self._numbers: set[int] = set()
        self._seen = 0
        self._names: dict[int, str | None] = {}  # of subjects that came by; None: it does not match

    def numbers(self, connection: sqlite3.Connection) -> set[int]:
        """The subjects that match, by number. Only those added since the last call are looked at."""
        if self._literal:
            # Looked up each time: a subject that was trimmed away comes back with another number.
            row = connection.execute(SQL["subject"], (self._pattern,)).fetchone()
            return {row[0]} if row else set()
        (newest,) = connection.execute(SQL["last_subject"]).fetchone()
        if newest > self._seen:
            if self._seen:
                rows = connection.execute(SQL["subjects_since"], (self._seen,))
            else:
                prefix = literal_prefix(self._pattern)
                # The prefix ends with a dot; "/" comes right after it, so this is exactly what begins with it.
                rows = connection.execute(SQL["subjects_between"], (prefix, prefix[:-1] + "/"))
            self._numbers.update(number for number, name in rows if self._matches(name))
            self._seen = newest
        return self._numbers

    def oldest(self, connection: sqlite3.Connection) -> int:
        """The cursor of the oldest record, 0 for none."""
        return self._edge(connection, "oldest_rows", "oldest_of", min)

    def newest(self, connection: sqlite3.Connection) -> int:
        return self._edge(connection, "newest_rows", "newest_of", max)

    def read(self, connection: sqlite3.Connection, after: int) -> tuple[list[Record], int, bool]:
        """A chunk of records, up to which cursor it is complete, and whether that is the end of the log."""
        own = not connection.in_transaction
        if own:
            connection.execute("BEGIN")  # one snapshot for all of it
        try:
            (newest,) = connection.execute(SQL["newest"]).fetchone()
            if newest <= after:
                return [], after, True
            if self._literal:
                return self._read_subject(connection, after, newest)
            seqs, upto = self._find(connection, after, newest)
            records: list[Record] = []
            size = 0
            for record in self._fetch(connection, seqs):
                records.append(record)
                size += len(record.data)
                if size >= CHUNK_BYTES:
                    return records, record.seq, record.seq >= newest
            return records, upto, upto >= newest
        finally:
            if own:
                connection.execute("COMMIT")

    def _edge(
        self, connection: sqlite3.Connection, scan: str, probe: str, better: Callable[[Iterable[int]], int]
    ) -> int:
        """A look at that end of the log finds it, unless the pattern is sparse; then each subject is asked for, and
        what is in no index yet is scanned."""
        own = not connection.in_transaction
        if own:
            connection.execute("BEGIN")  # one snapshot for all of it
        try:
            rows = connection.execute(SQL[scan], (0, WINDOW)).fetchall()
            self._look_up(connection, {number for _, number in rows})
            for seq, number in rows:
                if self._names[number] is not None:
                    return seq
            numbers = self.numbers(connection)
            seqs = [seq for number in numbers for (seq,) in connection.execute(SQL[probe], (number, 1))]
            (indexed,) = connection.execute(SQL["indexed"]).fetchone()
            for seq, number in connection.execute(SQL[scan], (indexed, -1)).fetchall():
                if number in numbers:
                    seqs.append(seq)
                    break
            return better(seqs) if seqs else 0
        finally:
            if own:
                connection.execute("COMMIT")

    def _read_subject(self, connection: sqlite3.Connection, after: int, newest: int) -> tuple[list[Record], int, bool]:
        records: list[Record] = []
        size = 0
        for number in self.numbers(connection):
            for seq, at, headers, data in self._rows_of(connection, number, after):
                records.append(Record(self._pattern, seq, data, decode_headers(headers), at))
                size += len(data)
                if size >= CHUNK_BYTES or len(records) == CHUNK_RECORDS:
                    return records, seq, seq >= newest
        return records, newest, True

    def _rows_of(
        self, connection: sqlite3.Connection, number: int, after: int
    ) -> Iterator[tuple[int, float, bytes | None, bytes]]:
        """First by the index, then, past its end, by scanning what is newer."""
        (indexed,) = connection.execute(SQL["indexed"]).fetchone()
        if after < indexed:
            yield from connection.execute(SQL["records_of"], (number, after, indexed, CHUNK_RECORDS))
        yield from connection.execute(SQL["new_records_of"], (max(after, indexed), number, CHUNK_RECORDS))

    def _find(self, connection: sqlite3.Connection, after: int, newest: int) -> tuple[list[int], int]:
        """Cursors of matching records, in order, and up to where they are all."""
        seqs: list[int] = []
        window = WINDOW
        scanned = 0
        (indexed,) = connection.execute(SQL["indexed"]).fetchone()
        while after < newest and len(seqs) < CHUNK_RECORDS and scanned < MOST_SCANNED:
            upto = min(after + window, newest)
            want = CHUNK_RECORDS - len(seqs)
            if after < indexed < upto:
                upto = indexed
            # When little was found so far, it pays to know which subjects there are; but the newest are in no index.
            if upto - after > WINDOW and upto <= indexed:
                numbers = self.numbers(connection)
                if not numbers:
                    after = indexed
                    continue
            else:
                numbers = None
            if numbers is not None and len(numbers) * PROBE_COST < upto - after:
                part = [
                    seq
                    for number in numbers
                    for (seq,) in connection.execute(SQL["seqs_of"], (number, after, upto, want))
                ]
                part.sort()
                scanned += len(numbers) * PROBE_COST + len(part)
            else:
                part = self._scan(connection, after, upto, want)
                scanned += upto - after
            if len(part) >= want:  # there may be more: neither way gives all that there is
                part = part[:want]
                upto = part[-1]
            seqs += part
            after = upto
            window *= 2
        return seqs, after

    def _scan(self, connection: sqlite3.Connection, after: int, upto: int, want: int) -> list[int]:
        """The first `want`, or a few more, of those that match. Subjects are looked up as they come by, each once."""
        seqs: list[int] = []
        names = self._names
        rows = connection.execute(SQL["scan"], (after, upto))
        while len(seqs) < want and (block := rows.fetchmany(CHUNK_RECORDS)):
            if len(names) >= MOST_REMEMBERED:
                names.clear()
            new = {number for _, number in block if number not in names}
            if new:
                self._look_up(connection, new)
            seqs += [seq for seq, number in block if names[number] is not None]
        rows.close()
        return seqs

    def _look_up(self, connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
        for number, name in connection.execute(SQL["names"], (msgspec.json.encode(list(numbers)),)):
            self._names[number] = name if self._matches(name) else None

    def _fetch(self, connection: sqlite3.Connection, seqs: list[int]) -> Iterator[Record]:
        names = self._names
        rows = connection.execute(SQL["records_at"], (msgspec.json.encode(seqs),))
        for seq, number, at, headers, data in rows:
            name = names.get(number)
            if name is None:  # found by a probe
                self._look_up(connection, [number])
                name = names[number]
                assert name is not None
            yield Record(name, seq, data, decode_headers(headers), at)
        rows.close()
