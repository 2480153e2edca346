"""What the hub has found out about a request or an upgrade: who asks, from where, and what became of it.

The security middleware fills it in, and all after it read it here. What the caller itself sent (query, headers, body)
routes read from their `Request`.
"""

from collections.abc import MutableMapping
from typing import Any

from msgspec import Struct, field

from ...protocol.views import DeviceView
from ..security.local_peer import LocalPeer
from .problems import RequestRefused


class RequestContext(Struct, kw_only=True):
    id: str = ""  # in log lines and problems
    method: str = "GET"  # WEBSOCKET for an upgrade
    path: str = "/"  # as it is authorized and logged
    address: str = "unknown"  # of the caller
    peer: LocalPeer | None = None  # the process at the other end of the owner's socket
    checked_headers: dict[str, str] = field(default_factory=dict[str, str])  # for the middleware, under its own names
    body: bytes = b""  # on its way from the middleware to the Request
    device: DeviceView | None = None
    session: str = ""  # that it speaks for, when an agent started it
    command_id: str = ""  # of what is to be done once, when it has an Idempotency-Key
    problem: str = ""  # why it was refused
    hsts: bool = False  # it came by TLS, to a name that shall never be spoken to without
    foreign_origin: str = ""  # the configured origin that it comes from, if it is not our own

    @property
    def known_device(self) -> DeviceView:
        """The calling device, where a route is not public."""
        if self.device is None:
            raise RequestRefused("Unauthenticated", "missing or invalid credentials")
        return self.device

    @property
    def via(self) -> str:
        """Where it comes from, for the audit log."""
        return self.peer.via if self.peer is not None else self.address


def context_of(scope: MutableMapping[str, Any]) -> RequestContext:
    return scope["state"]["context"]
