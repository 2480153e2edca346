"""What the hub knows of a request or an upgrade. The security middleware fills it in; all after it read it."""

from collections.abc import MutableMapping
from typing import Any

from msgspec import Struct, field

from ...protocol.views import DeviceView
from ..security.peer_credentials import LocalPeer


class RequestContext(Struct, kw_only=True):
    id: str = ""  # in log lines and problems
    method: str = "GET"  # WEBSOCKET for an upgrade
    path: str = "/"
    address: str = "unknown"  # of the caller
    peer: LocalPeer | None = None  # the process at the other end of the owner's socket
    headers: dict[str, str] = field(default_factory=dict[str, str])  # those that the middleware reads
    body: bytes = b""
    device: DeviceView | None = None
    session: str = ""  # that it speaks for, when an agent started it
    command_id: str = ""  # of what is to be done once, when it has an Idempotency-Key
    problem: str = ""  # why it was refused
    hsts: bool = False  # it came by TLS, to a name that shall never be spoken to without
    foreign_origin: str = ""  # the configured origin that it comes from, if it is not our own

    @property
    def via(self) -> str:
        """Where it comes from, for the audit log."""
        return self.peer.via if self.peer is not None else self.address


def context_of(scope: MutableMapping[str, Any]) -> RequestContext:
    return scope["state"]["context"]
