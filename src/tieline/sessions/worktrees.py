"""Git worktrees of our own making, in which agents work beside each other: made, committed, removed.

Nothing that a repository names is run. The few files by which git knows a worktree and a branch are written by hand, as
git itself writes them (`git_writes`); the work files come and go through a git directory of ours (see `safe_git`), so
without filters and conversions. Each step may be repeated: after a crash the next call finishes what was begun.
"""

import asyncio
import os
import shutil
import stat
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from .. import paths
from ..safe_file_read import read_regular
from . import git_repository
from .git_config import Identity
from .git_merge import is_ancestor, tree_of
from .git_repository import Repository
from .git_writes import check_new_ref, delete_ref, replace_file, write_ref
from .safe_git import Git, GitFailed, copy_index, opened
from .workspace_diff import beyond_link

MAX_DIFF = 4 * 1024 * 1024
"""Bytes of a diff that are read."""
REMOVED = ".removed"
"""What a worktree's folder is called while its files are removed."""


class Worktree(Struct, frozen=True, kw_only=True):
    path: str
    branch: str
    repository: Repository  # the one that it was made from
    admin: str  # its own git directory

    @property
    def own(self) -> Repository:
        return Repository(self.path, self.admin, self.repository.common_dir)

    def write(self, name: str, content: bytes) -> None:
        """A file of its git directory. Raises OSError, GitFailed."""
        admin = os.path.basename(self.admin)  # noqa: PTH119
        replace_file(self.repository.common_dir, f"worktrees/{admin}/{name}", content)

    @property
    def base(self) -> str:
        """The commit that it began with; empty: it was never made."""
        return _line(f"{self.admin}/tieline-base")

    @property
    def made(self) -> bool:
        return os.path.exists(f"{self.admin}/index") and os.path.exists(f"{self.path}/.git")  # noqa: PTH110

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.branch}"

    @property
    def obstacle(self) -> str:
        """Why what is in its files is not committed on its branch now; empty: nothing speaks against it."""
        if self.own.branch != self.branch:
            return f"it stands on {self.own.branch or 'no branch'}, not on {self.branch}"
        if unfinished := self.own.unfinished:
            return f"a git operation is in progress there ({unfinished})"
        return ""

    def inside(self, cwd: str) -> str:
        """The directory in it that stands for one in its repository."""
        inner = os.path.relpath(os.path.realpath(cwd), os.path.realpath(self.repository.top))
        return self.path if inner == "." else f"{self.path}/{inner}"


class BranchDiff(Struct, frozen=True):
    """What changed between two commits."""

    files: str  # each with how many of its lines changed
    patch: str
    whole: bool  # otherwise git had more to say


class Worktrees:
    """Those of one machine, below the state directory: a folder per team or session, in it one per worktree."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self.store = paths.worktrees(env) / ".git-use"
        self._root = paths.worktrees(env)
        self._making = asyncio.Lock()

    def folder(self, group: str) -> Path:
        return self._root / group

    def find(self, group: str, name: str, branch: str, cwd: str) -> Worktree:
        """The worktree, which may not exist yet. Raises GitFailed."""
        repository = git_repository.find(cwd)
        if repository is None:
            hint = "Run `git init` there and commit, or leave the worktree out."
            raise GitFailed(f"{cwd} is not in a git repository", hint=hint)
        if repository.reftable:
            raise GitFailed(f"{repository.top} keeps its branches in a reftable, which Tieline does not write")
        if not git_repository.is_branch_name(branch):
            raise GitFailed(f"{branch!r} cannot be the name of a branch", hint="Letters, digits, - and / are safe.")
        admin = f"{repository.common_dir}/worktrees/tieline-{group}-{name.casefold()}"
        return Worktree(path=str(self._root / group / name), branch=branch, repository=repository, admin=admin)

    async def make(self, tree: Worktree, start: str = "") -> None:
        """Its branch as it is; a new branch begins at `start`, else at the last commit of its repository. Raises
        GitFailed."""
        async with self._making:  # two that are made at once would both write into the repository
            if tree.made:
                return
            try:
                base = await asyncio.to_thread(self._register, tree, start)
                async with self.git(tree) as git:
                    await git.run("read-tree", base)
                    await git.run("checkout-index", "--all", "--force", "--index")
                    await asyncio.to_thread(tree.write, "index", git.index.read_bytes())
            except OSError as error:
                raise GitFailed(f"a worktree of {tree.repository.top} cannot be made: {error}") from None

    def _register(self, tree: Worktree, start: str) -> str:
        """What makes it a worktree for git. Returns its first commit."""
        path = Path(tree.path)
        base = tree.base or tree.own.ref(tree.branch) or start or tree.repository.commit
        if not base:
            raise GitFailed(f"{tree.repository.top} has no commit yet", hint="Commit something there first.")
        for other in tree.repository.checkouts():
            if other.branch == tree.branch and other.git_dir != tree.admin:
                raise GitFailed(
                    f"the branch {tree.branch} is checked out in {other.top or other.git_dir}",
                    hint="Name another branch, or none: then one is made.",
                )
        tree.write("tieline-base", f"{base}\n".encode())
        tree.write("HEAD", f"ref: {tree.ref}\n".encode())
        tree.write("commondir", b"../..\n")
        if not tree.own.ref(tree.branch):
            check_new_ref(tree.own, tree.ref)
            write_ref(tree.own, tree.ref, "", base)
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        tree.write("gitdir", f"{path}/.git\n".encode())
        replace_file(tree.path, ".git", f"gitdir: {tree.admin}\n".encode())
        return base

    async def commit(self, tree: Worktree, git: Git, who: Identity, message: str) -> str:
        """Commits all that is in its files on its branch, if anything is. Returns its last commit. The same again
        changes nothing. Raises GitFailed."""
        head = tree.own.commit
        made = await self.commit_files(tree, git, head, (head,), who, message)
        if made != head:
            # The index first: after a crash in between, the files still differ from HEAD, and are committed next time.
            await asyncio.to_thread(tree.write, "index", git.index.read_bytes())
            await asyncio.to_thread(write_ref, tree.own, tree.ref, head, made)
        return made

    async def commit_files(
        self, tree: Worktree, git: Git, head: str, parents: tuple[str, ...], who: Identity, message: str
    ) -> str:
        """A commit of what is in its files now, which no branch has yet; or `head`, where that has it all."""
        await self.load_index(tree, git, head)
        names = await self.uncommitted(git)
        files, gone = await asyncio.to_thread(_sort, tree.path, names)
        if gone:
            feed = b"".join(b"0 %b\t%b\0" % (git.no_object.encode(), name) for name in gone)
            await git.run("update-index", "-z", "--index-info", feed=feed)
        if files:
            feed = b"".join(name + b"\0" for name in files)
            await git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", feed=feed)
        written = os.fsdecode(await git.run("write-tree")).strip()
        if written == await tree_of(git, head) and parents == (head,):
            return head
        above = [word for parent in parents for word in ("-p", parent)]
        made = await git.run("commit-tree", written, *above, "-m", message, env=who.env())
        return os.fsdecode(made).strip()

    async def load_index(self, tree: Worktree, git: Git, head: str) -> None:
        if await asyncio.to_thread(copy_index, tree.own, git.directory):
            (git.directory / "theirs").replace(git.index)
        else:
            await git.run("read-tree", head)

    async def uncommitted(self, git: Git) -> set[bytes]:
        """Files that differ from the index that `load_index` loaded, or are not in it."""
        listed = await git.run("ls-files", "-z", "-m", "-d", "-o", "--exclude-standard")
        return {name for name in listed.split(b"\0") if name}

    async def changed(self, tree: Worktree, git: Git) -> bool:
        """Whether a commit of its files would have more than the index that `load_index` loaded."""
        return any(await asyncio.to_thread(_sort, tree.path, await self.uncommitted(git)))

    async def diff(self, tree: Worktree, since: str, commit: str, file: str = "") -> BranchDiff:
        """The changes of its branch from one commit to another, or of one file, limited in length. Raises GitFailed."""
        async with self.git(tree) as git:
            options = ("-p", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--submodule=short")
            stat_ = "--stat=1000,900,20"  # so wide that no name is cut
            only = ("--", file) if file else ()
            output = await git.run("diff-tree", "-r", stat_, *options, since, commit, *only, limit=MAX_DIFF)
        files, _, patch = output[:MAX_DIFF].decode(errors="replace").partition("\n\n")
        return BranchDiff(files, patch, whole=len(output) <= MAX_DIFF)

    async def unsaved(self, tree: Worktree, merge_into: str = "") -> str:
        """What would be lost with it, or is only on its branch; empty: nothing. Raises GitFailed."""
        if not tree.made:
            return ""
        head, into = tree.own.commit, git_repository.find(merge_into or tree.repository.top)
        async with self.git(tree) as git:
            await self.load_index(tree, git, head)
            staged = await git.run("diff-index", "--cached", "--name-only", head, limit=1)
            if staged or await self.uncommitted(git):
                return "it has changes that are not committed"
            merged = into is not None and into.commit and await is_ancestor(git, head, into.commit)
        return "" if merged else f"its branch {tree.branch} is not merged"

    async def remove(self, tree: Worktree, *, branch_too: bool) -> None:
        """The files, and what makes it a worktree. What it committed stays on its branch, unless that shall go too."""
        away = Path(tree.path + REMOVED)
        with suppress(OSError):
            # At once: of a worktree whose files go one by one, a crash would leave one with files deleted.
            await asyncio.to_thread(Path(tree.path).rename, away)
        await asyncio.to_thread(shutil.rmtree, away, ignore_errors=True)
        await asyncio.to_thread(shutil.rmtree, tree.path, ignore_errors=True)
        if branch_too and (commit := tree.repository.ref(tree.branch)):
            await asyncio.to_thread(delete_ref, tree.repository, tree.ref, commit)
        await asyncio.to_thread(shutil.rmtree, tree.admin, ignore_errors=True)
        with suppress(OSError):
            Path(tree.path).parent.rmdir()

    @asynccontextmanager
    async def git(
        self, tree: Worktree, *, at: Repository | None = None, keep: bool = True
    ) -> AsyncGenerator[Git, None]:
        """For its files, or for another checkout of its repository. With `keep`, new objects are the repository's."""
        objects = Path(tree.repository.common_dir, "objects")
        async with opened(at or tree.own, self.env, store=self.store, keep=keep, objects=objects) as git:
            yield git


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


def _line(path: str) -> str:
    try:
        return os.fsdecode(read_regular(path, 200)).strip()
    except (OSError, ValueError):
        return ""
