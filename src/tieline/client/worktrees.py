"""The part of the client about the git worktrees that sessions work in."""

from ..protocol.views import CommandView
from ..sessions.session_worktrees import WorktreeOutcome, WorktreeStatus
from .api_requests import ApiRequests


class WorktreesApi(ApiRequests):
    async def worktrees(self, *, ended: bool = False) -> list[WorktreeStatus]:
        """Of all sessions, the last active first. `ended`: also those that were merged or discarded."""
        return await self.get("worktrees", list[WorktreeStatus], ended=ended or None)

    async def worktree(self, session: str) -> WorktreeStatus:
        return await self.get(f"sessions/{session}/worktree", WorktreeStatus)

    async def merge_worktree(self, session: str) -> WorktreeOutcome | CommandView:
        """Into its base branch; then it is removed. Raises MergeConflict where nothing was merged."""
        return await self.send_command("POST", f"sessions/{session}/worktree/merge", WorktreeOutcome)

    async def rebase_worktree(self, session: str) -> WorktreeOutcome | CommandView:
        return await self.send_command("POST", f"sessions/{session}/worktree/rebase", WorktreeOutcome)

    async def discard_worktree(self, session: str) -> WorktreeOutcome | CommandView:
        """What is not merged is kept under a reference of the repository."""
        return await self.send_command("POST", f"sessions/{session}/worktree/discard", WorktreeOutcome)
