"""The credentials of the hub that this machine is joined to, and the status of the link."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from .. import paths
from ..errors import UsageError
from .hub_link import LinkStatus


class HubCredentials(Struct, frozen=True, kw_only=True):
    url: str
    key: str
    device: str = ""


def read_credentials(env: Mapping[str, str], *, needed: bool = False) -> HubCredentials | None:
    try:
        return msgspec.json.decode(paths.node_file(env).read_bytes(), type=HubCredentials)
    except FileNotFoundError:
        if needed:
            hint = "Join one: `tieline pair --node` on the hub's machine, then `tieline node join URL` here."
            raise UsageError("this machine is not joined to a hub", field="node", hint=hint) from None
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{paths.node_file(env)} cannot be read: {error}", field="node") from None


def write_credentials(env: Mapping[str, str], joined: HubCredentials) -> None:
    write_private(paths.node_file(env), msgspec.json.encode(joined))


def forget_credentials(env: Mapping[str, str]) -> None:
    paths.node_file(env).unlink(missing_ok=True)


def link_status_file(env: Mapping[str, str]) -> Path:
    return paths.state(env) / "link.json"


def write_link_status(env: Mapping[str, str], situation: LinkStatus | None) -> None:
    """None: it does not run any longer. It is only there to be looked at: a full disk does not end the link."""
    with suppress(OSError):
        if situation is None:
            link_status_file(env).unlink(missing_ok=True)
        else:
            write_private(link_status_file(env), msgspec.json.encode(situation))


def read_link_status(env: Mapping[str, str]) -> LinkStatus:
    try:
        return msgspec.json.decode(link_status_file(env).read_bytes(), type=LinkStatus)
    except (OSError, msgspec.MsgspecError):
        return LinkStatus()


def write_private(path: Path, data: bytes) -> None:
    """Whole or not at all, and for its owner's eyes only."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    part.replace(path)
