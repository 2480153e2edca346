"""The worktrees of a team's members: what each turn changed is committed, and told to whoever merges."""

from contextlib import suppress

from ..protocol.teams import MemberWork
from ..sessions import git_repository
from ..sessions.git_config import Identity
from ..sessions.git_merge import merge_trees
from ..sessions.safe_git import GitFailed
from ..sessions.worktrees import Worktree, Worktrees

MAX_STAT = 4_000
"""Characters of what a branch has, as people and members are told it."""


class TeamWorktrees(Worktrees):
    """A folder per team, in it one per member."""

    async def commit_turn(
        self, tree: Worktree, *, author: str, message: str, since: str, merge_into: str = ""
    ) -> MemberWork:
        """Commits all that is in its files. `since`: the commit from which on its changes are told; `merge_into`: the
        directory whose HEAD it shall be merged into. The same again changes nothing. Raises GitFailed."""
        head, since = tree.own.commit, since or tree.base
        if not tree.made or not head:
            raise GitFailed(f"the worktree {tree.path} is gone")
        problem = tree.obstacle
        try:
            async with self.git(tree) as git:
                if not problem:
                    head = await self.commit(tree, git, Identity(author, f"{author}@team.invalid"), message)
                stat_ = await git.run("diff-tree", "-r", "--stat=100", "--no-color", "--find-renames", since, head)
                into = git_repository.find(merge_into) if merge_into else None
                conflicts: tuple[str, ...] = ()
                if into is not None and into.common_dir == tree.repository.common_dir and into.commit:
                    with suppress(GitFailed):  # an older git, or a history that is cut off: the merge itself will tell
                        _, conflicts = await merge_trees(git, into.commit, head)
        except OSError as error:
            raise GitFailed(f"{tree.path} cannot be committed: {error}") from None
        text = stat_.decode(errors="replace").rstrip()
        text = text if len(text) <= MAX_STAT else f"{text[:MAX_STAT]}\n…"
        return MemberWork(branch=tree.branch, commit=head, stat=text, conflicts=conflicts, problem=problem)
