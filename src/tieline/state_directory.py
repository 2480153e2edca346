"""The version of the state directory, and how its whole content is replaced. Call both while the lock is held.

A directory without a mark is of version 1. One of an older version is migrated when something starts in it, one of a
newer version is refused. What a restore brings is put in place in two phases, each of which can be done again: whoever
starts next finishes what a crash cut short.
"""

import errno
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from . import paths
from .errors import TielineError
from .safe_file_write import replace_private_file

VERSION = 1
"""What this Tieline reads and writes. The bus file counts its schema by itself."""

UNMARKED = 1
"""The version of directories that were made before there was a mark."""

MIGRATIONS: Mapping[int, Callable[[Path], None]] = {}
"""From a version to the next. A step may be done twice (a crash can come before the mark), and loses nothing."""

STAGING = "restoring.part"
"""Not whole yet: of no worth after a crash."""
REPLACING = "restoring"
"""Whole; the former content is moved away."""
FILLING = "restored"
"""The former content is away; the new content is moved in."""
FORMER = "before-restore-"
"""The former content, kept until its owner removes it."""
LOCKS = frozenset({"running.lock", "bus.db.lock"})
"""Held by who runs here, so they stay where they are."""


class StateUnusable(TielineError):
    """The directory cannot be used by this Tieline."""


def make(env: Mapping[str, str]) -> Path:
    """The directory, made where it is missing. Raises StateUnusable, which says which it is and what to set."""
    folder = paths.state(env)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise StateUnusable(
            f"the state directory {folder} cannot be used: {error.strerror}",
            hint="Set TIELINE_HOME to a directory that you may write to.",
        ) from None
    return folder


def prepare(env: Mapping[str, str]) -> None:
    """Make the directory one of this version. Raises StateUnusable."""
    state = paths.state(env)
    finish_replacing(state)
    version = version_of(state)
    check_version(version, str(state))
    for number in range(version, VERSION):
        MIGRATIONS[number](state)
        _mark(state, number + 1)
    if not version_file(state).exists():
        _mark(state, VERSION)


def version_file(state: Path) -> Path:
    return state / "version"


def version_of(state: Path) -> int:
    file = version_file(state)
    try:
        text = file.read_text().strip()
    except FileNotFoundError:
        return UNMARKED
    except (OSError, UnicodeDecodeError) as error:
        raise StateUnusable(f"{file} cannot be read: {error}", hint="Look at its permissions.") from None
    if not (text.isascii() and text.isdigit()) or not int(text):
        raise StateUnusable(
            f"{file} does not hold a version", hint="Restore a backup: `tieline down`, then `tieline restore FILE`."
        )
    return int(text)


def check_version(version: int, what: str) -> None:
    """Raises StateUnusable for a newer one."""
    if version > VERSION:
        raise StateUnusable(
            f"{what} is of a newer Tieline (state version {version}; this one knows {VERSION})",
            hint="Use that Tieline, or another directory: TIELINE_HOME names it. Nothing was changed.",
        )


def _mark(state: Path, version: int) -> None:
    replace_private_file(version_file(state), f"{version}\n".encode())


# --- replacing the whole content --------------------------------------------------------------------------


def stage(state: Path) -> Path:
    """An empty folder on the same disk for new content."""
    staging = state / STAGING
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(mode=0o700)
    return staging


def replace_content(state: Path) -> Path | None:
    """What was staged becomes the content; the former content is kept where this says, if there was any."""
    (state / STAGING).rename(state / REPLACING)
    return finish_replacing(state)


def finish_replacing(state: Path) -> Path | None:
    """Goes on where it was cut short, if it was."""
    shutil.rmtree(state / STAGING, ignore_errors=True)
    replacing, filling = state / REPLACING, state / FILLING
    former: Path | None = None
    if replacing.is_dir():
        if away := [path for path in state.iterdir() if _is_content(path.name)]:
            former = _new_folder(state)
            for path in away:
                path.rename(former / path.name)
        replacing.rename(filling)
    if filling.is_dir():
        for path in list(filling.iterdir()):
            path.rename(state / path.name)
        filling.rmdir()
    return former


def _is_content(name: str) -> bool:
    return name not in {*LOCKS, STAGING, REPLACING, FILLING} and not name.startswith(FORMER)


def _new_folder(state: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        folder = state / (f"{FORMER}{stamp}" if not number else f"{FORMER}{stamp}-{number}")
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return folder
    raise StateUnusable(f"{state} has too many folders {FORMER}…", hint="Remove those that you no longer need.")
