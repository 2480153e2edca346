"""What a node can be told to do. Each is a value with a `name` tag, durable on its way, applied once by its id."""

from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Struct

from ..drivers.base import AgentOptions, Attachment
from ..errors import TielineError, UsageError
from ..events import Answer
from ..policy import Policy

DiffSince = Literal["session", "commit", "base"]
"""Since the session began, or since the last commit."""


class NodeCommand(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="name", tag=""):
    name: ClassVar[str]


class ListSessions(NodeCommand, tag="list_sessions", frozen=True, kw_only=True):
    archived: bool = False


class CreateSession(NodeCommand, AgentOptions, tag="create_session", frozen=True, kw_only=True):
    session: str = ""  # the id it shall have; the same one again is the same session
    agent: str = ""
    cwd: str = ""
    policy: Policy = Policy()
    title: str = ""
    resume: str = ""
    fork: bool = False
    team: str = ""  # the team conversation that it is for
    worktree: bool = False  # it works in a git worktree of its own
    branch: str = ""  # the worktree's; a name alone means one, too


class ChangeSession(NodeCommand, tag="change_session", frozen=True, kw_only=True):
    """What is None stays."""

    session: str
    title: str | None = None
    policy: Policy | None = None
    model: str | None = None
    effort: str | None = None
    archived: bool | None = None


class ForkSession(NodeCommand, tag="fork_session", frozen=True, kw_only=True):
    session: str
    title: str = ""


class AdoptSession(NodeCommand, tag="adopt_session", frozen=True, kw_only=True):
    """Drive a session from here on that a person ran in a terminal."""

    session: str


class CloseSession(NodeCommand, tag="close_session", frozen=True, kw_only=True):
    session: str


class AbortSession(NodeCommand, tag="abort_session", frozen=True, kw_only=True):
    """Interrupt the running turn."""

    session: str


class SendPrompt(NodeCommand, tag="send_prompt", frozen=True, kw_only=True):
    session: str
    prompt: str  # its id
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    timeout_s: float | None = None
    system: str = ""  # what this turn adds to the system instruction


class Steer(NodeCommand, tag="steer", frozen=True, kw_only=True):
    session: str
    text: str


class CancelPrompt(NodeCommand, tag="cancel_prompt", frozen=True, kw_only=True):
    session: str
    prompt: str


class MovePrompt(NodeCommand, tag="move_prompt", frozen=True, kw_only=True):
    session: str
    prompt: str
    before: str = ""


class EditPrompt(NodeCommand, tag="edit_prompt", frozen=True, kw_only=True):
    """Replace the text of a waiting prompt."""

    session: str
    prompt: str
    text: str


class ApprovePermission(NodeCommand, tag="approve_permission", frozen=True, kw_only=True):
    session: str
    ask: str
    answer: Answer
    digest: str = ""


class DenyPermission(NodeCommand, tag="deny_permission", frozen=True, kw_only=True):
    session: str
    ask: str
    answer: Answer
    digest: str = ""


class AnswerQuestion(NodeCommand, tag="answer_question", frozen=True, kw_only=True):
    session: str
    ask: str
    answer: Answer
    digest: str = ""


class GetMessages(NodeCommand, tag="get_messages", frozen=True, kw_only=True):
    session: str
    after: int = 0
    limit: int = 1000


class GetDiff(NodeCommand, tag="get_diff", frozen=True, kw_only=True):
    session: str
    since: DiffSince = "session"


class GetWorkingTree(NodeCommand, tag="get_working_tree", frozen=True, kw_only=True):
    """What of a session's repository is not committed or not pushed."""

    session: str


class ReadFile(NodeCommand, tag="read_file", frozen=True, kw_only=True):
    """A file in a session's directory."""

    session: str
    path: str


class StageFiles(NodeCommand, tag="stage_files", frozen=True, kw_only=True):
    session: str
    paths: tuple[str, ...]
    staged: bool = True


class CommitStaged(NodeCommand, tag="commit_staged", frozen=True, kw_only=True):
    session: str
    message: str


class RevertFiles(NodeCommand, tag="revert_files", frozen=True, kw_only=True):
    """Take files back to the last commit. This and the next three need the digest of a plan; without one they give
    the plan and change nothing."""

    session: str
    paths: tuple[str, ...]
    digest: str = ""


class DiscardChanges(NodeCommand, tag="discard_changes", frozen=True, kw_only=True):
    session: str
    digest: str = ""


class PushBranch(NodeCommand, tag="push_branch", frozen=True, kw_only=True):
    session: str
    digest: str = ""


class OpenPullRequest(NodeCommand, tag="open_pull_request", frozen=True, kw_only=True):
    session: str
    title: str
    body: str = ""
    digest: str = ""


class GetWorktree(NodeCommand, tag="get_worktree", frozen=True, kw_only=True):
    """How a session's worktree stands to its base branch."""

    session: str


class MergeWorktree(NodeCommand, tag="merge_worktree", frozen=True, kw_only=True):
    session: str


class RebaseWorktree(NodeCommand, tag="rebase_worktree", frozen=True, kw_only=True):
    session: str


class DiscardWorktree(NodeCommand, tag="discard_worktree", frozen=True, kw_only=True):
    """What is not merged is kept under a reference."""

    session: str


class RemoveUnusedWorktree(NodeCommand, tag="remove_unused_worktree", frozen=True, kw_only=True):
    """Remove it if nothing was made in it. Harmless to repeat."""

    session: str


class Browse(NodeCommand, tag="browse", frozen=True, kw_only=True):
    """The directories inside one; empty is the user's home."""

    path: str = ""


class Refresh(NodeCommand, tag="refresh", frozen=True, kw_only=True):
    """Look again which agents are installed and signed in."""


class ListModels(NodeCommand, tag="list_models", frozen=True, kw_only=True):
    """Ask an agent which models it has. It is started for that, unless it told not long ago."""

    agent: str


AnyCommand = (
    ListSessions | CreateSession | ChangeSession | ForkSession | AdoptSession | CloseSession | AbortSession
    | SendPrompt | Steer | CancelPrompt | MovePrompt | EditPrompt
    | ApprovePermission | DenyPermission | AnswerQuestion
    | GetMessages | GetDiff | GetWorkingTree | ReadFile | Browse | Refresh | ListModels
    | StageFiles | CommitStaged | RevertFiles | DiscardChanges | PushBranch | OpenPullRequest
    | GetWorktree | MergeWorktree | RebaseWorktree | DiscardWorktree | RemoveUnusedWorktree
)  # fmt: skip


class Unknown(NodeCommand, tag="unknown", frozen=True, kw_only=True):
    """One of another version of Tieline. Whoever is told it refuses it, by its name."""

    said: str = ""


COMMANDS: tuple[type[NodeCommand], ...] = AnyCommand.__args__
for _command in (*COMMANDS, Unknown):
    _command.name = str(_command.__struct_config__.tag)

DECISIONS = (ApprovePermission, DenyPermission, AnswerQuestion)
READING = (ListSessions, GetMessages, GetDiff, GetWorkingTree, GetWorktree, ReadFile, Browse, ListModels)
"""These change nothing: asking twice is harmless, and a late answer is of no use."""
CHANGES = (
    StageFiles, CommitStaged, RevertFiles, DiscardChanges, PushBranch, OpenPullRequest,
    MergeWorktree, RebaseWorktree, DiscardWorktree,
)  # fmt: skip
"""What a person does with a session's changes as they see them: never later, for a machine that is away."""


class CommandEnvelope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command on its way: `commands.<node>` on the hub's bus, then over the link, then the node's own bus."""

    id: str
    command: AnyCommand | Unknown
    by: str = ""  # the device that wants it; stamped by the hub
    at: float = 0.0
    expires_at: float = 0.0


class _Strange(Struct, frozen=True, kw_only=True):
    """As much of a command as every version has."""

    id: str
    command: dict[str, Any]
    by: str = ""
    at: float = 0.0
    expires_at: float = 0.0


_envelope = msgspec.json.Decoder(CommandEnvelope).decode
_strange = msgspec.json.Decoder(_Strange).decode


def decode_envelope(data: bytes) -> CommandEnvelope:
    """Also one whose command this version does not know: it is to be refused, not to stand in the way."""
    try:
        return _envelope(data)
    except msgspec.ValidationError:
        envelope = _strange(data)
        command = Unknown(said=str(envelope.command.get("name", ""))[:100])
        return CommandEnvelope(
            id=envelope.id, command=command, by=envelope.by, at=envelope.at, expires_at=envelope.expires_at
        )


class Refusal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a command was not carried out: the error that the node raised."""

    code: str  # UsageError, AlreadyAnswered, expired …
    message: str
    field: str = ""
    hint: str = ""


class Result(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a command. `value` is JSON of what the command gives."""

    id: str
    value: msgspec.Raw = msgspec.Raw(b"null")
    refusal: Refusal | None = None
    at: float = 0.0


class CommandRefused(TielineError):
    """A refusal, where the error itself is not at hand: it was raised on another machine, or before."""

    def __init__(self, code: str, message: str, *, field: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.field = field


def refusal_of(error: TielineError) -> Refusal:
    code = error.code if isinstance(error, CommandRefused) else type(error).__name__
    field = error.field if isinstance(error, CommandRefused | UsageError) else ""
    return Refusal(code=code, message=error.message, field=field, hint=error.hint)


def raise_if_refused(result: Result) -> Result:
    if (refusal := result.refusal) is not None:
        raise CommandRefused(refusal.code, refusal.message, field=refusal.field, hint=refusal.hint)
    return result
