"""Git worktrees of our own making, in which members of a team work beside each other: made, committed, removed.

Nothing that a repository names is run. The few files by which git knows a worktree and a branch are written by hand, as
git itself writes them; the work files come and go through a git directory of ours (see `safe_git`), so without filters
and conversions. Each step may be repeated: after a crash the next call finishes what was begun.
"""

import asyncio
import os
import re
import shutil
import stat
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TextIO

from msgspec import Struct

from .. import paths
from ..protocol.teams import MemberWork
from ..safe_file_read import read_regular
from ..sessions import git_repository
from ..sessions.git_repository import Repository
from ..sessions.safe_git import Git, GitFailed, copy_index, opened
from ..sessions.workspace_diff import beyond_link

MAX_STAT = 4_000
"""Characters of what a branch has, as people and members are told it."""
MAX_CONFLICTS = 50
"""Files with conflicts that are named."""
STALE_S = 10.0
"""A lock of git's that is older belongs to a process that was killed."""
LOCKED_S = 0.05
UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
"""What is in a worktree's git directory while its owner merges, picks or rebases."""
MAX_DIFF = 4 * 1024 * 1024
"""Bytes of a diff that are read."""
_REFTABLE = re.compile(rb"^\s*refstorage\s*=\s*\"?reftable\b", re.IGNORECASE | re.MULTILINE)


class Worktree(Struct, frozen=True, kw_only=True):
    path: str
    branch: str
    repository: Repository  # the one that it was made from
    admin: str  # its own git directory

    @property
    def own(self) -> Repository:
        return Repository(self.path, self.admin, self.repository.common_dir)

    @property
    def base(self) -> str:
        """The commit that it began with; empty: it was never made."""
        return _line(f"{self.admin}/tieline-base")

    @property
    def made(self) -> bool:
        return os.path.exists(f"{self.admin}/index") and os.path.exists(f"{self.path}/.git")  # noqa: PTH110


class BranchDiff(Struct, frozen=True):
    """What changed between two commits."""

    files: str  # each with how many of its lines changed
    patch: str
    whole: bool  # otherwise git had more to say


class Worktrees:
    """Those of one machine, below the state directory: a folder per team, in it one per member."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._root = paths.worktrees(env)
        self._making = asyncio.Lock()

    def folder(self, team: str) -> Path:
        return self._root / team

    def find(self, team: str, member: str, branch: str, cwd: str) -> Worktree:
        """Where it is, or would be. Raises GitFailed."""
        found = git_repository.find(cwd)
        if found is None:
            hint = "Run `git init` there and commit, or leave `worktree` out."
            raise GitFailed(f"{cwd} is not in a git repository", hint=hint)
        with suppress(OSError):
            if _REFTABLE.search(read_regular(f"{found.common_dir}/config", 1024 * 1024)):
                raise GitFailed(f"{found.top} keeps its branches in a reftable, which Tieline does not write")
        admin = f"{found.common_dir}/worktrees/tieline-{team}-{member.casefold()}"
        return Worktree(path=str(self._root / team / member), branch=branch, repository=found, admin=admin)

    async def make(self, tree: Worktree) -> None:
        """From the last commit of its repository. Raises GitFailed."""
        async with self._making:  # two that are made at once would both write into the repository
            if tree.made:
                return
            try:
                base = await asyncio.to_thread(self._register, tree)
                async with self._git(tree) as git:
                    await git.run("read-tree", base)
                    await git.run("checkout-index", "--all", "--force", "--index")
                    await asyncio.to_thread(_replace, Path(tree.admin, "index"), git.index.read_bytes())
            except OSError as error:
                raise GitFailed(f"a worktree of {tree.repository.top} cannot be made: {error}") from None

    def _register(self, tree: Worktree) -> str:
        """What makes it a worktree for git. Returns its first commit."""
        admin, path = Path(tree.admin), Path(tree.path)
        base = tree.base or tree.own.ref(tree.branch) or tree.repository.commit
        if not base:
            raise GitFailed(f"{tree.repository.top} has no commit yet", hint="Commit something there first.")
        admin.mkdir(parents=True, exist_ok=True)
        _replace(admin / "tieline-base", f"{base}\n".encode())
        (admin / "HEAD").write_text(f"ref: refs/heads/{tree.branch}\n")
        (admin / "commondir").write_text("../..\n")
        if not tree.own.ref(tree.branch):
            _write_ref(tree.own, tree.branch, "", base)
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        (admin / "gitdir").write_text(f"{path}/.git\n")
        (path / ".git").write_text(f"gitdir: {admin}\n")
        return base

    async def commit(
        self, tree: Worktree, *, author: str, message: str, since: str, merge_into: str = ""
    ) -> MemberWork:
        """Commits all that is in its files. `since`: the commit from which on its changes are told; `merge_into`: the
        directory whose HEAD it shall be merged into. The same again changes nothing. Raises GitFailed."""
        own, since = tree.own, since or tree.base
        head = own.commit
        if not tree.made or not head:
            raise GitFailed(f"the worktree {tree.path} is gone")
        problem = ""
        if own.branch != tree.branch:
            problem = f"it stands on {own.branch or 'no branch'}, not on {tree.branch}"
        elif unfinished := next((name for name in UNFINISHED if os.path.lexists(f"{tree.admin}/{name}")), ""):
            problem = f"git is in the middle of something there ({unfinished})"
        try:
            async with self._git(tree) as git:
                if not problem:
                    head = await self._commit(tree, git, head, author, message)
                stat_ = await git.run("diff-tree", "-r", "--stat=100", "--no-color", "--find-renames", since, head)
                into = git_repository.find(merge_into) if merge_into else None
                conflicts: tuple[str, ...] = ()
                if into is not None and into.common_dir == tree.repository.common_dir and into.commit:
                    with suppress(GitFailed):  # an older git, or a history that is cut off: the merge itself will tell
                        conflicts = await _conflicts(git, into.commit, head)
        except OSError as error:
            raise GitFailed(f"{tree.path} cannot be committed: {error}") from None
        text = stat_.decode(errors="replace").rstrip()
        text = text if len(text) <= MAX_STAT else f"{text[:MAX_STAT]}\n…"
        return MemberWork(branch=tree.branch, commit=head, stat=text, conflicts=conflicts, problem=problem)

    async def _commit(self, tree: Worktree, git: Git, head: str, author: str, message: str) -> str:
        if not await asyncio.to_thread(copy_index, tree.own, git.place):
            await git.run("read-tree", head)
        else:
            (git.place / "theirs").replace(git.index)
        listed = await git.run("ls-files", "-z", "-m", "-d", "-o", "--exclude-standard")
        names = {name for name in listed.split(b"\0") if name}
        files, gone = await asyncio.to_thread(_sort, tree.path, names)
        if gone:
            feed = b"".join(b"0 %b\t%b\0" % (git.no_object.encode(), name) for name in gone)
            await git.run("update-index", "-z", "--index-info", feed=feed)
        if files:
            feed = b"".join(name + b"\0" for name in files)
            await git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", feed=feed)
        written = os.fsdecode(await git.run("write-tree")).strip()
        before = os.fsdecode(await git.run("rev-parse", f"{head}^{{tree}}")).strip()
        if written == before:
            return head
        who = {"NAME": author, "EMAIL": f"{author}@team.invalid"}
        env = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
        made = await git.run("commit-tree", written, "-p", head, "-m", message, env=env)
        commit = os.fsdecode(made).strip()
        # The index first: after a crash in between, the files still differ from HEAD, and are committed next time.
        await asyncio.to_thread(_replace, Path(tree.admin, "index"), git.index.read_bytes())
        await asyncio.to_thread(_write_ref, tree.own, tree.branch, head, commit)
        return commit

    async def diff(self, tree: Worktree, since: str, commit: str, file: str = "") -> BranchDiff:
        """What changed on its branch from one commit to another, or in one file of it, bounded. Raises GitFailed."""
        async with self._git(tree) as git:
            options = ("-p", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--submodule=short")
            stat_ = "--stat=1000,900,20"  # so wide that no name is cut
            only = ("--", file) if file else ()
            found = await git.run("diff-tree", "-r", stat_, *options, since, commit, *only, limit=MAX_DIFF)
        files, _, patch = found[:MAX_DIFF].decode(errors="replace").partition("\n\n")
        return BranchDiff(files, patch, whole=len(found) <= MAX_DIFF)

    async def unsaved(self, tree: Worktree, merge_into: str = "") -> str:
        """What would be lost with it, or is only on its branch; empty: nothing. Raises GitFailed."""
        if not tree.made:
            return ""
        head, into = tree.own.commit, git_repository.find(merge_into or tree.repository.top)
        async with self._git(tree) as git:
            (git.place / "theirs").unlink(missing_ok=True)
            if await asyncio.to_thread(copy_index, tree.own, git.place):
                (git.place / "theirs").replace(git.index)
            if await git.run("ls-files", "-z", "-m", "-d", "-o", "--exclude-standard", limit=1):
                return "it has changes that are not committed"
            if await git.run("diff-index", "--cached", "--name-only", head, limit=1):
                return "it has changes that are not committed"
            ahead = await git.run("rev-list", "-n", "1", head, f"^{into.commit}") if into and into.commit else b"?"
        return f"its branch {tree.branch} is not merged" if ahead else ""

    async def remove(self, tree: Worktree, *, branch_too: bool) -> None:
        """The files, and what makes it a worktree. What it committed stays on its branch, unless that shall go too."""
        await asyncio.to_thread(shutil.rmtree, tree.path, ignore_errors=True)
        await asyncio.to_thread(shutil.rmtree, tree.admin, ignore_errors=True)
        with suppress(OSError):  # a packed branch stays: git alone rewrites that file
            if branch_too:
                Path(tree.repository.common_dir, "refs/heads", tree.branch).unlink()
            Path(tree.path).parent.rmdir()

    @asynccontextmanager
    async def _git(self, tree: Worktree) -> AsyncGenerator[Git, None]:
        objects = Path(tree.repository.common_dir, "objects")
        async with opened(tree.own, self._env, store=self._root / ".git-use", keep=True, objects=objects) as git:
            yield git


async def _conflicts(git: Git, ours: str, theirs: str) -> tuple[str, ...]:
    printed = await git.run(
        "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs, codes=(0, 1)
    )
    names = [os.fsdecode(name) for name in printed.split(b"\0")[1:] if name]
    return tuple(name.encode(errors="replace").decode() for name in names[:MAX_CONFLICTS])


def _sort(top: str, names: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Those that git shall read (or find missing), and those that are no files of this tree any more."""
    base, links = os.fsencode(top) + b"/", dict[bytes, bool]()
    files: list[bytes] = []
    gone: list[bytes] = []
    for name in sorted(names):
        try:
            mode = os.lstat(base + name).st_mode
        except OSError:
            mode = 0
        if beyond_link(base, name, links):
            gone.append(name)
        elif not mode or stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            files.append(name)  # a folder is a repository of its own, or a submodule: it stays as it was
    return files, gone


def _write_ref(own: Repository, branch: str, before: str, commit: str) -> None:
    """As git does: a lock file beside it that takes its place. Raises GitFailed."""
    place = Path(own.common_dir, "refs/heads", branch)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        lock = place.with_name(f"{place.name}.lock")
        with _created(lock) as file:
            file.write(f"{commit}\n")
        if own.ref(branch) != before:
            lock.unlink()
            raise GitFailed(f"the branch {branch} has just been changed by somebody else")
        lock.replace(place)
    except OSError as error:
        raise GitFailed(f"the branch {branch} cannot be written: {error}") from None


def _created(lock: Path) -> TextIO:
    """Waits for whoever has it; a process that was killed leaves it behind. Raises OSError."""
    tries_until = time.monotonic() + 2 * STALE_S
    while True:
        with suppress(OSError):
            if time.time() - lock.stat().st_mtime > STALE_S:
                lock.unlink()
        try:
            return lock.open("x")
        except FileExistsError:
            if time.monotonic() > tries_until:
                raise
            time.sleep(LOCKED_S)


def _replace(place: Path, content: bytes) -> None:
    lock = place.with_name(f"{place.name}.lock")
    lock.write_bytes(content)
    lock.replace(place)


def _line(path: str) -> str:
    try:
        return os.fsdecode(read_regular(path, 200)).strip()
    except (OSError, ValueError):
        return ""
