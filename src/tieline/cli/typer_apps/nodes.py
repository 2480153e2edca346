"""`tieline nodes`, as Typer declares it."""

from typing import Annotated

import typer

from .. import completion_values
from ..help import HelpCommand
from .options import HUB_PANEL, Json


def nodes(
    remove: Annotated[
        str,
        typer.Option(
            metavar="NODE",
            help="Remove this machine and revoke its key: its name, or enough of its id.",
            autocompletion=completion_values.nodes,
        ),
    ] = "",
    json: Json = False,
) -> None:
    """List the machines of the hub: online or not, their version, the agents that are ready there."""
    from ..commands import nodes

    raise typer.Exit(nodes.remove(remove, json=json) if remove else nodes.show(json=json))


EXAMPLES = """
tieline nodes
tieline nodes --json | jq -r '.[] | select(.online) | .name'
tieline nodes --remove old-laptop
"""


def add(app: typer.Typer) -> None:
    app.command(cls=HelpCommand, epilog=EXAMPLES, rich_help_panel=HUB_PANEL)(nodes)
