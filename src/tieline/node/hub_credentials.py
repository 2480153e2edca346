"""What this machine remembers of the hub that it is joined to, and how the link to it is just now."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from .. import paths
from ..errors import UsageError
from .hub_link import Situation


class Joined(Struct, frozen=True, kw_only=True):
    url: str
    key: str
    device: str = ""


def read_joined(env: Mapping[str, str], *, needed: bool = False) -> Joined | None:
    try:
        return msgspec.json.decode(paths.node_file(env).read_bytes(), type=Joined)
    except FileNotFoundError:
        if needed:
            hint = "Join one: `tieline pair --node` on the hub's machine, then `tieline node join URL` here."
            raise UsageError("this machine is not joined to a hub", field="node", hint=hint) from None
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{paths.node_file(env)} cannot be read: {error}", field="node") from None


def write_joined(env: Mapping[str, str], joined: Joined) -> None:
    write_private(paths.node_file(env), msgspec.json.encode(joined))


def forget_joined(env: Mapping[str, str]) -> None:
    paths.node_file(env).unlink(missing_ok=True)


def situation_file(env: Mapping[str, str]) -> Path:
    return paths.state(env) / "link.json"


def write_situation(env: Mapping[str, str], situation: Situation | None) -> None:
    """None: it does not run any longer. It is only there to be looked at: a full disk does not end the link."""
    with suppress(OSError):
        if situation is None:
            situation_file(env).unlink(missing_ok=True)
        else:
            write_private(situation_file(env), msgspec.json.encode(situation))


def read_situation(env: Mapping[str, str]) -> Situation:
    try:
        return msgspec.json.decode(situation_file(env).read_bytes(), type=Situation)
    except (OSError, msgspec.MsgspecError):
        return Situation()


def write_private(path: Path, data: bytes) -> None:
    """Whole or not at all, and for its owner's eyes only."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    part.replace(path)
