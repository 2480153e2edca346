"""The file of the search index: SQLite with FTS5, used from threads. It knows nothing of buses.

What is added and the cursor up to which it was read are one transaction, so a crash leaves both or neither. Readers
have connections of their own: a search never waits for a writer.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from ...protocol.search import SearchKind, SnippetPart
from .search_query import SEPARATOR, separated, tag

VERSION = 1
"""Of the file's layout and of what is searched: a file of another one is built again."""
BUSY_S = 30.0
DELETED_AT_ONCE = 500
"""Documents per transaction: removing many must not keep the writer from what is new."""
DAY_S = 86400
SNIPPET_WORDS = 32
_BEGIN, _END = "\x02", "\x03"
"""Around what matched. `separated` leaves none of these in a text."""
_SUFFIXES = ("", "-wal", "-shm", "-journal")


class Document(Struct, frozen=True, kw_only=True):
    family: str
    seq: int
    at: float
    kind: SearchKind
    text: str
    session: str = ""
    message: str = ""
    thread: str = ""
    tags: tuple[str, ...] = ()


class IndexHit(Struct, frozen=True, kw_only=True):
    id: int
    seq: int
    at: float
    kind: SearchKind
    session: str
    message: str
    thread: str
    snippet: tuple[SnippetPart, ...]


class SearchFile:
    """Opened with the id of the logs that it is an index of: one of other logs is built again. Raises sqlite3.Error."""

    def __init__(self, path: Path, epoch: str) -> None:
        self._path = path
        self._writing = threading.Lock()
        self._readers: list[sqlite3.Connection] = []
        self.probe: Callable[[str], None] = lambda moment: None  # tests end the process here
        try:
            self._writer = self._open(epoch)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "no such module" in str(error):
                raise  # SQLite without FTS5: another file would be no better
            remove(path)  # damaged, or of another version
            self._writer = self._open(epoch)

    def close(self) -> None:
        with self._writing:
            self._writer.close()
        for reader in self._readers:
            reader.close()

    # --- writing -------------------------------------------------------------------------------------------

    def cursor(self, family: str) -> int:
        with self._writing:
            return self._cursor(family)

    def add(self, family: str, documents: Iterable[Document], upto: int) -> int:
        """Add what is after the cursor, and move the cursor. Gives the new one."""
        with self._transaction() as connection:
            cursor = self._cursor(family)
            if upto <= cursor:
                return cursor
            for document in documents:
                if document.seq > cursor:
                    self._insert(connection, document)
            self._set(connection, f"cursor.{family}", str(upto))
            self.probe("before commit")
        self.probe("after commit")
        return upto

    def _insert(self, connection: sqlite3.Connection, document: Document) -> None:
        about = (document.family, document.seq, document.at, document.kind)
        id = connection.execute(
            "INSERT INTO documents (family, seq, at, kind, session, message, thread) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*about, document.session, document.message, document.thread),
        ).lastrowid
        if document.session:
            connection.execute("INSERT OR IGNORE INTO sessions VALUES (?)", (document.session,))
        tags = " ".join((tag("k", document.kind), *document.tags))
        connection.execute(
            "INSERT INTO words (rowid, text, tags) VALUES (?, ?, ?)", (id, separated(document.text), tags)
        )
        connection.execute(
            "INSERT INTO days VALUES (?, ?, ?) ON CONFLICT (day) DO UPDATE SET last = excluded.last",
            (int(document.at // DAY_S), id, id),
        )

    def sessions(self) -> list[str]:
        with self._writing:
            return [id for (id,) in self._writer.execute("SELECT id FROM sessions")]

    def remove_session(self, session: str) -> int:
        """Says how many documents that were."""
        removed = self._remove_all("session = ? AND session <> ''", (session,))
        with self._transaction() as connection:
            connection.execute("DELETE FROM sessions WHERE id = ?", (session,))
        return removed

    def remove_before(self, family: str, seq: int) -> int:
        """What was trimmed from the log."""
        return self._remove_all("family = ? AND seq < ?", (family, seq))

    def _remove_all(self, condition: str, values: Sequence[str | int]) -> int:
        removed = 0
        while True:
            with self._transaction() as connection:
                query = f"SELECT id FROM documents WHERE {condition} LIMIT {DELETED_AT_ONCE}"
                ids = [(id,) for (id,) in connection.execute(query, values)]
                connection.executemany("DELETE FROM words WHERE rowid = ?", ids)
                connection.executemany("DELETE FROM documents WHERE id = ?", ids)
            removed += len(ids)
            if len(ids) < DELETED_AT_ONCE:
                return removed

    # --- reading -------------------------------------------------------------------------------------------

    def search(self, match: str, *, before: int, since: float, until: float, limit: int) -> list[IndexHit]:
        """The newest first. `before`: the id of the last one that was seen; 0 for none."""
        with self._reader() as connection:
            first, last = self._range(connection, before, since, until)
            rows = connection.execute(
                "SELECT d.id, d.seq, d.at, d.kind, d.session, d.message, d.thread,"
                f" snippet(words, 0, ?, ?, '…', {SNIPPET_WORDS})"
                " FROM words JOIN documents AS d ON d.id = words.rowid"
                " WHERE words MATCH ? AND words.rowid BETWEEN ? AND ? AND d.at >= ? AND d.at < ?"
                " ORDER BY words.rowid DESC LIMIT ?",
                (_BEGIN, _END, match, first, last, since, until or 1e18, limit),
            )
            names = ("id", "seq", "at", "kind", "session", "message", "thread")
            return [IndexHit(**dict(zip(names, row[:7], strict=True)), snippet=_parts(row[7])) for row in rows]

    def _range(self, connection: sqlite3.Connection, before: int, since: float, until: float) -> tuple[int, int]:
        """The documents of these days: FTS5 goes straight to them, however many there are of the other days."""
        last = before - 1 if before else 2**62
        if not since and not until:
            return 0, last
        days = (int(since // DAY_S), int(until // DAY_S) if until else 2**62)
        query = "SELECT min(first), max(last) FROM days WHERE day BETWEEN ? AND ?"
        low, high = connection.execute(query, days).fetchone()
        return (1, 0) if low is None else (low, min(last, high))

    # --- the file ------------------------------------------------------------------------------------------

    def _open(self, epoch: str) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        connection = self._connect()
        try:
            if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                connection.execute("PRAGMA journal_mode = wal")
                script = files(str(__package__)).joinpath("search.sql").read_text()
                connection.executescript(f"BEGIN;{script}")
                self._set(connection, "version", str(VERSION))
                self._set(connection, "epoch", epoch)
                connection.execute("COMMIT")
            there = dict(connection.execute("SELECT key, value FROM meta WHERE key IN ('version', 'epoch')"))
            if there != {"version": str(VERSION), "epoch": epoch}:
                raise sqlite3.DatabaseError("the index is of other logs or another version")
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA synchronous = normal")  # what a power failure takes from the end is read again
            connection.execute("PRAGMA cache_size = -16000")
        except BaseException:  # it is no database
            connection.close()
            raise
        return connection

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection, None, None]:
        with self._writing:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise
            self._writer.execute("COMMIT")

    @contextmanager
    def _reader(self) -> Generator[sqlite3.Connection, None, None]:
        connection = self._readers.pop() if self._readers else self._connect()
        try:
            yield connection
        finally:
            self._readers.append(connection)

    def _cursor(self, family: str) -> int:
        with closing(self._writer.execute("SELECT value FROM meta WHERE key = ?", (f"cursor.{family}",))) as rows:
            row = rows.fetchone()
        return int(row[0]) if row else 0

    def _set(self, connection: sqlite3.Connection, key: str, value: str) -> None:
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def remove(path: Path) -> None:
    for suffix in _SUFFIXES:
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _parts(snippet: str) -> tuple[SnippetPart, ...]:
    parts: list[SnippetPart] = []
    for number, piece in enumerate(snippet.replace(SEPARATOR, "").split(_BEGIN)):
        match, end, rest = piece.partition(_END)
        if not end or number == 0:
            match, rest = "", piece
        parts += [SnippetPart(text, matched) for text, matched in ((match, True), (rest, False)) if text]
    return tuple(parts)
