"""The records that a pattern picks after a cursor, found the cheaper way. Lives on a reader's thread.

One subject is one range of the index. Several are either probed one by one within a window of cursors, or the window is
scanned and filtered: whichever touches less. Windows grow while little is found, so a sparse pattern crosses a long log
in a few steps and a dense one reads no more than it gives.
"""

import sqlite3

from ..base import Record
from ..subjects import is_literal, literal_prefix, matcher
from .file import SQL
from .store import decode_headers

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


class Selection:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._literal = is_literal(pattern)
        self._matches = matcher(pattern)
        self._numbers: set[int] = set()
        self._seen = 0
        self._looked_at: dict[int, bool] = {}

    def numbers(self, connection: sqlite3.Connection) -> set[int]:
        """The subjects that match, by number. Only those added since the last call are looked at."""
        if self._literal:
            # Looked up each time: a subject that was trimmed away comes back with another number.
            found = connection.execute(SQL["subject"], (self._pattern,)).fetchone()
            return {found[0]} if found else set()
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
            for seq in seqs:
                subject, at, headers, data = connection.execute(SQL["record"], (seq,)).fetchone()
                records.append(Record(subject, seq, data, decode_headers(headers), at))
                size += len(data)
                if size >= CHUNK_BYTES:
                    return records, seq, seq >= newest
            return records, upto, upto >= newest
        finally:
            if own:
                connection.execute("COMMIT")

    def _read_subject(self, connection: sqlite3.Connection, after: int, newest: int) -> tuple[list[Record], int, bool]:
        records: list[Record] = []
        size = 0
        for number in self.numbers(connection):
            rows = connection.execute(SQL["records_of"], (number, after, CHUNK_RECORDS))
            for seq, at, headers, data in rows:
                records.append(Record(self._pattern, seq, data, decode_headers(headers), at))
                size += len(data)
                if size >= CHUNK_BYTES:
                    break
            rows.close()
        if size >= CHUNK_BYTES or len(records) == CHUNK_RECORDS:
            return records, records[-1].seq, records[-1].seq >= newest
        return records, newest, True

    def _find(self, connection: sqlite3.Connection, after: int, newest: int) -> tuple[list[int], int]:
        """Cursors of matching records, in order, and up to where they are all."""
        found: list[int] = []
        window = WINDOW
        scanned = 0
        while after < newest and len(found) < CHUNK_RECORDS and scanned < MOST_SCANNED:
            upto = min(after + window, newest)
            want = CHUNK_RECORDS - len(found)
            if upto - after > WINDOW:  # little was found so far: it pays to know which subjects there are
                numbers = self.numbers(connection)
                if not numbers:
                    return found, newest
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
            found += part
            after = upto
            window *= 2
        return found, after

    def _scan(self, connection: sqlite3.Connection, after: int, upto: int, want: int) -> list[int]:
        """The first `want` at least, of those that match. Subjects are looked at as they come by, each once."""
        found: list[int] = []
        looked_at = self._looked_at
        rows = connection.execute(SQL["scan"], (after, upto))
        for seq, number in rows:
            matches = looked_at.get(number)
            if matches is None:
                (name,) = connection.execute(SQL["subject_name"], (number,)).fetchone()
                if len(looked_at) >= MOST_REMEMBERED:
                    looked_at.clear()
                matches = looked_at[number] = self._matches(name)
            if matches:
                found.append(seq)
                if len(found) >= want:
                    break
        rows.close()
        return found
