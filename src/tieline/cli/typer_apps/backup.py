"""`tieline backup` and `tieline restore`, as Typer declares them."""

from pathlib import Path
from typing import Annotated

import typer

from ..help import HelpCommand
from .options import HUB_PANEL, Json


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it, for example tieline.tar.gz.")],
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")] = False,
    json: Json = False,
) -> None:
    """Write sessions, messages, devices and keys to one file. Safe while the hub runs."""
    from ..commands.backup import create

    raise typer.Exit(create(file, replace=force, json=json))


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `tieline backup` wrote.")], json: Json = False
) -> None:
    """Replace the whole state with a backup. The previous state is kept beside it. Restore only backups that you
    made yourself: the devices in them get access."""
    from ..commands import backup

    raise typer.Exit(backup.restore(file, json=json))


EXAMPLES = {
    backup: """
tieline backup tieline.tar.gz
tieline backup /media/disk/tieline.tar.gz --force
""",
    restore: """
tieline down
tieline restore tieline.tar.gz
""",
}


def add(app: typer.Typer) -> None:
    for verb, examples in EXAMPLES.items():
        app.command(cls=HelpCommand, epilog=examples, rich_help_panel=HUB_PANEL)(verb)
