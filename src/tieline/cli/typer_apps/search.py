"""`tieline search`, as Typer declares it."""

from typing import Annotated

import typer

from .. import completion_values
from ..help import HelpCommand
from .options import SESSIONS_PANEL, Json, OnlyAgent, OnlyProject, OnlySession, Since, Until


def search(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORDS…", help='All must match; "exactly as written", begin*, -without.', show_default=False
        ),
    ],
    agent: OnlyAgent = "",
    project: OnlyProject = "",
    session: OnlySession = "",
    kind: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="Only these: prompt, text, thinking, tool, output, ask, error or message.",
            autocompletion=completion_values.search_kinds,
        ),
    ] = "",
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, typer.Option(metavar="N", help="Show at most this many.", min=1)] = 20,
    json: Json = False,
) -> None:
    """Search what was said, run, asked and sent, in all sessions and messages of the hub. The newest comes
    first, each with the command that shows its place. Exit status 1 when nothing is found."""
    from ..commands.search import search

    raise typer.Exit(
        search(
            words,
            agent=agent,
            project=project,
            session=session,
            kind=kind,
            since=since,
            until=until,
            limit=limit,
            json=json,
        )
    )


EXAMPLES = """
tieline search flaky test
tieline search '"connection refused"' --kind output --since 7d
tieline search 'migrat*' -- -postgres
tieline search deploy --project shop --json | jq -r '.hits[].session'
"""


def add(app: typer.Typer) -> None:
    app.command(cls=HelpCommand, epilog=EXAMPLES, rich_help_panel=SESSIONS_PANEL)(search)
