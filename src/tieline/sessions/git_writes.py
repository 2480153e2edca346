"""Writes the few files of a repository by hand, as git does: references, the index, reflogs; and removes work files.

Git would run hooks for them. An agent may have laid links there: a file that takes another's place is made anew beside
it, so no link is followed; and where a folder is a link that leads out of the repository, nothing is written.
"""

import fcntl
import os
import platform
import re
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..safe_file_read import open_folder, read_regular
from .git_repository import MAX_REFS, Repository
from .safe_git import MAX_INDEX, GitFailed

LOCK_S = 2.0
"""How long a lock that somebody else holds is waited for."""
RETRY_S = 0.05
MAX_OURS = 400

_OURS = re.compile(rb"tieline (\d{1,10}) (.*)\n")


def write_ref(own: Repository, ref: str, before: str | None, commit: str) -> None:
    """`before`: the commit that it has now; empty: there is none; None: whatever it has. Raises GitFailed."""
    with locked(own.common_dir, ref) as replace:
        if before is not None:
            _check_ref(own, ref, before)
        replace(f"{commit}\n".encode())


def delete_ref(own: Repository, ref: str, before: str) -> None:
    """Raises GitFailed."""
    path = _inside(own.common_dir, ref)
    with locked(own.common_dir, ref):
        _check_ref(own, ref, before)
        _unpack(own, ref)  # before the file is removed: else the branch would have an older commit for a moment
        path.unlink(missing_ok=True)
    with suppress(OSError):  # folders that others use stay
        for folder in path.parents:
            if folder.name in ("heads", "tieline", "refs") and folder.parent.name in ("refs", ""):
                break
            folder.rmdir()


def check_new_ref(own: Repository, ref: str) -> None:
    """Git keeps references in folders: `a` and `a/b` cannot both be. Raises GitFailed."""
    parts = ref.split("/")
    for length in range(3, len(parts)):
        if own.reference(above := "/".join(parts[:length])):
            raise GitFailed(f"there is {_named(above)}, so there cannot be {_named(ref)}", hint="Name another branch.")
    if own.has_below(ref):
        raise GitFailed(f"there are branches below {ref.removeprefix('refs/heads/')}/", hint="Name another branch.")


def replace_file(base: str, name: str, content: bytes) -> None:
    """Replace the file at once, without a lock: for files that only Tieline writes. Raises OSError, GitFailed."""
    path = _inside(base, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.tieline")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        _write_all(descriptor, content)
    finally:
        os.close(descriptor)
    new.replace(path)


def replace_index(own: Repository, before: bytes | None, new: Path) -> None:
    """Raises GitFailed, also when it is no longer as it was `before` (None: there was none)."""
    with locked(own.git_dir, "index") as replace:
        if read_index(own) != before:
            hint = "Look at the changes again."
            raise GitFailed("the index was changed concurrently", hint=hint)
        replace(new.read_bytes(), new.stat().st_mtime_ns)  # git compares the files' times with the index's own


def read_index(own: Repository) -> bytes | None:
    try:
        return read_regular(f"{own.git_dir}/index", MAX_INDEX)
    except OSError:
        return None


def append_reflogs(own: Repository, branch: str, line: str) -> None:
    """Append the line to those reflogs that exist. A reflog that is not a regular file with one name is left alone."""
    for base, name in ((own.git_dir, "logs/HEAD"), (own.common_dir, f"logs/refs/heads/{branch}")):
        with suppress(OSError, GitFailed):
            path = _inside(base, name)
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
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


Replace = Callable[..., None]
"""`replace(content, mtime_ns)`; without a time: now."""


@contextmanager
def locked(base: str, name: str) -> Generator[Replace, None, None]:
    """Gives a function that replaces the file, under git's own lock. A lock that a killed process of ours left is
    removed; if another process has the lock, this waits. Raises GitFailed."""
    path = _inside(base, name)
    lock = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _lock(lock)
        written = False

        def replace(content: bytes, mtime_ns: int = 0) -> None:
            nonlocal written
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            _write_all(descriptor, content)
            if mtime_ns:
                os.utime(descriptor, ns=(mtime_ns, mtime_ns))
            lock.replace(path)
            written = True

        try:
            yield replace
        finally:
            os.close(descriptor)
            if not written:
                lock.unlink(missing_ok=True)
    except OSError as error:
        raise GitFailed(f"{path} cannot be written: {error.strerror}") from None


def _lock(lock: Path) -> int:
    """Its descriptor. The lock says whose it is, which git does not mind."""
    until = time.monotonic() + LOCK_S
    while True:
        try:
            descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            if _removed_left_behind(lock):
                continue
            if time.monotonic() > until:
                hint = f"When no git runs there, remove {lock}."
                raise GitFailed(f"another git process is running: {lock} exists", hint=hint) from None
            time.sleep(RETRY_S)
        else:
            try:
                _write_all(descriptor, f"tieline {os.getpid()} {platform.node()}\n".encode())
            except OSError:  # a full disk: a lock that does not say whose it is would stay for good
                os.close(descriptor)
                lock.unlink(missing_ok=True)
                raise
            return descriptor


def _removed_left_behind(lock: Path) -> bool:
    """By one at a time: a second one could remove the lock that the first has made since."""
    folder = os.open(lock.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _left_behind(lock):
            lock.unlink(missing_ok=True)
            return True
    except BlockingIOError:
        pass  # it is looked at right now, or somebody holds the folder: tried again as long as we wait
    finally:
        os.close(folder)
    return False


def _left_behind(lock: Path) -> bool:
    """Whether the lock is of a process of ours on this machine that has ended."""
    try:
        match = _OURS.fullmatch(read_regular(str(lock), MAX_OURS))
    except OSError:
        return False
    if match is None or match[2] != platform.node().encode():
        return False
    try:
        os.kill(int(match[1]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def _check_ref(own: Repository, ref: str, before: str) -> None:
    with suppress(OSError):  # what is not read could be a branch of that name
        if Path(own.common_dir, "packed-refs").stat().st_size > MAX_REFS:
            raise GitFailed(f"{own.common_dir} has more references than Tieline reads", hint="Use git itself there.")
    if own.reference(ref) != before:
        raise GitFailed(f"{_named(ref)} was changed concurrently", hint="Look at it, then try again.")


def _unpack(own: Repository, ref: str) -> None:
    if not own.packed(ref):
        return
    with locked(own.common_dir, "packed-refs") as replace:
        kept: list[bytes] = []
        ours = False
        for line in read_regular(f"{own.common_dir}/packed-refs", MAX_REFS).splitlines(keepends=True):
            if not line.startswith(b"^"):  # else it belongs to the line before it
                ours = line.rstrip(b"\n").endswith(b" " + os.fsencode(ref))
            if not ours:
                kept.append(line)
        replace(b"".join(kept))


def _named(ref: str) -> str:
    name = ref.removeprefix("refs/heads/")
    return f"the branch {name}" if name != ref else ref


def _inside(base: str, name: str) -> Path:
    path = Path(base, name)
    real, root = os.path.realpath(path.parent), os.path.realpath(base)
    if real != root and not real.startswith(f"{root}/"):
        raise GitFailed(f"{path.parent} leads out of the repository", hint="Look at the links in its .git folder.")
    return path
