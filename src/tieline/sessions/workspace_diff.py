"""What changed in a session's directory since it began, by git: staged, unstaged and untracked alike.

A snapshot is a tree object of the files as they are, without conversions, in a store of our own; neither the user's
index nor their files nor their objects are touched, and nothing that the repository names is run (see `git`). What
cannot be put in a tree is a line of text in its place: a huge file by its size and time. A nested repository is its
commit.
"""

import asyncio
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from .. import paths
from . import git_repository
from .git_repository import Repository
from .safe_git import HUGE, Git, GitFailed, copy_index, opened

__all__ = ["GitFailed", "branch", "changes", "snapshot"]

MAX_DIFF = 16 * 1024 * 1024
"""A diff longer than this is cut, and says so."""
UNUSED_S = 90 * 86400.0
"""A store in which no session began for so long is removed."""


async def snapshot(cwd: str, env: Mapping[str, str]) -> str:
    """The directory's state as a git tree id; empty when it is not in a git work tree. Raises GitFailed."""
    repository = await asyncio.to_thread(git_repository.find, cwd)
    if repository is None:
        return ""
    store = store_of(repository, env)
    if not store.exists():
        await asyncio.to_thread(_tidy, store.parent)
    async with opened(repository, env, store=store, keep=True) as git:
        return await _tree(repository, git, store, keep=True)


async def changes(cwd: str, env: Mapping[str, str], since: str) -> str:
    """A unified diff from a snapshot to now. Raises GitFailed."""
    repository = await asyncio.to_thread(git_repository.find, cwd)
    if not since or repository is None:
        raise GitFailed(f"{cwd} is not in a git repository", hint="Run `git init` there to have diffs.")
    store = store_of(repository, env)
    async with opened(repository, env, store=store, keep=False) as git:
        now = await _tree(repository, git, store, keep=False)
        options = ("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--submodule=short")
        diff = await git.run("diff-tree", "-r", "-p", *options, since, now, limit=MAX_DIFF)
    if len(diff) > MAX_DIFF:
        return os.fsdecode(diff[:MAX_DIFF]) + f"\n… cut: the diff is longer than {MAX_DIFF:,} bytes\n"
    return os.fsdecode(diff)


def branch(cwd: str) -> str:
    """The checked-out branch; empty when there is none."""
    repository = git_repository.find(cwd)
    return repository.branch if repository else ""


def store_of(repository: Repository, env: Mapping[str, str]) -> Path:
    """The folder of our own files about a repository."""
    name = hashlib.sha256(os.fsencode(f"{repository.object_format} {repository.top}")).hexdigest()[:32]
    return paths.snapshots(env) / name


async def _tree(repository: Repository, git: Git, store: Path, *, keep: bool) -> str:
    """The tree of the current files. With `keep`, files that were hashed need not be hashed next time."""
    with suppress(OSError):
        # A link keeps the file's time; git never writes into the file, it replaces it.
        os.link(store / "index", git.index)
    theirs = git.directory / "theirs" if await asyncio.to_thread(copy_index, repository, git.directory) else None
    changed, ours_ignored, theirs_ignored = await asyncio.gather(
        git.run("ls-files", "-z", "-m", "-d", "-o", "--exclude-standard"),
        _ignored(git, git.index),
        _ignored(git, theirs),
    )
    names = {name for name in changed.split(b"\0") if name} | theirs_ignored
    files, lines = await asyncio.to_thread(_sort, repository.top, names, git)
    # Others are not in the index: a nested repository always, a huge file unless it has grown.
    forgotten = [*(ours_ignored - theirs_ignored), *(name for name in lines if not name.endswith(b"/"))]
    if forgotten:
        await git.run(
            "update-index", "-z", "--index-info", feed=_entries((name, git.no_object, "0") for name in forgotten)
        )
    if files:
        feed = b"".join(name + b"\0" for name in files)
        await git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", feed=feed)
    tree = ""
    if not any(lines.values()):
        tree = os.fsdecode(await git.run("write-tree")).strip()
    if keep:
        fresh = git.directory / "fresh"
        with suppress(OSError):
            os.link(git.index, fresh)
            fresh.replace(store / "index")
    if not tree:
        shown = [(name.rstrip(b"/"), id, mode) for name, about in lines.items() if about for mode, id in [about]]
        await git.run("update-index", "--add", "--replace", "-z", "--index-info", feed=_entries(shown))
        tree = os.fsdecode(await git.run("write-tree")).strip()
    return tree


async def _ignored(git: Git, index: Path | None) -> set[bytes]:
    """What an index has although the ignore rules speak against it: the user added it by force."""
    if index is None or not index.exists():
        return set()
    try:
        listed = await git.run("ls-files", "-z", "-c", "-i", "--exclude-standard", index=index)
    except GitFailed:  # not an index, or one of a later git: the rules alone count
        return set()
    return {name for name in listed.split(b"\0") if name}


def _sort(top: str, names: Iterable[bytes], git: Git) -> tuple[list[bytes], dict[bytes, tuple[str, str] | None]]:
    """Those that git shall read (or find missing), and those that it shall not, with what stands for them."""
    files: list[bytes] = []
    lines: dict[bytes, tuple[str, str] | None] = {}
    links: dict[bytes, bool] = {}
    base = os.fsencode(top) + b"/"
    for name in sorted(names):
        path = base + name
        if name.endswith(b"/"):
            nested = git_repository.at(os.fsdecode(path.rstrip(b"/")))
            commit = nested.commit if nested else ""
            lines[name] = (
                ("160000", commit) if commit else ("100644", git.keep_text("(a repository without commits)\n"))
            )
            continue
        try:
            about = os.lstat(path)
        except OSError:
            files.append(name)  # gone: git takes it out
            continue
        if beyond_link(base, name, links) or not (stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode)):
            lines[name] = None
        elif about.st_size > HUGE:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(about.st_mtime)) + f".{about.st_mtime_ns % 10**9:09d}"
            text = f"(a file of {about.st_size:,} bytes, changed {when} UTC: too large to be shown)\n"
            lines[name] = ("100644", git.keep_text(text))
        elif stat.S_ISREG(about.st_mode) and not os.access(path, os.R_OK):
            lines[name] = ("100644", git.keep_text(f"(a file of {about.st_size:,} bytes that cannot be read)\n"))
        else:
            files.append(name)
    return files, lines


def beyond_link(base: bytes, name: bytes, known: dict[bytes, bool]) -> bool:
    """Whether a folder on the way to it is a symbolic link: then it is not in this tree."""
    folder = name.rpartition(b"/")[0]
    if not folder:
        return False
    if folder not in known:
        known[folder] = os.path.islink(base + folder) or beyond_link(base, folder, known)  # noqa: PTH114
    return known[folder]


def _entries(entries: Iterable[tuple[bytes, str, str]]) -> bytes:
    return b"".join(b"%b %b\t%b\0" % (mode.encode(), id.encode(), name) for name, id, mode in entries)


def _tidy(folder: Path) -> None:
    """Remove the stores that nobody used for long."""
    with suppress(OSError):
        for store in folder.iterdir():
            with suppress(OSError):
                if time.time() - store.stat().st_mtime > UNUSED_S:  # every use makes a folder in it
                    shutil.rmtree(store, ignore_errors=True)
