"""`tieline backup` and `tieline restore`: the whole state as one file."""

from pathlib import Path

from ... import config as configuration
from ... import paths
from ...bootstrap.backup import bus_path
from ...bootstrap.backup import create as create_backup
from ...bootstrap.backup import restore as restore_backup
from ..terminal.formatting import print_json


def create(file: Path, *, replace: bool, json: bool) -> int:
    config = configuration.load()
    manifest = create_backup(config, file, replace=replace)
    if json:
        print_json(manifest)
        return 0
    size = sum(entry.size for entry in manifest.files)
    print(f"Wrote {file}: {len(manifest.files)} files, {size / 1e6:.1f} MB before compression.")
    print("It contains keys and every conversation: keep it as safe as a password.")
    if manifest.bus == "elsewhere":
        print("The bus is not a file here: sessions and messages are not in it. Back up the NATS server separately.")
    if config.source:
        print(f"The configuration is not in it: {config.source}")
    return 0


def restore(file: Path, *, json: bool) -> int:
    config = configuration.load()
    restored = restore_backup(config.environ, file)
    if json:
        print_json(restored)
        return 0
    print(f"Restored {len(restored.manifest.files)} files to {restored.state}.")
    if restored.former:
        print(f"The previous state is in {restored.former}. Remove it when you no longer need it.")
    if restored.manifest.bus == "elsewhere":
        print("Sessions and messages are not in it: they were on a NATS server.")
    elif bus_path(config) != (default := paths.bus_file(config.environ)):
        print(f"The configuration names another bus than {default}: remove `bus` from it, or move the file there.")
    print("`tieline up` starts the hub.")
    return 0
