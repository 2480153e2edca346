"""The verbs about a session's changes: changes show, stage, unstage, commit, revert, discard, push, pr."""

from typing import Annotated

import typer

from ..help import FamilyGroup, HelpCommand
from .options import SESSIONS_PANEL, Json, Session

Yes = Annotated[bool, typer.Option("--yes", help="Do what the plan says, without a question.")]
Paths = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PATH…]", help="From the top of the repository. Default: all.", show_default=False),
]


def show(session: Session, json: Json = False) -> None:
    """Show the files that differ from the last commit, the branch, and how far it is pushed."""
    from ..commands.changes import show

    raise typer.Exit(show(session, json=json))


def stage(session: Session, paths: Paths = None, json: Json = False) -> None:
    """Stage files as they are now."""
    from ..commands.changes import stage

    raise typer.Exit(stage(session, paths or [], staged=True, json=json))


def unstage(session: Session, paths: Paths = None, json: Json = False) -> None:
    """Take files out of the next commit. They stay as they are."""
    from ..commands.changes import stage

    raise typer.Exit(stage(session, paths or [], staged=False, json=json))


def commit(
    session: Session,
    message: Annotated[str, typer.Option("--message", "-m", metavar="TEXT", help="`-` reads it from standard input.")],
    json: Json = False,
) -> None:
    """Commit what is staged, as you. The repository's hooks and signing are not run."""
    from ..commands.changes import commit

    raise typer.Exit(commit(session, message, json=json))


def revert(
    session: Session,
    paths: Annotated[list[str], typer.Argument(metavar="PATH…", help="From the top of the repository.")],
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Take files back to the last commit. What was there is kept, and it says how to get it back."""
    from ..commands.changes import revert

    raise typer.Exit(revert(session, paths, yes=yes, json=json))


def discard(session: Session, yes: Yes = False, json: Json = False) -> None:
    """Take all files back to the last commit. What was there is kept, and it says how to get it back."""
    from ..commands.changes import discard

    raise typer.Exit(discard(session, yes=yes, json=json))


def push(session: Session, yes: Yes = False, json: Json = False) -> None:
    """Push the branch to its remote, never by force. It shows the address first."""
    from ..commands.changes import push

    raise typer.Exit(push(session, yes=yes, json=json))


def pull_request(
    session: Session,
    title: Annotated[str, typer.Option("--title", "-t", metavar="TEXT", help="One line.")],
    body: Annotated[str, typer.Option("--body", "-b", metavar="TEXT", help="`-` reads it from standard input.")] = "",
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Open a pull request for the pushed branch, by the `gh` of the session's machine."""
    from ..commands.changes import pull_request

    raise typer.Exit(pull_request(session, title, body, yes=yes, json=json))


ABOUT = "A session's changes: stage, commit, revert, discard, push, open a pull request."
VERBS = {
    "show": (show, "tieline changes 1f0c2a\ntieline changes 1f0c2a --json | jq -r '.files[].path'"),
    "stage": (stage, "tieline changes stage 1f0c2a src/parser.py\ntieline changes stage 1f0c2a      all of them"),
    "unstage": (unstage, "tieline changes unstage 1f0c2a src/parser.py"),
    "commit": (commit, 'tieline changes commit 1f0c2a -m "Parse empty lines"'),
    "revert": (revert, "tieline changes revert 1f0c2a src/parser.py"),
    "discard": (discard, "tieline changes discard 1f0c2a"),
    "push": (push, "tieline changes push 1f0c2a\ntieline changes push 1f0c2a --yes --json"),
    "pr": (pull_request, 'tieline changes pr 1f0c2a --title "Parse empty lines" --body -'),
}


def add(app: typer.Typer) -> None:
    group = typer.Typer(cls=FamilyGroup, rich_markup_mode=None)
    first = "\n".join(examples.splitlines()[0] for _, examples in VERBS.values())
    app.add_typer(group, name="changes", help=ABOUT, epilog=first, rich_help_panel=SESSIONS_PANEL)
    for verb, (function, examples) in VERBS.items():
        group.command(verb, cls=HelpCommand, epilog=examples)(function)
