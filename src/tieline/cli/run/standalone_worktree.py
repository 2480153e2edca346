"""The git worktree of `tieline run --worktree` without a hub: made before the turn, told about after it."""

import asyncio

from ...config import Config
from ...ids import new_id
from ...sessions.session_worktrees import SessionWorktrees, default_branch
from ...sessions.worktrees import Worktrees
from ..errors import print_error
from ..terminal.sanitize import one_line
from .run_options import RunOptions

TITLE = 60


class StandaloneWorktree:
    """Raises GitFailed where there can be none. `cwd` is where the agent works."""

    def __init__(self, request: RunOptions, prompt: str, config: Config) -> None:
        self._worktrees = Worktrees(config.environ)
        id = new_id()
        branch = request.branch or default_branch(one_line(prompt, TITLE), id)
        making = SessionWorktrees(self._worktrees).create(id, request.cwd, branch, group="run")
        self.cwd, self._made = asyncio.run(making)

    def leave(self) -> None:
        """Nobody keeps a record of it: whoever has an empty one has it removed, and whoever has work is told where."""
        made = self._made
        group, name = made.path.rsplit("/", 2)[-2:]
        tree = self._worktrees.find(group, name, made.branch, made.repository)
        unsaved = asyncio.run(self._worktrees.unsaved(tree))
        if not unsaved:
            asyncio.run(self._worktrees.remove(tree, branch_too=tree.own.commit == made.base))
            print_error("tieline: nothing changed, the worktree is removed")
            return
        print_error(f"tieline: its work is in {made.path}, on the branch {made.branch}: {unsaved}")
        print_error(f"  git -C {made.path} status")
        print_error(f"  git merge {made.branch} && git worktree remove {made.path}")
