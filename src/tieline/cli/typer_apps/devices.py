"""`tieline devices`, as Typer declares it."""

from typing import Annotated

import typer

from ..help import HelpCommand
from .options import HUB_PANEL, Json


def devices(
    revoke: Annotated[
        str, typer.Option(metavar="ID", help="Revoke this device at once: its id, or enough of it.")
    ] = "",
    let_in: Annotated[
        bool | None,
        typer.Option("--let-in/--only", help="With --revoke: also whom it let in, or only it.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """List the devices that have access to the hub, and who let them in. Devices that are not used for 90 days
    expire."""
    from ..commands.devices import revoke as shut_out
    from ..commands.devices import show

    raise typer.Exit(shut_out(revoke, let_in=let_in) if revoke else show(json=json))


EXAMPLES = """
tieline devices
tieline devices --revoke 9be41d
tieline devices --revoke 9be41d --let-in   and all that it let in
"""


def add(app: typer.Typer) -> None:
    app.command(cls=HelpCommand, epilog=EXAMPLES, rich_help_panel=HUB_PANEL)(devices)
