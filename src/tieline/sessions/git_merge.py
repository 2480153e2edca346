"""Merging and rebasing among a repository's objects, and bringing a checkout to the result.

The result is made first, as objects only: conflicts change nothing. Then the files, the index and the branch of the
checkout follow. What is to be done is written down before the first file changes, so that after a kill at any moment
the same call, or `mend`, finishes it. Nothing that the repository names is run (see `safe_git`).
"""

import asyncio
import hashlib
import os
import stat
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from ..safe_file_read import read_regular
from .git_config import NOBODY, TELL_GIT, TIELINE, Identity, read_settings
from .git_repository import Repository
from .git_writes import locked, replace_file, write_ref
from .safe_git import Git, GitFailed, copy_index, opened
from .workspace_diff import beyond_link

MAX_NAMED = 20
"""Files that an error names."""
MAX_CONFLICTS = 50
MAX_REBASED = 200
"""Commits that are rebased at once."""
JOURNAL = "tieline-advance"
"""In a checkout's git directory while its files are brought to another commit."""
GITLINK = "160000"
SYMLINK = "120000"
CHUNK = 1024 * 1024
MAX_BEGUN = 64 * 1024 * 1024
"""A file that was being written when its writer was killed is read up to so many bytes."""


class MergeConflict(GitFailed):
    pass


class Advance(Struct, frozen=True):
    """What a checkout is being brought to."""

    branch: str
    before: str
    after: str


class TreeChange(NamedTuple):
    """Of one file between two commits; a mode of zeros: it is not there."""

    path: bytes
    before: tuple[str, str]  # mode, object
    after: tuple[str, str]


async def identity(git: Git, repository: Repository, env: Mapping[str, str]) -> Identity:
    """The identity of the user. Raises GitFailed."""
    user = (await read_settings(git, repository, env)).identity(env)
    if user is None:
        raise GitFailed(NOBODY, hint=TELL_GIT)
    return user


async def merge_trees(git: Git, ours: str, theirs: str) -> tuple[str, tuple[str, ...]]:
    """The tree of a merge, and the files in conflict; with conflicts, the tree must not be used. Raises GitFailed."""
    options = ("--write-tree", "--name-only", "--no-messages", "-z")
    try:
        printed = await git.run("merge-tree", *options, ours, theirs, codes=(0, 1))
    except GitFailed as error:
        error.hint = error.hint or "Merging needs git 2.38 or newer."
        raise
    tree, *names = printed.split(b"\0")
    conflicts = dict.fromkeys(os.fsdecode(name).encode(errors="replace").decode() for name in names if name)
    return os.fsdecode(tree), tuple(conflicts)[:MAX_CONFLICTS]


async def merge(git: Git, base: str, head: str, who: Identity, message: str) -> str:
    """The commit that has both: one of them where it has the other already, else a merge. Raises MergeConflict."""
    if await is_ancestor(git, head, base):
        return base
    if await is_ancestor(git, base, head):
        return head
    tree, conflicts = await merge_trees(git, base, head)
    if conflicts:
        raise MergeConflict(f"both sides changed {named(conflicts)}")
    made = await git.run("commit-tree", tree, "-p", base, "-p", head, "-m", message, env=who.env())
    return os.fsdecode(made).strip()


async def rebase(git: Git, head: str, onto: str, who: Identity) -> str:
    """The commits of `head` that `onto` does not have, made anew on top of it. Raises MergeConflict, GitFailed."""
    if await is_ancestor(git, onto, head):
        return head
    listed = await git.run("rev-list", "--reverse", "--topo-order", "--parents", head, f"^{onto}")
    lines = [line.split() for line in os.fsdecode(listed).splitlines()]
    if any(len(line) > 2 for line in lines):
        raise GitFailed("the branch has merge commits, which a rebase would lose", hint="Merge it instead.")
    if len(lines) > MAX_REBASED:
        raise GitFailed(f"the branch has {len(lines):,} commits, more than are rebased here", hint="Merge it instead.")
    new = onto
    for commit, *parents in lines:
        tree = await _picked(git, new, commit, parents)
        if tree != await tree_of(git, new):  # else all of it is there already
            new = await _copy(git, commit, tree, new, who)
    return new


async def _picked(git: Git, onto: str, commit: str, parents: list[str]) -> str:
    """The tree of `onto` with the changes of one commit. Git merges by history, so it is given one: a common ancestor
    with the tree of the commit's parent."""
    env = TIELINE.env()

    async def stand_in(tree: str, *parent: str) -> str:
        return os.fsdecode(await git.run("commit-tree", tree, *parent, "-m", "x", env=env)).strip()

    empty = os.fsdecode(await git.run("mktree")).strip()
    ancestor = await stand_in(await tree_of(git, parents[0]) if parents else empty)
    ours = await stand_in(await tree_of(git, onto), "-p", ancestor)
    theirs = await stand_in(await tree_of(git, commit), "-p", ancestor)
    tree, conflicts = await merge_trees(git, ours, theirs)
    if conflicts:
        subject = os.fsdecode(await git.run("log", "-1", "--format=%s", commit)).strip()
        raise MergeConflict(f"the commit {commit[:10]} ({subject[:60]}) conflicts in {named(conflicts)}")
    return tree


async def _copy(git: Git, commit: str, tree: str, parent: str, who: Identity) -> str:
    """The same author, time and message with another tree and parent. A signature would not hold any more."""
    head, _, message = (await git.run("cat-file", "commit", commit)).partition(b"\n\n")
    kept = [line for line in head.split(b"\n") if line.startswith((b"author ", b"encoding "))]
    name, email = (part.translate({ord(sign): None for sign in "<>\n\0"}) for part in (who.name, who.email))
    committer = f"committer {name} <{email}> {int(time.time())} +0000".encode()
    lines = [f"tree {tree}".encode(), f"parent {parent}".encode(), kept[0], committer, *kept[1:]]
    content = b"\n".join(lines) + b"\n\n" + message
    return os.fsdecode(await git.run("hash-object", "-t", "commit", "-w", "--stdin", feed=content)).strip()


async def is_ancestor(git: Git, ancestor: str, descendant: str) -> bool:
    return not await git.run("rev-list", "-n", "1", ancestor, f"^{descendant}")


async def tree_of(git: Git, commit: str) -> str:
    return os.fsdecode(await git.run("rev-parse", f"{commit}^{{tree}}")).strip()


def named(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


# --- a checkout follows -------------------------------------------------------------------------------------------


async def advance(checkout: Repository, wanted: Advance, env: Mapping[str, str], store: Path) -> None:
    """Brings the files, the index and the branch of a checkout to another commit. Files that differ from both, and such
    as are in the way, are never touched: then nothing changes, and GitFailed names them."""
    journal = Path(checkout.git_dir, JOURNAL)
    again = journal.exists()
    objects = Path(checkout.common_dir, "objects")
    async with opened(checkout, env, store=store, keep=True, objects=objects) as git:
        with ExitStack() as stack:
            replace = await asyncio.to_thread(stack.enter_context, locked(checkout.git_dir, "index"))
            if not await asyncio.to_thread(copy_index, checkout, git.directory):
                raise GitFailed(f"nothing is checked out in {checkout.top}")
            (git.directory / "theirs").replace(git.index)
            await git.run("update-index", "-q", "--refresh", codes=(0, 1))
            if await git.run("diff-index", "--cached", "--name-only", wanted.after, limit=1):
                await _prepare(git, checkout.top, wanted, again=again)
                await asyncio.to_thread(replace_file, checkout.git_dir, JOURNAL, msgspec.json.encode(wanted))
                await git.run("read-tree", "-m", "-u", wanted.before, wanted.after)
                replace(git.index.read_bytes(), git.index.stat().st_mtime_ns)
        await asyncio.to_thread(replace_file, checkout.git_dir, "ORIG_HEAD", f"{wanted.before}\n".encode())
        await asyncio.to_thread(write_ref, checkout, f"refs/heads/{wanted.branch}", wanted.before, wanted.after)
    journal.unlink(missing_ok=True)


async def mend(checkout: Repository, env: Mapping[str, str], store: Path) -> None:
    """Finishes what a killed process had begun with `advance`. Raises GitFailed, which says why it cannot."""
    journal = Path(checkout.git_dir, JOURNAL)
    try:
        wanted = msgspec.json.decode(read_regular(str(journal), CHUNK), type=Advance)
    except FileNotFoundError:
        return
    except (OSError, msgspec.MsgspecError):
        wanted = Advance("", "", "")
    if checkout.branch != wanted.branch or checkout.ref(wanted.branch) != wanted.before:
        journal.unlink(missing_ok=True)  # it was done but for this; or somebody went on from there by themselves
        return
    await advance(checkout, wanted, env, store)


async def _prepare(git: Git, top: str, wanted: Advance, *, again: bool) -> None:
    """Makes the index fit for `read-tree`, or raises GitFailed. `again`: a process was killed in the middle of it."""
    listed = await git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", wanted.before, wanted.after)
    staged = (await git.run("diff-index", "--cached", "-z", "--name-only", wanted.before)).split(b"\0")
    if others := [_text(name) for name in staged if name]:
        hint = "Commit or unstage them there, then try again."
        raise GitFailed(f"{top} has staged changes: {named(others)}", hint=hint)
    done, theirs = await asyncio.to_thread(_compare, top, _changes(listed), git.algorithm)
    begun = [change for change in theirs if again and await _begun(git, top, change)]
    if others := [_text(change.path) for change in theirs if change not in begun]:
        hint = "Commit them, stash them or move them away there, then try again."
        raise GitFailed(f"{top} has changes of its own in {named(others)}", hint=hint)
    for change in begun:
        await asyncio.to_thread(_path_of(top, change.path).unlink, missing_ok=True)
    if done:
        feed = b"".join(b"%b %b\t%b\0" % (mode.encode(), id.encode(), path) for path, _, (mode, id) in done)
        await git.run("update-index", "-z", "--index-info", feed=feed)
        await git.run("update-index", "-q", "--refresh", codes=(0, 1))


def _changes(listed: bytes) -> list[TreeChange]:
    parts = listed.split(b"\0")
    changes: list[TreeChange] = []
    for about, path in zip(parts[::2], parts[1::2], strict=False):
        before, after, old, new, _ = about.decode().lstrip(":").split(" ")
        changes.append(TreeChange(path, (before.lstrip("0") or "0", old), (after.lstrip("0") or "0", new)))
    return changes


def _compare(top: str, changes: list[TreeChange], algorithm: str) -> tuple[list[TreeChange], list[TreeChange]]:
    """The files that already have their new content, and the files that have neither the old nor the new content."""
    base, links = os.fsencode(top) + b"/", dict[bytes, bool]()
    done: list[TreeChange] = []
    theirs: list[TreeChange] = []
    for change in changes:
        if GITLINK in (change.before[0], change.after[0]):
            continue  # the folder of a submodule stays as it is
        try:
            state = ("?", "") if beyond_link(base, change.path, links) else _file(base + change.path, algorithm)
        except OSError:
            state = ("?", "")
        if state == _without_zeros(change.after):
            done.append(change)
        elif state != _without_zeros(change.before):
            theirs.append(change)
    return done, theirs


async def _begun(git: Git, top: str, change: TreeChange) -> bool:
    """Whether git was writing it when it was killed: it removes a file, and writes the new one from its beginning."""
    try:
        there = await asyncio.to_thread(read_regular, str(_path_of(top, change.path)), MAX_BEGUN)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return change.after[0] != "0" and (await git.run("cat-file", "blob", change.after[1])).startswith(there)


def _path_of(top: str, path: bytes) -> Path:
    return Path(os.fsdecode(os.fsencode(top) + b"/" + path))


def _without_zeros(about: tuple[str, str]) -> tuple[str, str]:
    return about if about[0] != "0" else ("0", "")


def _file(path: bytes, algorithm: str) -> tuple[str, str]:
    """Its mode and the object that it would be. Raises OSError."""
    try:
        about = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return "0", ""
    if stat.S_ISLNK(about.st_mode):
        content = os.readlink(path)  # noqa: PTH115 (a path of bytes)
        return SYMLINK, _digest(algorithm, len(content), content)
    if not stat.S_ISREG(about.st_mode):
        return "?", ""
    mode = "100755" if about.st_mode & stat.S_IXUSR else "100644"
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        hashed = hashlib.new(algorithm, b"blob %d\0" % about.st_size, usedforsecurity=False)
        while chunk := file.read(CHUNK):
            hashed.update(chunk)
    return mode, hashed.hexdigest()


def _digest(algorithm: str, size: int, content: bytes) -> str:
    return hashlib.new(algorithm, b"blob %d\0%b" % (size, content), usedforsecurity=False).hexdigest()


def _text(path: bytes) -> str:
    return os.fsdecode(path).encode(errors="replace").decode()
