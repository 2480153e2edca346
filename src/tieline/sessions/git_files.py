"""Files of a git repository that Tieline writes itself: references and an index.

Git would run hooks for them. Each is written as git writes it: into a lock file beside it, which takes its place.
"""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..safe_file_read import read_regular
from .git_repository import MAX_REFS, Repository
from .safe_git import GitFailed

STALE_S = 10.0
"""A lock of git's that is older belongs to a process that was killed."""
LOCKED_S = 0.05


def write_ref(repository: Repository, ref: str, before: str, commit: str) -> None:
    """`before`: the commit that it has now; empty: there is none. Raises GitFailed."""
    place = Path(repository.common_dir, ref)
    try:
        with locked(place) as lock:
            lock.write_text(f"{commit}\n")
            _check(repository, ref, before)
            lock.replace(place)
    except OSError as error:
        raise GitFailed(f"{_named(ref)} cannot be written: {error}") from None


def delete_ref(repository: Repository, ref: str, before: str) -> None:
    """Raises GitFailed."""
    place = Path(repository.common_dir, ref)
    try:
        with locked(place):
            _check(repository, ref, before)
            _unpack(repository, ref)  # first: else an older commit of the branch would come to light
            place.unlink(missing_ok=True)
    except OSError as error:
        raise GitFailed(f"{_named(ref)} cannot be removed: {error}") from None
    with suppress(OSError):  # folders that others use stay
        for folder in place.parents:
            if folder.name in ("heads", "tieline", "refs") and folder.parent.name in ("refs", ""):
                break
            folder.rmdir()


def check_new_ref(repository: Repository, ref: str) -> None:
    """Git keeps references in folders: `a` and `a/b` cannot both be. Raises GitFailed."""
    parts = ref.split("/")
    for length in range(3, len(parts)):
        if repository.reference(above := "/".join(parts[:length])):
            raise GitFailed(f"there is {_named(above)}, so there cannot be {_named(ref)}", hint="Name another branch.")
    if repository.has_below(ref):
        raise GitFailed(f"there are branches below {ref.removeprefix('refs/heads/')}/", hint="Name another branch.")


def replace_file(place: Path, content: bytes) -> None:
    lock = place.with_name(f"{place.name}.lock")
    lock.write_bytes(content)
    lock.replace(place)


@contextmanager
def locked(place: Path) -> Generator[Path, None, None]:
    """The lock file, empty; it may take the place of the file. Waits for whoever has it; a process that was killed
    leaves it behind. Raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    lock = place.with_name(f"{place.name}.lock")
    tries_until = time.monotonic() + 2 * STALE_S
    while True:
        with suppress(OSError):
            if time.time() - lock.stat().st_mtime > STALE_S:
                lock.unlink()
        try:
            lock.open("x").close()
            break
        except FileExistsError:
            if time.monotonic() > tries_until:
                raise
            time.sleep(LOCKED_S)
    try:
        yield lock
    finally:
        lock.unlink(missing_ok=True)


def _check(repository: Repository, ref: str, before: str) -> None:
    if repository.reference(ref) != before:
        raise GitFailed(f"{_named(ref)} has just been changed by somebody else", hint="Look at it, then try again.")


def _unpack(repository: Repository, ref: str) -> None:
    packed = Path(repository.common_dir, "packed-refs")
    if not repository.packed(ref):
        return
    with locked(packed) as lock:
        kept: list[bytes] = []
        ours = False
        for line in read_regular(str(packed), MAX_REFS).splitlines(keepends=True):
            if not line.startswith(b"^"):  # else it belongs to the line before it
                ours = line.rstrip(b"\n").endswith(b" " + os.fsencode(ref))
            if not ours:
                kept.append(line)
        lock.write_bytes(b"".join(kept))
        lock.replace(packed)


def _named(ref: str) -> str:
    name = ref.removeprefix("refs/heads/")
    return f"the branch {name}" if name != ref else ref
