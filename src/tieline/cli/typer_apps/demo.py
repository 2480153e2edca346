"""`tieline demo`, as Typer declares it."""

from typing import Annotated

import typer

from ..help import HelpCommand


def demo(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Answer every ask with yes.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the demo's directory in place.")] = False,
) -> None:
    """Watch a scripted agent fix a small project in a temporary directory. No key, no account, nothing to
    install."""
    from ..commands.demo import run_demo

    raise typer.Exit(run_demo(yes=yes, keep=keep))


EXAMPLES = """
tieline demo                             you decide
tieline demo --yes                       everything is allowed
"""


def add(app: typer.Typer) -> None:
    app.command(cls=HelpCommand, epilog=EXAMPLES)(demo)
