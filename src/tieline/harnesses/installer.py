"""Installs, removes and looks for what Tieline has in the files of harnesses.

Planning only reads: it turns the bytes of a file into its new bytes. Applying writes every file whole or not at all,
keeps a backup, and puts back what it had written when a later file fails.
"""

import codecs
import hashlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from .. import paths
from ..errors import TielineError
from .base import Harness, InstallOptions, ManagedFile
from .editors.base import CannotEdit

BACKUPS_KEPT = 5
"""Of each file."""
MAX_FILE = 64 << 20

InstallState = Literal["installed", "outdated", "missing"]


class CannotInstall(TielineError):
    """A file cannot be changed; nothing was."""


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    """The file itself, where a link leads to it."""
    what: str
    old: bytes | None
    """None: it does not exist."""
    new: bytes | None

    @property
    def action(self) -> str:
        if self.old is None:
            return "create"
        return "remove" if self.new is None else "change"


class FileState(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    what: str
    state: InstallState
    problem: str = ""


# --- planning ----------------------------------------------------------------------------------------------------


def plan_install(harness: Harness, options: InstallOptions) -> list[FileChange]:
    """Raises CannotInstall, which names the file and the place in it."""
    return _plan(harness.files(options), installing=True)


def plan_uninstall(harness: Harness, options: InstallOptions) -> list[FileChange]:
    return _plan(harness.all_files(options), installing=False)


def _plan(files: Iterable[ManagedFile], *, installing: bool) -> list[FileChange]:
    changes: list[FileChange] = []
    for file in files:
        target = _target(file.path)
        old = _read(target)
        if old is None and not installing:
            continue
        try:
            text, begin = _decode(old)
            new = file.editor.install(text) if installing else file.editor.uninstall(text or "")
        except CannotEdit as error:
            raise CannotInstall(
                f"{target} was left alone: {error.message}", hint=error.hint or "Correct it, and try again."
            ) from None
        if (encoded := None if new is None else begin + new.encode()) != old:
            changes.append(FileChange(path=str(target), what=file.what, old=old, new=encoded))
    return changes


def look(harness: Harness, options: InstallOptions) -> list[FileState]:
    """What of it is there. A file that cannot be read is `missing`, with the problem."""
    return [_look(file) for file in harness.files(options)]


def installed_for(harness: Harness, options: InstallOptions, cwd: str) -> bool:
    """Whether the integration is installed for a session in that directory: for the whole user, or in a project that
    the directory is in."""
    scopes = ["", *(str(folder) for folder in (Path(cwd), *Path(cwd).parents) if cwd)]
    return any(
        look_at.state != "missing"
        for scope in scopes
        for look_at in look(harness, msgspec.structs.replace(options, project=scope))
    )


def _look(file: ManagedFile) -> FileState:
    state: InstallState = "missing"
    problem = ""
    try:
        text, _ = _decode(_read(_target(file.path)))
        if text is not None and file.editor.uninstall(text) != text:
            state = "installed" if file.editor.install(text) == text else "outdated"
    except (CannotInstall, CannotEdit) as error:
        problem = error.message
    return FileState(path=str(file.path), what=file.what, state=state, problem=problem)


def _target(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # a loop of links
        raise CannotInstall(f"{path} cannot be resolved: {error}", hint="Check its symbolic links.") from None


def _read(path: Path) -> bytes | None:
    try:
        if path.stat().st_size > MAX_FILE:
            raise CannotInstall(f"{path} was left alone: it is larger than {MAX_FILE >> 20} MiB")
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CannotInstall(f"{path} cannot be read: {error.strerror}", hint="Look at its permissions.") from None


def _decode(content: bytes | None) -> tuple[str | None, bytes]:
    """The text, and the byte order mark before it, which some editors write and no other part of ours sees."""
    if content is None:
        return None, b""
    begin = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""
    try:
        return content[len(begin) :].decode(), begin
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, len(begin) + error.start) + 1
        raise CannotEdit(f"it is not UTF-8 text (line {line})") from None


# --- applying ------------------------------------------------------------------------------------------------------


def apply(changes: Sequence[FileChange], env: Mapping[str, str]) -> None:
    """Write them all, or none. Raises CannotInstall."""
    done: list[FileChange] = []
    directories = _Directories(paths.state(env) / "harness-directories.json")
    for change in changes:
        try:
            _apply(change, env, directories)
        except OSError as error:
            for earlier in reversed(done):
                with suppress(OSError):
                    _write(Path(earlier.path), earlier.old)
            raise CannotInstall(
                f"{change.path} cannot be written: {error.strerror or error}",
                hint="Nothing was changed. Look at its permissions, and whether another program writes it.",
            ) from None
        done.append(change)
    directories.remove_empty()


def _apply(change: FileChange, env: Mapping[str, str], directories: "_Directories") -> None:
    path = Path(change.path)
    if _read(path) != change.old:
        raise OSError(0, "another program has changed it meanwhile")
    if change.old is not None:
        _back_up(change.path, change.old, env)
    directories.make(path.parent)
    _write(path, change.new)


def _write(path: Path, content: bytes | None) -> None:
    """Whole or not at all; with the mode and the owner that it had."""
    if content is None:
        path.unlink(missing_ok=True)
        return
    part = path.with_name(f".{path.name}.tieline-{os.getpid()}")
    try:
        former = path.stat()
    except FileNotFoundError:
        former = None
    try:
        with part.open("xb") as file:
            if former is not None:
                os.fchmod(file.fileno(), former.st_mode & 0o7777)
                if (former.st_uid, former.st_gid) != (os.geteuid(), os.getegid()):
                    with suppress(PermissionError):
                        os.fchown(file.fileno(), former.st_uid, former.st_gid)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _back_up(path: str, content: bytes, env: Mapping[str, str]) -> None:
    folder = paths.state(env) / "harness-backups" / hashlib.sha256(path.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000_000:09d}-{Path(path).name}"
    with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    for old in sorted(folder.iterdir())[:-BACKUPS_KEPT]:
        old.unlink(missing_ok=True)


class _Directories:
    """The folders that were made for our files: they go again when they are empty."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._made: set[str] = set(msgspec.json.decode(file.read_bytes(), type=list[str]))
        except (OSError, msgspec.DecodeError):
            self._made = set()

    def make(self, folder: Path) -> None:
        missing = [ancestor for ancestor in (folder, *folder.parents) if not ancestor.exists()]
        if missing:
            folder.mkdir(parents=True)
            self._save(self._made | {str(ancestor) for ancestor in missing})

    def remove_empty(self) -> None:
        gone: set[str] = set()
        for made in sorted(self._made, key=len, reverse=True):
            with suppress(OSError):
                Path(made).rmdir()  # only an empty one goes
            if not Path(made).exists():
                gone.add(made)
        if gone:
            self._save(self._made - gone)

    def _save(self, made: set[str]) -> None:
        self._made = made
        if made or self._file.exists():
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(self._file, msgspec.json.encode(sorted(made)) if made else None)
