"""The git worktree that a session works in: made with it, compared with its base, merged, rebased or discarded.

No work is ever lost. What is not committed is committed before anything else; a branch is removed only when the base
has all of it, or when a reference keeps it; and a worktree in which something would be lost stays.
"""

import asyncio
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from .git_config import TIELINE
from .git_merge import Advance, MergeConflict, advance, identity, is_ancestor, mend, merge, merge_trees, rebase
from .git_repository import Repository
from .git_writes import write_ref
from .records import SessionRecord, SessionWorktree
from .safe_git import Git, GitFailed
from .worktrees import Worktree, Worktrees

DISCARDED = "refs/tieline/discarded"
"""Below it is what was discarded without being merged."""
MAX_DIFF = 16 * 1024 * 1024
MAX_SLUG = 40
_SLUG = re.compile(r"[^a-z0-9]+")
_FOLDER = re.compile(r"[^A-Za-z0-9_-]+")
_SHORTSTAT = re.compile(rb"(\d+) files? changed(?:, (\d+) insertions?\(\+\))?(?:, (\d+) deletions?\(-\))?")


class WorktreeStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session's worktree, compared with the present state of its base branch."""

    session: str
    title: str = ""
    worktree: SessionWorktree
    ahead: int = 0  # commits that the base does not have
    behind: int = 0  # commits of the base that it does not have
    uncommitted: int = 0  # files
    files: int = 0  # in the diff against the base, what is not committed too
    insertions: int = 0
    deletions: int = 0
    conflicts: tuple[str, ...] = ()  # files that a merge of what is committed would not settle
    problem: str = ""  # why nothing can be said, or done


class WorktreeOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a worktree."""

    session: str
    done: Literal["merged", "rebased", "discarded", "kept"]
    branch: str
    into: str = ""  # the base branch
    commit: str = ""  # the base branch's, or the rebased branch's
    committed: int = 0  # files that were not committed before
    kept_as: str = ""  # the reference that keeps what was discarded
    removed: bool = False  # the worktree is gone
    kept: str = ""  # why it is not


def default_branch(title: str, id: str) -> str:
    """By what the session is about. The same session has the same, also when it is created again after a crash."""
    slug = _SLUG.sub("-", title.lower())[:MAX_SLUG].strip("-")
    return f"tieline/{slug or 'session'}-{id[-6:].strip('-_').lower() or 'x'}"


class SessionWorktrees:
    def __init__(self, worktrees: Worktrees) -> None:
        self._worktrees = worktrees
        self._env = worktrees.env
        self._changing = asyncio.Lock()  # one merge at a time: two would both move the base

    async def create(self, id: str, cwd: str, branch: str, group: str = "session") -> tuple[str, SessionWorktree]:
        """The directory to work in, and its worktree; the same id again finds the same. Raises GitFailed."""
        tree = self._worktrees.find(f"{group}-{id}", "x", branch, cwd)
        name = _FOLDER.sub("-", os.path.basename(tree.repository.top)).strip("-") or "repository"  # noqa: PTH119
        tree = self._worktrees.find(f"{group}-{id}", name, branch, cwd)
        await self._worktrees.make(tree)
        worktree = SessionWorktree(
            path=tree.path,
            branch=branch,
            base=tree.base,
            into=tree.repository.branch,
            repository=tree.repository.top,
        )
        return await self._directory(tree, cwd), worktree

    async def make_again(self, record: SessionRecord) -> SessionRecord:
        """After it was merged or discarded: from the base branch as it is now. Raises GitFailed."""
        worktree = _worktree(record)
        tree = self._find(worktree)
        await self._worktrees.make(tree, tree.repository.ref(worktree.into))
        inner = os.path.relpath(record.cwd, worktree.path)
        await self._directory(tree, os.path.normpath(Path(tree.repository.top, inner)))
        return _with(record, base=tree.base, ended="")

    async def _directory(self, tree: Worktree, cwd: str) -> str:
        directory = tree.inside(cwd)
        await asyncio.to_thread(Path(directory).mkdir, parents=True, exist_ok=True)
        return directory

    # --- reading -------------------------------------------------------------------------------------------

    async def status(self, record: SessionRecord) -> WorktreeStatus:
        """The status of a worktree. Never raises: `problem` says why something is unknown."""
        worktree = _worktree(record)
        status = WorktreeStatus(session=record.id, title=record.title, worktree=worktree)
        if worktree.ended:
            return status
        try:
            tree = self._find(worktree)
            if not tree.made:
                raise GitFailed(f"its files are gone; what was committed is on the branch {tree.branch}")
            async with self._worktrees.git(tree, keep=False) as git:
                return await self._compare(tree, git, status)
        except GitFailed as error:
            return replace(status, problem=error.message)

    async def _compare(self, tree: Worktree, git: Git, status: WorktreeStatus) -> WorktreeStatus:
        worktree = status.worktree
        head, onto = tree.own.commit, tree.repository.ref(worktree.into) or worktree.base
        await self._worktrees.load_index(tree, git, head)
        staged = await git.run("diff-index", "--cached", "-z", "--name-only", head)
        uncommitted = await self._worktrees.uncommitted(git) | {name for name in staged.split(b"\0") if name}
        counts = await git.run("rev-list", "--left-right", "--count", f"{onto}...{head}")
        behind, ahead = map(int, counts.split())
        files = await self._worktrees.commit_files(tree, git, head, (head,), TIELINE, "x")
        since = await self._since(git, onto, head)
        short = await git.run("diff-tree", "-r", "--shortstat", "--find-renames", since, files)
        match = _SHORTSTAT.search(short)
        numbers = [int(part or 0) for part in match.groups()] if match else [0, 0, 0]
        conflicts: tuple[str, ...] = ()
        if ahead and behind:
            with suppress(GitFailed):  # an older git: the merge itself will report conflicts
                _, conflicts = await merge_trees(git, onto, files)
        return replace(
            status,
            ahead=ahead,
            behind=behind,
            uncommitted=len(uncommitted),
            files=numbers[0],
            insertions=numbers[1],
            deletions=numbers[2],
            conflicts=conflicts,
            problem=tree.obstacle,
        )

    async def diff(self, record: SessionRecord) -> str:
        """What merging it would bring, what is not committed too, as one unified diff. Raises GitFailed."""
        worktree = _worktree(record)
        tree = self._find(worktree)
        if not tree.made:
            raise _gone(worktree)
        async with self._worktrees.git(tree, keep=False) as git:
            head, onto = tree.own.commit, tree.repository.ref(worktree.into) or worktree.base
            files = await self._worktrees.commit_files(tree, git, head, (head,), TIELINE, "x")
            since = await self._since(git, onto, head)
            options = ("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--submodule=short")
            diff = await git.run("diff-tree", "-r", "-p", *options, since, files, limit=MAX_DIFF)
        cut = f"\n… cut: the diff is longer than {MAX_DIFF:,} bytes\n" if len(diff) > MAX_DIFF else ""
        return os.fsdecode(diff[:MAX_DIFF]) + cut

    async def _since(self, git: Git, onto: str, head: str) -> str:
        """The commit from which the two diverged."""
        commits = os.fsdecode(await git.run("merge-base", onto, head, codes=(0, 1))).split()
        return commits[0] if commits else onto

    # --- changing ------------------------------------------------------------------------------------------

    async def merge(self, record: SessionRecord) -> tuple[SessionRecord, WorktreeOutcome]:
        """Into its base branch, and the worktree is removed. Raises GitFailed; then nothing is merged."""
        async with self._changing:
            worktree = _worktree(record)
            tree = self._find(worktree)
            into = self._base_branch(tree, worktree)
            base_checkout = await self._mended(tree, into)
            committed = 0
            if tree.made:
                await mend(tree.own, self._env, self._worktrees.store)
                committed = await self._commit(tree, record)
            head = tree.repository.ref(tree.branch)
            if not head:
                raise _gone(worktree)
            before = tree.repository.ref(into)
            async with self._worktrees.git(tree, at=base_checkout or tree.repository) as git:
                who = await identity(git, tree.repository, self._env)
                try:
                    after = await merge(git, before, head, who, f"Merge branch '{tree.branch}'")
                except MergeConflict as error:
                    hint = f"Nothing was merged. Have the agent settle it: ask it to run `git merge {into}`."
                    raise MergeConflict(f"{tree.branch} and {into}: {error.message}", hint=hint) from None
            if after != before:
                await self._move(tree, base_checkout, Advance(into, before, after))
            kept = await self._remove(tree, head)
            outcome = WorktreeOutcome(
                session=record.id,
                done="merged",
                branch=tree.branch,
                into=into,
                commit=after,
                committed=committed,
                removed=not kept,
                kept=kept,
            )
            return (record if kept else _with(record, ended="merged")), outcome

    async def rebase(self, record: SessionRecord) -> tuple[SessionRecord, WorktreeOutcome]:
        """Its commits anew, on the base branch as it is now. Raises GitFailed; then nothing has changed."""
        async with self._changing:
            worktree = _worktree(record)
            tree = self._find(worktree)
            if not tree.made:
                raise _gone(worktree)
            into = self._base_branch(tree, worktree)
            await mend(tree.own, self._env, self._worktrees.store)
            committed = await self._commit(tree, record)
            head, onto = tree.own.commit, tree.repository.ref(into)
            async with self._worktrees.git(tree) as git:
                who = await identity(git, tree.repository, self._env)
                try:
                    new = await rebase(git, head, onto, who)
                except MergeConflict as error:
                    hint = f"Nothing was rebased. Have the agent settle it: ask it to run `git rebase {into}`."
                    raise MergeConflict(f"{tree.branch} on {into}: {error.message}", hint=hint) from None
            if new != head:
                await advance(tree.own, Advance(tree.branch, head, new), self._env, self._worktrees.store)
            outcome = WorktreeOutcome(
                session=record.id, done="rebased", branch=tree.branch, into=into, commit=new, committed=committed
            )
            return _with(record, base=onto), outcome

    async def discard(self, record: SessionRecord) -> tuple[SessionRecord, WorktreeOutcome]:
        """Removes it. What is not merged is kept under a reference of its own. Raises GitFailed; then it stays."""
        async with self._changing:
            worktree = _worktree(record)
            tree = self._find(worktree)
            onto = tree.repository.ref(worktree.into) or worktree.base
            branch, committed, kept_as = tree.repository.ref(tree.branch), 0, ""
            last = branch
            if tree.made:
                await mend(tree.own, self._env, self._worktrees.store)
                async with self._worktrees.git(tree) as git:
                    head = tree.own.commit or branch
                    await self._worktrees.load_index(tree, git, head)
                    committed = len(await self._worktrees.uncommitted(git))
                    others = () if not branch or await is_ancestor(git, branch, head) else (branch,)
                    message = f"Discarded: {record.title or tree.branch}"
                    last = await self._worktrees.commit_files(tree, git, head, (head, *others), TIELINE, message)
                    if repositories := await self._repositories(tree, git):
                        hint = "Move it elsewhere, or remove it, then discard the worktree."
                        raise GitFailed(f"{repositories[0]} in {tree.path} is a repository of its own", hint=hint)
                    merged = await is_ancestor(git, last, onto)
            else:
                async with self._worktrees.git(tree, at=tree.repository) as git:
                    merged = not last or await is_ancestor(git, last, onto)
            if not merged:
                kept_as = await asyncio.to_thread(_keep, tree.repository, record.id, last)
            await self._worktrees.remove(tree, branch_too=True)
            outcome = WorktreeOutcome(
                session=record.id,
                done="discarded",
                branch=tree.branch,
                into=worktree.into,
                commit=last,
                committed=committed,
                kept_as=kept_as,
                removed=True,
            )
            return _with(record, ended="discarded"), outcome

    async def remove_unused(self, record: SessionRecord) -> tuple[SessionRecord, WorktreeOutcome]:
        """Discard the worktree if it has no work: no commit that its base does not have, and no changed file."""
        status = await self.status(record)
        kept = status.problem or ("it has work that is not merged" if status.ahead or status.uncommitted else "")
        if not kept and not status.worktree.ended:
            return await self.discard(record)
        branch, removed = status.worktree.branch, bool(status.worktree.ended)
        return record, WorktreeOutcome(session=record.id, done="kept", branch=branch, removed=removed, kept=kept)

    # --- inside --------------------------------------------------------------------------------------------

    def _find(self, worktree: SessionWorktree) -> Worktree:
        path = Path(worktree.path)
        return self._worktrees.find(path.parent.name, path.name, worktree.branch, worktree.repository)

    def _base_branch(self, tree: Worktree, worktree: SessionWorktree) -> str:
        if not worktree.into:
            hint = f"Merge it yourself: `git merge {tree.branch}`."
            raise GitFailed("the session did not start on a branch, so there is none to merge into", hint=hint)
        if not tree.repository.ref(worktree.into):
            hint = f"Merge it yourself: `git merge {tree.branch}`."
            raise GitFailed(f"the branch {worktree.into} does not exist any more", hint=hint)
        return worktree.into

    async def _mended(self, tree: Worktree, branch: str) -> Repository | None:
        """Where the branch is checked out, ready to be moved. Raises GitFailed."""
        for checkout in tree.repository.checkouts():
            if checkout.branch != branch:
                continue
            if not checkout.top:
                hint = f"Merge it yourself: `git merge {tree.branch}`."
                raise GitFailed(f"{branch} is checked out, and Tieline cannot tell where", hint=hint)
            if unfinished := checkout.unfinished:
                hint = "Finish it there, or abort it, then try again."
                raise GitFailed(f"a git operation is in progress in {checkout.top} ({unfinished})", hint=hint)
            await mend(checkout, self._env, self._worktrees.store)
            return checkout
        return None

    async def _move(self, tree: Worktree, checkout: Repository | None, wanted: Advance) -> None:
        if checkout is not None:
            await advance(checkout, wanted, self._env, self._worktrees.store)
            return
        ref = f"refs/heads/{wanted.branch}"
        await asyncio.to_thread(write_ref, tree.repository, ref, wanted.before, wanted.after)

    async def _commit(self, tree: Worktree, record: SessionRecord) -> int:
        """What is not committed yet, by the user's own name. How many files."""
        if obstacle := tree.obstacle:
            hint = f"Look at it: `git -C {tree.path} status`."
            raise GitFailed(f"{tree.path} cannot be committed: {obstacle}", hint=hint)
        async with self._worktrees.git(tree) as git:
            await self._worktrees.load_index(tree, git, tree.own.commit)
            count = len(await self._worktrees.uncommitted(git))
            who = await identity(git, tree.repository, self._env)
            await self._worktrees.commit(tree, git, who, record.title or f"Work of session {record.id}")
        return count

    async def _remove(self, tree: Worktree, merged: str) -> str:
        """After that commit of its branch was merged. Why it is not, where something would be lost."""
        if tree.made:
            async with self._worktrees.git(tree) as git:
                await self._worktrees.load_index(tree, git, tree.own.commit)
                if repositories := await self._repositories(tree, git):
                    return f"{repositories[0]} in it is a repository of its own"
                if await self._worktrees.changed(tree, git):  # by what still ran there while it was merged
                    return "its files have changed since"
        if tree.repository.ref(tree.branch) != merged:
            return f"its branch {tree.branch} has gone on since"
        await self._worktrees.remove(tree, branch_too=True)
        return ""

    async def _repositories(self, tree: Worktree, git: Git) -> list[str]:
        """Repositories inside it, and submodules that somebody has filled: they are in no commit of its branch."""
        others = (await git.run("ls-files", "-z", "-o", "--exclude-standard")).split(b"\0")
        links = [line.split(b"\t", 1) for line in (await git.run("ls-files", "-z", "-s")).split(b"\0")]
        names = [name for name in others if name.endswith(b"/")]
        names += [name for about, name in (pair for pair in links if len(pair) == 2) if about.startswith(b"160000")]
        texts = [os.fsdecode(name).rstrip("/") for name in names]
        return [text for text in texts if os.path.lexists(f"{tree.path}/{text}/.git")]


def _worktree(record: SessionRecord) -> SessionWorktree:
    if record.worktree is None:
        hint = "A session gets one when it begins: `tieline run --worktree`."
        raise GitFailed(f"session {record.id} has no worktree of its own", hint=hint)
    return record.worktree


def _with(record: SessionRecord, **changes: str) -> SessionRecord:
    return replace(record, worktree=replace(_worktree(record), **changes))


def _gone(worktree: SessionWorktree) -> GitFailed:
    hint = "Prompt the session: it gets a new one." if worktree.ended else ""
    return GitFailed(f"the worktree {worktree.path} is gone", hint=hint)


def _keep(repository: Repository, id: str, commit: str) -> str:
    """The reference that keeps it: one of the session's own, or the one that does already."""
    number = 1
    while True:
        ref = f"{DISCARDED}/{id}" if number == 1 else f"{DISCARDED}/{id}-{number}"
        known = repository.reference(ref)
        if known == commit:
            return ref
        if not known:
            write_ref(repository, ref, "", commit)
            return ref
        number += 1
