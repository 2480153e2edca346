"""A session's uncommitted changes on the wire: actions of people, and their outcomes."""

from msgspec import Struct

from ..sessions.file_preview import WorkFile
from ..sessions.git_actions import ChangeOutcome, WorkingTree
from .request_bodies import Body


class FileChoice(Body, frozen=True, kw_only=True):
    paths: tuple[str, ...]  # from the top of the repository, as they are listed


class CommitMessage(Body, frozen=True, kw_only=True):
    message: str


class Reversal(FileChoice, frozen=True, kw_only=True):
    digest: str = ""  # of the plan that was agreed to; without one, the plan is given and nothing is changed


class Agreement(Body, frozen=True, kw_only=True):
    digest: str = ""


class NewPullRequest(Body, frozen=True, kw_only=True):
    title: str
    body: str = ""
    digest: str = ""


class ChangesReply(Struct, frozen=True, kw_only=True):
    """What the routes of changes give; only the page's types are made from it."""

    tree: WorkingTree
    outcome: ChangeOutcome
    file: WorkFile
