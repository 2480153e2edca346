"""`tieline top`, as Typer declares it."""

from typing import Annotated

import typer

from ..help import HelpCommand
from .options import HUB_PANEL, Json


def top(
    once: Annotated[bool, typer.Option("--once", help="Print the table once, also on a terminal.")] = False,
    find: Annotated[str, typer.Option(metavar="WORDS", help="Only sessions with these words; prints once.")] = "",
    json: Json = False,
) -> None:
    """Show all machines and sessions on one screen: watch, answer and steer them. Without a terminal it prints
    once."""
    from ..commands import top as work

    raise typer.Exit(work.top(once=once, find=find, json=json))


EXAMPLES = """
tieline top
tieline top --find api --once
tieline top --json | jq '.sessions[] | select(.status == "waiting") | .id'
"""


def add(app: typer.Typer) -> None:
    app.command(cls=HelpCommand, epilog=EXAMPLES, rich_help_panel=HUB_PANEL)(top)
