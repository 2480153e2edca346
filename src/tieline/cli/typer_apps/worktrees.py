"""`tieline worktree …`, as Typer declares it."""

from typing import Annotated

import typer

from ..help import add_family
from .options import SESSIONS_PANEL, Json, Session

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def worktree_list(
    ended: Annotated[bool, typer.Option("--all", help="Those that were merged or discarded, too.")] = False,
    json: Json = False,
) -> None:
    """List the worktrees of sessions, and how each differs from its base branch."""
    from ..commands.worktrees import list_worktrees

    raise typer.Exit(list_worktrees(ended=ended, json=json))


def worktree_diff(session: Session, json: Json = False) -> None:
    """Show what merging it would change, uncommitted files included."""
    from ..commands.worktrees import diff

    raise typer.Exit(diff(session, json=json))


def worktree_merge(session: Session, json: Json = False) -> None:
    """Merge it into its base branch, and remove it. What is not committed is committed first.

    With a conflict, or changes in the way, nothing is merged."""
    from ..commands.worktrees import merge

    raise typer.Exit(merge(session, json=json))


def worktree_rebase(session: Session, json: Json = False) -> None:
    """Rebase its commits onto its base branch as it is now. What is not committed is committed first.

    With a conflict nothing is rebased."""
    from ..commands.worktrees import rebase

    raise typer.Exit(rebase(session, json=json))


def worktree_discard(session: Session, yes: Yes = False, json: Json = False) -> None:
    """Remove it. What is not merged is kept under a reference of the repository, and you are told which."""
    from ..commands.worktrees import discard

    raise typer.Exit(discard(session, yes=yes, json=json))


ABOUT = "Git worktrees that sessions work in: `tieline run --worktree` makes one."
VERBS = {
    "list": (worktree_list, "tieline worktree list\ntieline worktree list --json | jq -r '.[].worktree.branch'"),
    "diff": (worktree_diff, "tieline worktree diff 1f0c2a"),
    "merge": (worktree_merge, "tieline worktree merge 1f0c2a\ntieline worktree merge 1f0c2a --json"),
    "rebase": (worktree_rebase, "tieline worktree rebase 1f0c2a"),
    "discard": (worktree_discard, "tieline worktree discard 1f0c2a\ntieline worktree discard 1f0c2a --yes"),
}


def add(app: typer.Typer) -> None:
    add_family(app, "worktree", ABOUT, VERBS, panel=SESSIONS_PANEL)
