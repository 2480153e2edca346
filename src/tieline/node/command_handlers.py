"""A handler for each command. Raises what the session manager raises; `command_executor` makes refusals of it."""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ..config import Config
from ..drivers.base import Prompt
from ..errors import Unsupported, UsageError
from ..events import Answer
from ..protocol import commands as c
from ..protocol.commands import CommandEnvelope
from ..protocol.views import AgentView, DirectoryView, PromptView, view
from ..sessions import git_actions, git_remote
from ..sessions.file_preview import WorkFile, read_session_file
from ..sessions.git_actions import ChangeOutcome, WorkingTree
from ..sessions.manager import SessionManager
from ..sessions.pending_asks import AlreadyAnswered
from ..sessions.records import AskRecord, SessionRecord
from ..sessions.session_worktrees import WorktreeOutcome, WorktreeStatus
from ..sessions.transcript import TranscriptItem
from .agent_inventory import AgentInventory
from .directory_browser import browse

RESULT_TYPES: Mapping[type[c.NodeCommand], Any] = {
    c.ListSessions: list[SessionRecord],
    c.CreateSession: SessionRecord,
    c.ChangeSession: SessionRecord,
    c.ForkSession: SessionRecord,
    c.AdoptSession: SessionRecord,
    c.CloseSession: SessionRecord,
    c.AbortSession: bool,  # whether a turn was running
    c.SendPrompt: PromptView,
    c.Steer: None,
    c.CancelPrompt: PromptView,
    c.MovePrompt: PromptView,
    c.EditPrompt: PromptView,
    c.ApprovePermission: AskRecord,
    c.DenyPermission: AskRecord,
    c.AnswerQuestion: AskRecord,
    c.GetMessages: list[TranscriptItem],
    c.GetDiff: str,
    c.GetWorkingTree: WorkingTree,
    c.ReadFile: WorkFile,
    c.GetWorktree: WorktreeStatus,
    c.MergeWorktree: WorktreeOutcome,
    c.RebaseWorktree: WorktreeOutcome,
    c.DiscardWorktree: WorktreeOutcome,
    c.RemoveUnusedWorktree: WorktreeOutcome,
    c.Browse: DirectoryView,
    c.Refresh: list[AgentView],
    c.ListModels: AgentView,
    c.StageFiles: ChangeOutcome,
    c.CommitStaged: ChangeOutcome,
    c.RevertFiles: ChangeOutcome,
    c.DiscardChanges: ChangeOutcome,
    c.PushBranch: ChangeOutcome,
    c.OpenPullRequest: ChangeOutcome,
}
"""The type of a result's value, per command."""


class CommandHandlers:
    def __init__(self, manager: SessionManager, config: Config, agents: AgentInventory) -> None:
        self._manager = manager
        self._config = config
        self._agents = agents
        self._changing = asyncio.Lock()  # two changes of one repository would stand in each other's way

    async def handle(self, envelope: CommandEnvelope) -> object:
        manager = self._manager
        match envelope.command:
            case c.ListSessions(archived=archived):
                return manager.sessions(archived=archived)
            case c.CreateSession() as command:
                return await self._create(envelope, command)
            case c.ChangeSession() as command:
                wanted = ("title", "policy", "model", "effort", "archived")
                changes = {name: value for name in wanted if (value := getattr(command, name)) is not None}
                return await manager.update(command.session, **changes)
            case c.ForkSession(session=session, title=title):
                return await manager.fork(session, title=title, new=session_of(envelope.id))
            case c.AdoptSession(session=session):
                return await manager.adopt(session)
            case c.CloseSession(session=session):
                return await manager.close(session)
            case c.AbortSession(session=session):
                manager.get(session)
                return await manager.abort(session)
            case c.SendPrompt() as command:
                return await self._send(envelope, command)
            case c.Steer(session=session, text=text):
                manager.get(session)
                return await manager.steer(session, text)
            case c.CancelPrompt(session=session, prompt=prompt):
                return await self._cancel(session, prompt)
            case c.MovePrompt(session=session, prompt=prompt, before=before):
                manager.get(session)
                return view(await manager.prompts.move(session, prompt, before=before))
            case c.EditPrompt(session=session, prompt=prompt, text=text):
                manager.get(session)
                return view(await manager.prompts.edit(session, prompt, text))
            case c.ApprovePermission() | c.DenyPermission() | c.AnswerQuestion() as command:
                return await self._decide(envelope, command)
            case c.GetMessages(session=session, after=after, limit=limit):
                return await manager.messages(session, after=after, limit=limit)
            case c.GetDiff(session=session, since=since):
                return await manager.diff(session, since=since)
            case c.GetWorkingTree(session=session):
                return await git_actions.working_tree(manager.get(session).cwd, self._config.environ)
            case c.ReadFile(session=session, path=path):
                return await asyncio.to_thread(read_session_file, manager.get(session).cwd, path)
            case c.StageFiles() | c.CommitStaged() | c.RevertFiles() | c.DiscardChanges() as command:
                async with self._changing:
                    return await self._change(command)
            case c.PushBranch(session=session, digest=digest):
                return await git_remote.push(manager.get(session).cwd, self._config.environ, digest=digest)
            case c.OpenPullRequest() as command:
                cwd, env = manager.get(command.session).cwd, self._config.environ
                return await git_remote.open_pull_request(cwd, env, command.title, command.body, digest=command.digest)
            case c.GetWorktree(session=session):
                return await manager.worktree(session)
            case c.MergeWorktree(session=session):
                return await manager.merge_worktree(session)
            case c.RebaseWorktree(session=session):
                return await manager.rebase_worktree(session)
            case c.DiscardWorktree(session=session):
                return await manager.discard_worktree(session)
            case c.RemoveUnusedWorktree(session=session):
                return await manager.remove_unused_worktree(session)
            case c.Browse(path=path):
                home = self._config.environ.get("HOME", "/")
                also = {record.cwd for record in manager.sessions(archived=True)}
                return await asyncio.to_thread(browse, path, home=home, also=also)
            case c.Refresh():
                return await self._agents.refresh()
            case c.ListModels(agent=agent):
                return await self._agents.list_models(agent)
            case c.Unknown(said=name):
                raise Unsupported(
                    "this machine", name, hint="It runs another version of Tieline; update the older one."
                )

    async def _change(self, command: c.StageFiles | c.CommitStaged | c.RevertFiles | c.DiscardChanges) -> ChangeOutcome:
        cwd, env = self._manager.get(command.session).cwd, self._config.environ
        match command:
            case c.StageFiles(paths=paths, staged=staged):
                return await git_actions.stage(cwd, env, paths, staged=staged)
            case c.CommitStaged(message=message):
                return await git_actions.commit(cwd, env, message)
            case c.RevertFiles(paths=paths, digest=digest):
                if not paths:
                    raise UsageError("no file is named", field="paths")
                return await git_actions.revert(cwd, env, paths, digest=digest)
            case c.DiscardChanges(digest=digest):
                return await git_actions.revert(cwd, env, (), digest=digest)

    async def _create(self, envelope: CommandEnvelope, command: c.CreateSession) -> SessionRecord:
        agent = command.agent or self._agents.chosen()
        cwd = command.cwd or self._config.environ.get("HOME", "/")
        if command.model and not command.resume:
            await self._agents.check_model(agent, command.model, cwd)
        return await self._manager.create(
            agent,
            cwd=cwd,
            title=command.title,
            id=command.session or session_of(envelope.id),
            resume=command.resume,
            fork=command.fork,
            team=command.team,
            worktree=command.worktree,
            branch=command.branch,
            **command.agent_options(),
        )

    async def _send(self, envelope: CommandEnvelope, command: c.SendPrompt) -> PromptView:
        if any(attachment.path for attachment in command.attachments):
            hint = "Send its content; a path would name a file of the node's machine."
            raise UsageError("an attachment needs a path", field="attachments", hint=hint)
        kept = await self._manager.prompt(
            command.session,
            Prompt(command.text, command.attachments),
            id=command.prompt,
            by=envelope.by,
            timeout_s=command.timeout_s,
            system=command.system,
        )
        return view(kept)

    async def _cancel(self, session: str, id: str) -> PromptView:
        self._manager.get(session)
        prompt = await self._manager.prompts.get(session, id)
        if prompt.status != "cancelled":  # else it was us, before we died
            prompt = await self._manager.prompts.cancel(session, id)
        return view(prompt)

    async def _decide(
        self, envelope: CommandEnvelope, command: c.ApprovePermission | c.DenyPermission | c.AnswerQuestion
    ) -> AskRecord:
        record, _ = await self._manager.asks.get(command.ask)
        self._manager.get(record.session)
        if command.session and command.session != record.session:
            raise UsageError(f"no ask {command.ask!r} in session {command.session!r}", field="ask")
        answer = _own(envelope, command)
        try:
            return await self._manager.answer(command.ask, answer, digest=command.digest)
        except AlreadyAnswered as error:
            won = error.record.answer
            if won is not None and replace(won, tool="") == replace(answer, tool=""):
                return error.record  # our own, applied before we died
            raise


def session_of(command_id: str) -> str:
    """The id of the session that a command makes: the same command again finds the same session."""
    return hashlib.sha256(command_id.encode()).hexdigest()[:28]


def _own(envelope: CommandEnvelope, command: c.ApprovePermission | c.DenyPermission | c.AnswerQuestion) -> Answer:
    """The answer as the command means it, by whom the hub says it is."""
    decision = command.answer.decision
    if isinstance(command, c.ApprovePermission):
        decision = "allow"
    elif isinstance(command, c.DenyPermission):
        decision = "deny"
    return replace(command.answer, ask=command.ask, decision=decision, by=envelope.by or command.answer.by)
