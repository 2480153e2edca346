"""`tieline worktree`: the git worktrees that sessions work in."""

import sys
from collections.abc import Awaitable, Callable

from ...client.client import Client
from ...errors import UsageError
from ...ids import short_id
from ...protocol.views import CommandView
from ...sessions.records import SessionRecord
from ...sessions.session_worktrees import WorktreeOutcome, WorktreeStatus
from .. import hub_connection
from ..terminal.formatting import print_json
from ..terminal.line_prompt import ask_line
from ..terminal.sanitize import clean, one_line
from ..terminal.tables import Cell, print_rows
from .sessions import print_diff

TITLES = ("session", "branch", "base", "commits", "changed", "state", "what")


def list_worktrees(*, ended: bool, json: bool) -> int:
    async def work(client: Client) -> int:
        worktrees = await client.worktrees(ended=ended)
        if json:
            print_json(worktrees)
            return 0
        none = 'No worktrees. A session gets one so: tieline send --new codex "your task" --worktree'
        print_rows(TITLES, [_row(worktree) for worktree in worktrees], none, optional=("base", "commits", "changed"))
        return 0

    return hub_connection.run_with_client(work)


def _row(status: WorktreeStatus) -> list[Cell]:
    worktree = status.worktree
    commits = ", ".join(
        f"{count} {word}" for count, word in ((status.ahead, "ahead"), (status.behind, "behind")) if count
    )
    return [
        (short_id(status.session), "bold"),
        one_line(worktree.branch, 50),
        (one_line(worktree.into or worktree.base[:10], 30), "dim"),
        commits or "–",
        f"{status.files} {'file' if status.files == 1 else 'files'}, +{status.insertions} −{status.deletions}"
        if status.files
        else "–",
        _state(status),
        (one_line(status.title, 60), "dim"),
    ]


def _state(status: WorktreeStatus) -> Cell:
    if status.worktree.ended:
        return status.worktree.ended, "dim"
    if status.problem:
        return one_line(status.problem, 80), "red"
    if status.conflicts:
        return f"conflicts: {one_line(', '.join(status.conflicts), 60)}", "yellow"
    if status.uncommitted:
        return f"{status.uncommitted} not committed", "yellow"
    return "ready to merge" if status.ahead else "nothing to merge"


def diff(given: str, *, json: bool) -> int:
    async def work(client: Client) -> int:
        record = await hub_connection.find_session(client, given)
        print_diff(record, await client.diff(record.id, since="base"), json=json)
        return 0

    return hub_connection.run_with_client(work)


def merge(given: str, *, json: bool) -> int:
    return _change(given, lambda client, record: client.merge_worktree(record.id), json=json)


def rebase(given: str, *, json: bool) -> int:
    return _change(given, lambda client, record: client.rebase_worktree(record.id), json=json)


def discard(given: str, *, yes: bool, json: bool) -> int:
    async def confirmed(client: Client, record: SessionRecord) -> WorktreeOutcome | CommandView:
        if not yes:
            _confirm(await client.worktree(record.id))
        return await client.discard_worktree(record.id)

    return _change(given, confirmed, json=json)


def _change(
    given: str, change: Callable[[Client, SessionRecord], Awaitable[WorktreeOutcome | CommandView]], *, json: bool
) -> int:
    async def work(client: Client) -> int:
        record = await hub_connection.find_session(client, given)
        return hub_connection.print_outcome(await change(client, record), outcome_text, json=json)

    return hub_connection.run_with_client(work)


def _confirm(status: WorktreeStatus) -> None:
    what = f"{status.worktree.branch} ({status.ahead} commits, {status.uncommitted} files not committed)"
    question = f"Discard {what}? A reference of the repository keeps it. [y/N] "
    try:
        answer = ask_line(clean(question)) if sys.stdin.isatty() else ""
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was discarded", field="yes", hint="Add --yes where nobody can be asked.")


def outcome_text(outcome: WorktreeOutcome) -> str:
    """What was done, in a line or two."""
    number = outcome.committed
    committed = f"{number} {'file' if number == 1 else 'files'} committed. " if number else ""
    if outcome.done == "merged":
        gone = f"kept: {outcome.kept}" if outcome.kept else "the worktree and its branch are removed"
        text = f"{committed}{outcome.branch} is merged into {outcome.into} ({outcome.commit[:10]}); {gone}"
    elif outcome.done == "rebased":
        text = f"{committed}{outcome.branch} is rebased on {outcome.into} ({outcome.commit[:10]})"
    elif outcome.kept_as:
        text = f"{outcome.branch} is discarded; to have it back: git branch {outcome.branch} {outcome.kept_as}"
    else:
        text = f"{outcome.branch} is discarded; {outcome.into or 'its base'} had all of it"
    return clean(text)
