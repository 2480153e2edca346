"""The SQLite file: its lock, schema, queries and errors."""

import fcntl
import os
import re
import resource
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.resources import files
from math import inf
from pathlib import Path

import msgspec

from ...errors import BusError, BusFull, BusLocked

WAL_LIMIT = 64 * 1024 * 1024
"""The write-ahead log is cut back to this after a burst."""

CHECKPOINT_PAGES = 1000
"""Pages until the write-ahead log is folded into the file and written anew from its beginning. No more: a sync is
several times faster while the log only overwrites itself than while it grows."""

LAID_OUT = (CHECKPOINT_PAGES + 200) * 4120
"""Bytes of the write-ahead log that `lay_out` makes: what it needs until it is written anew from its beginning."""

LAY_OUT_STEP = 512 * 1024
"""Bytes at once: a publisher waits for as long as these take."""

LAY_OUT_ROOM = 256 * 1024 * 1024
"""With less than this left on the disk it is not worth it."""

READ_MAP = 1024 * 1024 * 1024
"""How much of the file readers map instead of copying pages: a long log is read nearly as fast as a short one."""

ROOM = 1024 * 1024
"""A disk with less than this left is full: SQLite does not always say so itself."""


class Owner(msgspec.Struct):
    pid: int
    since: str


def _load() -> tuple[list[str], dict[str, str]]:
    text = files("tieline.bus.sqlite").joinpath("bus.sql").read_text("utf-8")
    parts = re.split(r"(?m)^-- (migration|query) (\w+)$", text)[1:]
    sections = list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))
    migrations = [body for kind, _, body in sections if kind == "migration"]
    return migrations, {name: body.strip().rstrip(";") for kind, name, body in sections if kind == "query"}


MIGRATIONS, SQL = _load()


@contextmanager
def owned(path: Path) -> Generator[None]:
    """Holds the lock beside the file. The kernel lets go of it when the owner dies, however it dies."""
    lock = path.with_name(path.name + ".lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _locked(path, descriptor) from None
        os.ftruncate(descriptor, 0)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        os.pwrite(descriptor, msgspec.json.encode(Owner(os.getpid(), now)) + b"\n", 0)
        yield
    finally:
        # The lock file stays: removing it would let two owners hold two files of the same name.
        os.close(descriptor)


def _locked(path: Path, descriptor: int) -> BusLocked:
    try:
        owner = msgspec.json.decode(os.pread(descriptor, 4096, 0), type=Owner)
    except msgspec.DecodeError:  # it is just being written
        return BusLocked(str(path), "another process")
    return BusLocked(str(path), f"process {owner.pid} since {owner.since}", owner.pid)


def connect(path: str, *, read_only: bool = False) -> sqlite3.Connection:
    # Transactions are begun and ended by hand; connections are made in one thread and used in another.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    try:
        connection.execute("PRAGMA busy_timeout = 10000")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
            connection.execute(f"PRAGMA mmap_size = {READ_MAP}")
            return connection
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    except BaseException:  # it is no database, say: nobody else could close the connection
        connection.close()
        raise
    return connection


def lay_out(path: str) -> bool:
    """Give the write-ahead log the size that it will have after its first round, in zeros, a step at a time: then
    it only overwrites itself. SQLite ends reading it at the first frame that is none. Whether that is done."""
    limited = resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
    if limited or _room(path) < LAY_OUT_ROOM:
        return True
    try:
        log = os.open(path + "-wal", os.O_RDWR | os.O_CLOEXEC)
        try:
            size = os.fstat(log).st_size
            step = min(LAY_OUT_STEP, LAID_OUT - size)
            if step > 0:
                os.pwrite(log, bytes(step), size)
                os.fsync(log)
            return step < LAY_OUT_STEP
        finally:
            os.close(log)  # SQLite has no lock on this one that would end with it
    except OSError:
        return True


def migrate(connection: sqlite3.Connection, path: str) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise BusError(
            f"{path} was written by a newer Tieline (schema {version}, this one knows {len(MIGRATIONS)})",
            hint="Use that version, or another file.",
        )
    for number in range(version, len(MIGRATIONS)):
        # One transaction with its version: a crash leaves the old schema or the new one.
        connection.executescript(
            f"BEGIN IMMEDIATE;\n{MIGRATIONS[number]}\nPRAGMA user_version = {number + 1};\nCOMMIT;"
        )


def translate(error: sqlite3.Error, path: str) -> BusError:
    """SQLite's errors, once, at the seam."""
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    if name == "SQLITE_FULL" or (name.startswith("SQLITE_IOERR") and _no_room(path)):
        return BusFull(path, f"{error} ({name})")
    if name in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):
        return BusError(f"{path} is not a bus file, or it is damaged: {error}", hint="Restore it, or use another file.")
    if name == "SQLITE_CANTOPEN":
        return BusError(f"cannot open {path}: {error}", hint="Look at the path and its permissions.")
    return BusError(f"{path}: {error} ({name})")


def _no_room(path: str) -> bool:
    """A file-size limit and a full disk reach SQLite as mere I/O errors at times."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit != resource.RLIM_INFINITY:
        sizes = (Path(path + suffix) for suffix in ("", "-wal", "-shm"))
        if any(file.exists() and file.stat().st_size + ROOM > limit for file in sizes):
            return True
    return _room(path) < ROOM


def _room(path: str) -> float:
    """Bytes that are left on its disk."""
    try:
        state = os.statvfs(Path(path).parent)
    except OSError:
        return inf
    return state.f_bavail * state.f_frsize
