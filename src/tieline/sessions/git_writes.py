"""Writes the few files of a repository by hand, as git does: references, the index, reflogs; and removes work files.

An agent may have laid links there. A file that takes another's place is made anew beside it, so no link is followed;
and where a folder is a link that leads out of the repository, nothing is written.
"""

import os
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..safe_file_read import open_folder, read_regular
from .git_repository import Repository
from .safe_git import MAX_INDEX, GitFailed

LOCK_S = 2.0
"""How long a lock that somebody else holds is waited for."""
RETRY_S = 0.05


def write_ref(own: Repository, ref: str, commit: str, *, unless: Callable[[], str]) -> None:
    """`unless` gives a reason against it, asked while the reference is locked. Raises GitFailed."""
    with _locked(own.common_dir, ref) as replace:
        if why := unless():
            raise GitFailed(why)
        replace(f"{commit}\n".encode(), 0)


def replace_index(own: Repository, before: bytes | None, new: Path) -> None:
    """Raises GitFailed, also when it is no longer as it was `before` (None: there was none)."""
    with _locked(own.git_dir, "index") as replace:
        if read_index(own) != before:
            hint = "Look at the changes again."
            raise GitFailed("somebody else has just staged something", hint=hint)
        replace(new.read_bytes(), new.stat().st_mtime_ns)  # git compares the files' times with the index's own


def read_index(own: Repository) -> bytes | None:
    try:
        return read_regular(f"{own.git_dir}/index", MAX_INDEX)
    except OSError:
        return None


def append_reflogs(own: Repository, branch: str, line: str) -> None:
    """To those that are kept. One that is not a plain file of its own is left alone."""
    for base, name in ((own.git_dir, "logs/HEAD"), (own.common_dir, f"logs/refs/heads/{branch}")):
        with suppress(OSError, GitFailed):
            place = _inside(base, name)
            descriptor = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                about = os.fstat(descriptor)
                if stat.S_ISREG(about.st_mode) and about.st_nlink == 1:
                    os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)


def remove_file(top: str, name: bytes) -> None:
    """A work file, and the folders that are empty then. Follows no link. Raises OSError."""
    path = os.fsdecode(name)
    while path:
        folder, _, last = path.rpartition("/")
        try:
            within = open_folder(top, folder)
        except (FileNotFoundError, NotADirectoryError):
            return  # it is gone, or not in this tree any more
        try:
            if os.fsencode(path) == name:
                with suppress(FileNotFoundError):
                    os.unlink(last, dir_fd=within)
            else:
                os.rmdir(last, dir_fd=within)
        except OSError:
            if os.fsencode(path) == name:
                raise
            return  # the folder has other files
        finally:
            os.close(within)
        path = folder


@contextmanager
def _locked(base: str, name: str) -> Generator[Callable[[bytes, int], None]]:
    """Gives what replaces the file, under git's own lock. Raises GitFailed."""
    place = _inside(base, name)
    lock = place.with_name(f"{place.name}.lock")
    until = time.monotonic() + LOCK_S
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
                break
            except FileExistsError:
                if time.monotonic() > until:
                    hint = f"When no git runs there, remove {lock}."
                    raise GitFailed(f"another git is at work: {lock} exists", hint=hint) from None
                time.sleep(RETRY_S)
        written = False

        def replace(content: bytes, mtime_ns: int) -> None:
            nonlocal written
            left = memoryview(content)
            while left:
                left = left[os.write(descriptor, left) :]
            if mtime_ns:
                os.utime(descriptor, ns=(mtime_ns, mtime_ns))
            lock.replace(place)
            written = True

        try:
            yield replace
        finally:
            os.close(descriptor)
            if not written:
                lock.unlink(missing_ok=True)
    except OSError as error:
        raise GitFailed(f"{place} cannot be written: {error.strerror}") from None


def _inside(base: str, name: str) -> Path:
    place = Path(base, name)
    real, root = os.path.realpath(place.parent), os.path.realpath(base)
    if real != root and not real.startswith(f"{root}/"):
        raise GitFailed(f"{place.parent} leads out of the repository", hint="Look at the links in its .git folder.")
    return place
