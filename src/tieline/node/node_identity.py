"""The identity of a node: its id is made at first start and kept in the state directory; sessions belong to it."""

import os
import platform
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from .. import paths
from ..ids import new_id
from ..version import __version__


class NodeIdentity(Struct, frozen=True, kw_only=True):
    id: str
    name: str = ""
    platform: str = ""
    version: str = __version__


def identify(env: Mapping[str, str]) -> NodeIdentity:
    return NodeIdentity(
        id=kept_id(paths.state(env) / "node-id"),
        name=socket.gethostname().partition(".")[0] or "this machine",
        platform=f"{platform.system()} {platform.machine()}".strip().lower(),
    )


def kept_id(path: Path) -> str:
    """The id that a file holds; made when the file is missing. Two processes that start at once agree on one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    own = path.with_name(f".{path.name}.{os.getpid()}.{new_id()}")
    try:
        if stored_id := _read(path):
            return stored_id
        own.touch(mode=0o600)
        own.write_text(new_id() + "\n")
        if path.exists():  # empty, by a crash: a link would not replace it
            own.replace(path)
        else:
            with suppress(
                FileExistsError
            ):  # unlike a rename, a link does not replace the file of a process that was faster
                os.link(own, path)
        return _read(path)
    finally:
        own.unlink(missing_ok=True)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""
