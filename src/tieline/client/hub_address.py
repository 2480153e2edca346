"""The hub's address: of the hub on this machine, or of the one that the environment names. Light to import."""

import os
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from .. import paths
from .errors import NoHub

CONNECT_S = 2.0


class HubAddress(Struct, frozen=True, kw_only=True):
    url: str
    token: str = ""
    socket: str = ""  # the owner's way in, where it runs on this machine, for this user
    node: str = ""  # this machine's own, where the hub runs one
    config: str | None = None  # the file that it was configured by, where that is known


class RunningHub(Struct, frozen=True):
    """What a hub writes down about itself while it runs."""

    url: str
    pid: int
    version: str = ""
    node: str = ""
    config: str | None = None  # the file that it was configured by; empty: none
    socket: str = ""  # the owner's way in
    bus: str = ""  # named at its start instead of the configured one, without a login


def running_hub(env: Mapping[str, str]) -> RunningHub | None:
    """The hub that runs on this machine, from the file that it writes, as long as its process lives; else None."""
    try:
        hub = msgspec.json.decode(paths.running_file(env).read_bytes(), type=RunningHub)
        os.kill(hub.pid, 0)
    except PermissionError:
        return None  # the file or the process belongs to another user
    except (OSError, msgspec.MsgspecError, OverflowError):
        return None
    return hub


def local_hub_address(env: Mapping[str, str]) -> HubAddress | None:
    """The address of this machine's hub, by its socket; None when no hub runs."""
    hub = running_hub(env)
    if hub is None or not hub.socket:
        return None
    return HubAddress(url=hub.url, socket=hub.socket, node=hub.node, config=hub.config)


def is_listening(path: str) -> bool:
    """Whether a hub listens on that socket: what was written down may be of one that died without a word."""
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_S)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def find_hub(env: Mapping[str, str]) -> HubAddress:
    """The hub to talk to. What is named explicitly comes first. Raises NoHub."""
    if url := env.get("TIELINE_HUB"):
        return HubAddress(url=url, token=env.get("TIELINE_TOKEN", ""))
    if address := local_hub_address(env):
        return address
    raise NoHub
