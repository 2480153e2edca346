"""`tieline members`, as Typer declares it."""

from typing import Annotated

import typer

from ..help import HelpCommand
from .options import MESSAGES_PANEL, Json


def members(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="What they do or their name; misspellings are tolerated.")
    ] = "",
    project: Annotated[str, typer.Option(metavar="NAME", help="Only of this project.")] = "",
    role: Annotated[str, typer.Option(metavar="TEXT", help="Only with this role.")] = "",
    harness: Annotated[str, typer.Option(metavar="NAME", help="Only in this harness: claude-code, codex …")] = "",
    machine: Annotated[str, typer.Option(metavar="NAME", help="Only on this machine.")] = "",
    activity: Annotated[
        str,
        typer.Option(metavar="working|idle|unknown", help="Only those with this activity."),
    ] = "",
    ended: Annotated[bool, typer.Option("--ended", help="Also those whose session has ended.")] = False,
    limit: Annotated[int, typer.Option(metavar="N", help="Show at most this many.")] = 100,
    json: Json = False,
) -> None:
    """List who can be written to: agents in harnesses, sessions and people."""
    from ..commands.members import members

    raise typer.Exit(
        members(
            query,
            project=project,
            role=role,
            harness=harness,
            machine=machine,
            activity=activity,
            ended=ended,
            limit=limit,
            json=json,
        )
    )


EXAMPLES = """
tieline members
tieline members "database migrations" --project shop
tieline members --harness codex --activity idle
tieline members --json | jq -r '.[].name'
"""


def add(app: typer.Typer) -> None:
    app.command("members", cls=HelpCommand, epilog=EXAMPLES, rich_help_panel=MESSAGES_PANEL)(members)
