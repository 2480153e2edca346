"""The verbs about the state as a whole: backup, restore."""

from pathlib import Path
from typing import Annotated

import typer

from ..help import HelpCommand

PANEL = "The hub"

Json = Annotated[bool, typer.Option("--json", help="JSON on stdout.")]


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it, for example tieline.tar.gz.")],
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")] = False,
    json: Json = False,
) -> None:
    """Write sessions, messages, devices and keys to one file. Safe while the hub runs."""
    import msgspec

    from ... import config as configuration
    from ...bootstrap.backup import create

    config = configuration.load()
    manifest = create(config, file, replace=force)
    if json:
        print(msgspec.json.format(msgspec.json.encode(manifest), indent=2).decode())
        return
    size = sum(each.size for each in manifest.files)
    print(f"Wrote {file}: {len(manifest.files)} files, {size / 1e6:.1f} MB before compression.")
    print("It holds keys, and all that was said: keep it as you keep a password.")
    if manifest.bus == "elsewhere":
        print("The bus is not a file here: sessions and messages are not in it. Back the NATS server up by itself.")
    if config.source:
        print(f"The configuration is not in it: {config.source}")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `tieline backup` wrote.")], json: Json = False
) -> None:
    """Replace the whole state by a backup. What was there is kept beside it. Only of a backup that you made yourself:
    the devices in it are let in."""
    import msgspec

    from ... import config as configuration
    from ... import paths
    from ...bootstrap.backup import bus_path
    from ...bootstrap.backup import restore as put_back

    config = configuration.load()
    restored = put_back(config.environ, file)
    if json:
        print(msgspec.json.format(msgspec.json.encode(restored), indent=2).decode())
        return
    print(f"Restored {len(restored.manifest.files)} files to {restored.state}.")
    if restored.former:
        print(f"What was there before is in {restored.former}. Remove it when you need it no more.")
    if restored.manifest.bus == "elsewhere":
        print("Sessions and messages are not in it: they were on a NATS server.")
    elif bus_path(config) != (own := paths.bus_file(config.environ)):
        print(f"The configuration names another bus than {own}: take `bus` out of it, or move the file there.")
    print("`tieline up` starts it.")


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
        app.command(cls=HelpCommand, epilog=examples, rich_help_panel=PANEL)(verb)
