"""`tieline usage`, as Typer declares it."""

from typing import Annotated

import typer

from .. import completion_values
from ..help import HelpCommand
from .options import SESSIONS_PANEL, Json, OnlyAgent, OnlyProject, OnlySession, Since, Until


def usage(
    by: Annotated[
        str,
        typer.Option(
            metavar="KIND", help="day, agent, project or session.", autocompletion=completion_values.usage_kinds
        ),
    ] = "day",
    since: Since = "",
    until: Until = "",
    agent: OnlyAgent = "",
    project: OnlyProject = "",
    session: OnlySession = "",
    time_zone: Annotated[
        str, typer.Option(metavar="NAME", help="The time zone of the days: Europe/Berlin, UTC … Default: the hub's.")
    ] = "",
    json: Json = False,
) -> None:
    """Tokens, cost, time and turns at the hub. The last 30 days, unless --since says otherwise. Nothing is
    guessed: a sum that is known only in part is marked."""
    from ..commands.usage import show

    raise typer.Exit(
        show(
            by=by,
            since=since,
            until=until,
            time_zone=time_zone,
            agent=agent,
            project=project,
            session=session,
            json=json,
        )
    )


EXAMPLES = """
tieline usage
tieline usage --by project --since 7d
tieline usage --by session --agent codex --since 2026-11-01 --until 2026-11-15
tieline usage --by agent --json | jq '.rows[] | [.key, .tokens.cost_usd]'
"""


def add(app: typer.Typer) -> None:
    app.command(cls=HelpCommand, epilog=EXAMPLES, rich_help_panel=SESSIONS_PANEL)(usage)
