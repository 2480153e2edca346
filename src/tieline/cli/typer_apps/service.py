"""`tieline service install|uninstall|status|run`, as Typer declares them."""

from typing import Annotated

import typer

from ..help import HelpCommand, family
from .options import HUB_PANEL, Json

Node = Annotated[
    bool, typer.Option("--node", help="Run a node of the hub that this machine has joined, instead of a hub.")
]


def install(
    node: Node = False,
    print_only: Annotated[bool, typer.Option("--print", help="Show what would be written, and write nothing.")] = False,
    json: Json = False,
) -> None:
    """Start the hub now and after every reboot (systemd, or launchd on a Mac)."""
    from ..commands import service

    raise typer.Exit(service.install(node=node, print_only=print_only, json=json))


def uninstall(json: Json = False) -> None:
    """End the service and remove it. Sessions and messages stay."""
    from ..commands import service

    raise typer.Exit(service.uninstall(json=json))


def status(json: Json = False) -> None:
    """Whether the service is installed, runs, and starts by itself. Exit status 1 when it does not run."""
    from ..commands import service

    raise typer.Exit(service.show(json=json))


def run(node: Node = False) -> None:
    """Run the hub in the foreground, as the service does. Its log contains no sign-in link."""
    from ..commands import service

    raise typer.Exit(service.run(node=node))


EXAMPLES = {
    install: """
tieline service install
tieline service install --node           after `tieline node join URL`
tieline service install --print
""",
    uninstall: """
tieline service uninstall
""",
    status: """
tieline service status
tieline service status --json | jq .running
""",
    run: """
tieline service run
tieline service run --node
""",
}


def add(app: typer.Typer) -> None:
    about = "Run the hub as a service that survives a reboot: install, uninstall, status, run."
    group = family(app, "service", about, panel=HUB_PANEL, examples="tieline service install")
    for verb, examples in EXAMPLES.items():
        group.command(cls=HelpCommand, epilog=examples)(verb)
