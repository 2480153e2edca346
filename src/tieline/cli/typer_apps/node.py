"""The verbs about this machine as a node of a hub elsewhere: node join, run, status, leave."""

from typing import Annotated

import typer

from ..help import HelpCommand, family
from .options import HUB_PANEL, Json


def join(
    url: Annotated[str, typer.Argument(metavar="URL", help="The link that `tieline pair --node` prints.")],
    secret: Annotated[str, typer.Option(metavar="SECRET", help="The secret, if the URL has none.")] = "",
    name: Annotated[
        str, typer.Option(metavar="TEXT", help="What the hub calls it. Default: this machine's name.")
    ] = "",
    run: Annotated[bool, typer.Option(help="Then run as a node, in the background.")] = True,
    json: Json = False,
) -> None:
    """Join this machine to a hub, and let it run its agents."""
    from ..commands.node import join

    raise typer.Exit(join(url, secret=secret, name=name, run=run, json=json))


def run(foreground: Annotated[bool, typer.Option(help="Stay here, or go to the background.")] = True) -> None:
    """Run as a node of the hub that this machine has joined. Ends with Ctrl-C or `tieline down`."""
    from ..commands.node import run

    raise typer.Exit(run(foreground=foreground))


def status(json: Json = False) -> None:
    """Show which hub this machine has joined and the state of the link. Exit status 1 when it is down."""
    from ..commands.node import show

    raise typer.Exit(show(json=json))


def leave(json: Json = False) -> None:
    """Leave the hub. This machine's key is revoked."""
    from ..commands.node import leave

    raise typer.Exit(leave(json=json))


EXAMPLES = {
    join: """
tieline node join 'https://hub.example/#pair=4f…'
tieline node join https://hub.example --secret 4f…
""",
    run: """
tieline node run
tieline node run --no-foreground
""",
    status: """
tieline node status
""",
    leave: """
tieline node leave
""",
}


def add(app: typer.Typer) -> None:
    about = "Use this machine as a node of a hub elsewhere: join, run, status, leave."
    group = family(app, "node", about, panel=HUB_PANEL, examples="tieline node join 'https://hub.example/#pair=4f…'")
    for verb, examples in EXAMPLES.items():
        group.command(cls=HelpCommand, epilog=examples)(verb)
