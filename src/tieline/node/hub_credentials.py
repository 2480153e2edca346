"""The credentials of the hub that this machine is joined to, and the status of the link."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from .. import paths
from ..errors import UsageError
from ..safe_file_write import replace_private_file
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
    replace_private_file(paths.node_file(env), msgspec.json.encode(joined))


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
            replace_private_file(link_status_file(env), msgspec.json.encode(situation))


def read_link_status(env: Mapping[str, str]) -> LinkStatus:
    try:
        return msgspec.json.decode(link_status_file(env).read_bytes(), type=LinkStatus)
    except (OSError, msgspec.MsgspecError):
        return LinkStatus()
