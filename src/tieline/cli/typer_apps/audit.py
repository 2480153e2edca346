"""`tieline audit`, as Typer declares it."""

from typing import Annotated, get_args

import typer

from ...protocol.audit import AuditKind
from ..help import HelpCommand
from .options import HUB_PANEL, Json, Since


def audit(
    kind: Annotated[
        str,
        typer.Option(metavar="KIND", help=f"Only these: {', '.join(get_args(AuditKind))}."),
    ] = "",
    since: Since = "",
    limit: Annotated[int, typer.Option(metavar="N", help="Show at most this many.", min=1)] = 100,
    json: Json = False,
) -> None:
    """Show who signed in, paired, decided, changed a policy or was refused. The newest comes first; kept for 90
    days."""
    from ..commands.audit import show

    raise typer.Exit(show(kind=kind, since=since, limit=limit, json=json))


EXAMPLES = """
tieline audit
tieline audit --kind decision --since 7d
tieline audit --json | jq '.[] | select(.what == "refusal")'
"""


def add(app: typer.Typer) -> None:
    app.command(cls=HelpCommand, epilog=EXAMPLES, rich_help_panel=HUB_PANEL)(audit)
