"""Backup and restore of the state directory as one archive, also while it is in use.

A gzip'ed tar: the manifest first (versions, and each file with its size and SHA-256), then the files in its order.
The bus file is copied by SQLite's online backup, so that it is whole at one moment, whatever is written meanwhile.
"""

import gzip
import hashlib
import io
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
import zlib
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct

from .. import paths, state_directory
from ..client.hub_address import running_hub
from ..config import Config
from ..errors import TielineError, UsageError
from ..state_directory import FILLING, FORMER, LOCKS, REPLACING, STAGING
from ..version import __version__
from .process_lock import single_instance

FORMAT = 1
MANIFEST = "tieline-backup.json"
PREFIX = "state/"
BUS = "bus.db"
SQLITE = b"SQLite format 3\0"
"""How every file of SQLite begins."""
MAX_MANIFEST = 64 * 1024 * 1024
"""Some hundred thousand files."""
CHUNK = 1024 * 1024
LEFT_OUT = LOCKS | {
    STAGING,
    REPLACING,
    FILLING,
    BUS,
    f"{BUS}-wal",
    f"{BUS}-shm",
    "hub.json",
    "link.json",
    "ending.txt",
    "own",
    "nats",
    "search.db",
    "search.db-wal",
    "search.db-shm",
}
"""Says that something runs, is in the archive by another way, or is built again from what is."""
PASSING = (FORMER, ".", "open-")
"""How names begin of what is not to last."""
COMPRESSION = 6

Where = Literal["file", "elsewhere", "none"]


class File(Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    size: int
    sha256: str


class Manifest(Struct, frozen=True, kw_only=True):
    """The first thing in an archive."""

    format: int
    tieline: str
    state_version: int
    made_at: float
    bus: Where = "file"  # elsewhere: on a server, so not in here
    files: tuple[File, ...] = ()


class Restored(Struct, frozen=True, kw_only=True):
    manifest: Manifest
    state: str
    former: str = ""  # where the content from before is; empty: there was none


class BadBackup(TielineError):
    """The archive is damaged, or no backup of Tieline."""

    def __init__(self, file: Path, why: str, *, hint: str = "") -> None:
        super().__init__(f"{file} cannot be restored: {why}", hint=hint or "Nothing was changed. Use another backup.")


# --- making -----------------------------------------------------------------------------------------------


def create(config: Config, file: Path, *, replace: bool = False) -> Manifest:
    """Write the archive, mode 0600, whole or not at all. Raises UsageError, TielineError."""
    state = paths.state(config.environ)
    if not state.is_dir():
        raise UsageError(f"there is no state to back up: {state} is not there", field="file")
    file = file.absolute()
    if state.resolve() in (folder := file.parent.resolve(), *folder.parents):
        raise UsageError(
            f"{file} would be inside the directory it backs up", field="file", hint="Name another directory."
        )
    if not folder.is_dir():
        raise UsageError(f"{file.parent} is not a directory", field="file", hint="Make it first, or name another.")
    if file.exists() and not replace:
        raise UsageError(f"{file} already exists", field="file", hint="Name another file, or use --force.")
    try:
        with tempfile.TemporaryDirectory(prefix=".tieline-backup-", dir=folder) as name:  # 0700
            work = Path(name)
            staged = work / "state"
            staged.mkdir()
            bus = _copy_bus(config, staged / BUS)
            _copy_files(state, staged)
            manifest = _describe(staged, state_directory.version_of(state), bus)
            archive = work / "archive"
            _write(archive, staged, manifest)
            if replace:
                archive.replace(file)
            else:
                _put(archive, file)
    except FileExistsError:
        raise UsageError(f"{file} already exists", field="file", hint="Name another file, or use --force.") from None
    except OSError as error:
        raise TielineError(
            f"the backup was not written: {error}", hint="Check the disk's free space and permissions."
        ) from None
    return manifest


def _put(archive: Path, file: Path) -> None:
    """Under its name, without replacing what is there. Raises FileExistsError."""
    try:
        os.link(archive, file)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        _new_file(file).close()
        archive.replace(file)


def bus_path(config: Config) -> Path | None:
    """The bus file, if the bus is one. What the hub that runs here was told at its start counts."""
    running = running_hub(config.environ)
    bus = (running.bus if running else "") or config.bus
    if not bus:
        return paths.bus_file(config.environ)
    path = bus.removeprefix("sqlite://")
    return Path(path).absolute() if path != bus and path != ":memory:" else None


NO_ROOM = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC")


def _copy_bus(config: Config, target: Path) -> Where:
    source = bus_path(config)
    if source is None:
        return "elsewhere"
    if not source.exists():
        return "none"
    target.touch(mode=0o600)
    try:
        # Not read-only: after a crash SQLite has to read its log in first. `rw` makes no file.
        with (
            closing(sqlite3.connect(f"file:{quote(str(source))}?mode=rw", uri=True, timeout=30.0)) as original,
            closing(sqlite3.connect(target)) as copy,
        ):
            original.execute("PRAGMA query_only = ON")
            original.backup(copy)  # in one step: whoever writes meanwhile does not make it begin again
            _check_bus(copy)
    except sqlite3.Error as error:
        room = getattr(error, "sqlite_errorname", "") in NO_ROOM  # for the copy: the bus itself is only read
        hint = (
            "Check the free space where the backup goes." if room else "It may be damaged: restore an earlier backup."
        )
        raise TielineError(f"the bus file {source} cannot be backed up: {error}", hint=hint) from None
    return "file"


def _check_bus(connection: sqlite3.Connection) -> None:
    """Raises sqlite3.Error for a damaged one."""
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)


def _copy_files(state: Path, staged: Path, inside: str = "") -> None:
    """Files and folders alone: a link may lead anywhere, and the rest cannot be kept. What vanishes was not to last."""
    with suppress(FileNotFoundError), os.scandir(state / inside) as entries:
        for entry in entries:
            name = f"{inside}{entry.name}"
            if not inside and (name in LEFT_OUT or name.startswith(PASSING)):
                continue
            if entry.is_dir(follow_symlinks=False):
                (staged / name).mkdir(mode=0o700)
                _copy_files(state, staged, f"{name}/")
            elif entry.is_file(follow_symlinks=False):
                with (
                    suppress(FileNotFoundError),
                    Path(entry.path).open("rb") as source,
                    _new_file(staged / name) as copy,
                ):
                    shutil.copyfileobj(source, copy, CHUNK)


def _new_file(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")


def _describe(staged: Path, version: int, bus: Where) -> Manifest:
    files: list[File] = []
    for path in sorted(path for path in staged.rglob("*") if path.is_file()):
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        files.append(File(path.relative_to(staged).as_posix(), path.stat().st_size, digest))
    return Manifest(
        format=FORMAT, tieline=__version__, state_version=version, made_at=time.time(), bus=bus, files=tuple(files)
    )


def _write(archive: Path, staged: Path, manifest: Manifest) -> None:
    def member(name: str, size: int) -> tarfile.TarInfo:
        about = tarfile.TarInfo(name)
        about.size, about.mode, about.mtime = size, 0o600, int(manifest.made_at)
        return about

    with _new_file(archive) as raw:
        with tarfile.open(fileobj=raw, mode="w:gz", format=tarfile.PAX_FORMAT, compresslevel=COMPRESSION) as tar:
            data = msgspec.json.encode(manifest)
            tar.addfile(member(MANIFEST, len(data)), io.BytesIO(data))
            for file in manifest.files:
                with (staged / file.path).open("rb") as content:
                    tar.addfile(member(PREFIX + file.path, file.size), content)
        raw.flush()
        os.fsync(raw.fileno())


# --- putting back -----------------------------------------------------------------------------------------


def restore(env: Mapping[str, str], file: Path) -> Restored:
    """Replace the whole state by what the archive holds. Raises AlreadyRunning, BadBackup, StateUnusable, UsageError.

    Everything is read and checked before anything is replaced, and what was there is kept."""
    if not file.is_file():
        raise UsageError(f"{file} is not a file", field="file", hint="Name what `tieline backup` wrote.")
    state = paths.state(env)
    with single_instance(env):
        state_directory.finish_replacing(state)
        staging = state_directory.stage(state)
        try:
            manifest = _extract(file, staging)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        former = state_directory.replace_content(state)
    return Restored(manifest=manifest, state=str(state), former=str(former or ""))


@contextmanager
def _reading(file: Path) -> Generator[tarfile.TarFile]:
    """What is wrong with an archive, as one error."""
    try:
        with tarfile.open(file, "r:gz") as tar:
            yield tar
    except (gzip.BadGzipFile, tarfile.ReadError) as error:
        raise BadBackup(file, f"it is not a backup of Tieline, or it is damaged ({error})") from None
    except (tarfile.TarError, EOFError, zlib.error, UnicodeError, ValueError) as error:
        raise BadBackup(file, f"it is damaged ({error})") from None
    except sqlite3.Error as error:
        raise BadBackup(file, f"the bus file in it is damaged ({error})") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise BadBackup(file, "two of its files have the same path") from None
    except OSError as error:
        raise TielineError(f"{file} was not restored: {error}", hint="Nothing was changed.") from None


def _extract(file: Path, staging: Path) -> Manifest:
    with _reading(file) as tar:
        manifest = _read_manifest(file, tar)
        needed, free = sum(max(0, expected.size) for expected in manifest.files), shutil.disk_usage(staging).free
        if needed > free:
            raise BadBackup(file, f"it needs {needed} bytes, and {free} are left on the disk", hint="Make room first.")
        for expected in manifest.files:
            _check_path(file, expected.path)
            member = tar.next()
            if member is None:
                raise BadBackup(file, f"{expected.path} is missing")
            if not member.isreg() or member.issparse():
                raise BadBackup(file, f"{member.name!r} is not a plain file")
            if member.name != PREFIX + expected.path or member.size != expected.size:
                raise BadBackup(file, f"it holds {member.name!r} where its manifest says {expected.path!r}")
            content = tar.extractfile(member)
            assert content is not None
            path = staging / expected.path
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if _copy(content, path) != (expected.size, expected.sha256):
                raise BadBackup(file, f"{expected.path} is not what its manifest says")
        if (extra := tar.next()) is not None:
            raise BadBackup(file, f"it holds {extra.name!r}, which its manifest does not name")
        if (staging / BUS).exists():
            _check_bus_file(staging / BUS)
    return manifest


def _check_bus_file(path: Path) -> None:
    """Raises sqlite3.Error. SQLite takes a file of a few bytes for an empty one."""
    with path.open("rb") as file:
        if file.read(len(SQLITE)) not in (SQLITE, b""):
            raise sqlite3.DatabaseError("file is not a database")
    # Immutable: looking at it leaves nothing beside it.
    with closing(sqlite3.connect(f"file:{quote(str(path))}?immutable=1", uri=True)) as connection:
        _check_bus(connection)


def _read_manifest(file: Path, tar: tarfile.TarFile) -> Manifest:
    first = tar.next()
    if first is None or first.name != MANIFEST or not first.isreg() or first.size > MAX_MANIFEST:
        raise BadBackup(file, "it is not a backup of Tieline", hint="Name what `tieline backup` wrote.")
    content = tar.extractfile(first)
    assert content is not None
    try:
        manifest = msgspec.json.decode(content.read(), type=Manifest)
    except msgspec.MsgspecError as error:
        raise BadBackup(file, f"its manifest is damaged ({error})") from None
    if manifest.format > FORMAT:
        raise BadBackup(file, f"a newer Tieline made it ({manifest.tieline})", hint="Restore it with that Tieline.")
    state_directory.check_version(manifest.state_version, str(file))
    return manifest


def _check_path(file: Path, path: str) -> None:
    """Nothing leaves the directory, and nothing that only a running hub writes comes in."""
    parts = path.split("/")
    strange = not path or "\0" in path or any(part in ("", ".", "..") for part in parts)
    if strange or PurePosixPath(path).is_absolute():
        raise BadBackup(file, f"{path!r} is not a path inside the state directory")
    if parts[0] in LEFT_OUT - {BUS} or parts[0].startswith(PASSING) or (parts[0] == BUS and len(parts) > 1):
        raise BadBackup(file, f"{path!r} does not belong in a backup")


def _copy(content: IO[bytes], path: Path) -> tuple[int, str]:
    size, digest = 0, hashlib.sha256()
    with _new_file(path) as target:
        while chunk := content.read(CHUNK):
            target.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        target.flush()
        os.fsync(target.fileno())
    return size, digest.hexdigest()
