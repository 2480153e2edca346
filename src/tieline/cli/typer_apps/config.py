"""The verbs about the configuration file: check, show. The work is in config_check.py and config_show.py."""

from pathlib import Path
from typing import Annotated

import typer

from ..help import HelpCommand, family
from .options import Json


def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The file; yours by default.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Report every mistake in the configuration file: line, key, what to do. Exit status 2 when there is one.

    It runs no code that the file names: `tieline channels check` does."""
    from ..commands.config_check import report

    raise typer.Exit(report(file, json=json))


def show(json: Json = False) -> None:
    """The configuration in effect, and where each value comes from. Secrets are not shown."""
    from ..commands.config_show import report

    raise typer.Exit(report(json=json))


EXAMPLES = {
    check: """
tieline config check
tieline config check ./tieline.toml
tieline config check --json | jq -r '.mistakes[].key'
""",
    show: """
tieline config show
tieline config show --json | jq '.values[] | select(.source == "file")'
""",
}


def add(app: typer.Typer) -> None:
    about = "The configuration file: what is wrong with it, and what is in effect."
    group = family(app, "config", about, panel="Commands", examples="tieline config check\ntieline config show")
    for verb, examples in EXAMPLES.items():
        group.command(cls=HelpCommand, epilog=examples)(verb)
