"""The part of the client about a session's changes and files."""

from collections.abc import Sequence

from ..protocol.changes import Agreement, CommitMessage, FileChoice, NewPullRequest, Reversal
from ..protocol.views import CommandView
from ..sessions.file_preview import WorkFile
from ..sessions.git_actions import ChangeOutcome, WorkingTree
from .api_requests import ApiRequests


class ChangesApi(ApiRequests):
    """`revert`, `discard`, `push` and `open_pull_request` give a plan first; with its digest they do it."""

    async def changes(self, session: str) -> WorkingTree:
        return await self.get(f"sessions/{session}/changes", WorkingTree)

    async def session_file(self, session: str, path: str) -> WorkFile:
        return await self.get(f"sessions/{session}/file", WorkFile, path=path)

    async def stage(self, session: str, paths: Sequence[str]) -> ChangeOutcome | CommandView:
        return await self._change(session, "stage", FileChoice(paths=tuple(paths)))

    async def unstage(self, session: str, paths: Sequence[str]) -> ChangeOutcome | CommandView:
        return await self._change(session, "unstage", FileChoice(paths=tuple(paths)))

    async def commit(self, session: str, message: str) -> ChangeOutcome | CommandView:
        """What is staged, as the user of the session's machine."""
        return await self._change(session, "commit", CommitMessage(message=message))

    async def revert(self, session: str, paths: Sequence[str], *, digest: str = "") -> ChangeOutcome | CommandView:
        """Take files back to the last commit."""
        return await self._change(session, "revert", Reversal(paths=tuple(paths), digest=digest))

    async def discard(self, session: str, *, digest: str = "") -> ChangeOutcome | CommandView:
        """Take all files back to the last commit."""
        return await self._change(session, "discard", Agreement(digest=digest))

    async def push(self, session: str, *, digest: str = "") -> ChangeOutcome | CommandView:
        return await self._change(session, "push", Agreement(digest=digest))

    async def open_pull_request(
        self, session: str, title: str, body: str = "", *, digest: str = ""
    ) -> ChangeOutcome | CommandView:
        return await self._change(session, "pull-request", NewPullRequest(title=title, body=body, digest=digest))

    async def _change(self, session: str, what: str, body: object) -> ChangeOutcome | CommandView:
        return await self.send_command("POST", f"sessions/{session}/changes/{what}", ChangeOutcome, body)
