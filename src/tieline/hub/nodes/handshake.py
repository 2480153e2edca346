"""The handshake of a node link: checks the node's hello and finds which capabilities both sides lack. Pure."""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from ...protocol import OLDEST, PROTOCOL
from ...protocol import node_link as p
from ...protocol.views import DeviceView, NodeView

CLOSE_BAD_FRAME = 4400
CLOSE_REVOKED = 4401
CLOSE_REFUSED = 4403
CLOSE_REPLACED = 4409
CLOSE_TOO_OLD = 4426
CLOSE_TRY_AGAIN = 1013
CLOSE_FAILED = 1011

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_LIMITS = 32


class LinkClosing(Exception):
    """Closes the link, with a code and a reason."""

    def __init__(self, close: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.close = close
        self.refused = p.LinkRefused(code=code, message=message, hint=hint)


def negotiate(hello: p.Hello, device: DeviceView, devices: Sequence[DeviceView], local: str) -> tuple[str, ...]:
    """Capabilities that only one side has. Raises LinkClosing when the node cannot be linked."""
    if not _NAME.fullmatch(hello.node) or not _NAME.fullmatch(hello.epoch):
        raise LinkClosing(CLOSE_BAD_FRAME, "BadFrame", "node and epoch are letters, digits, - and _")
    if hello.node != device.node or hello.node == local:
        hint = "Join again: `tieline node join`."
        raise LinkClosing(CLOSE_REFUSED, "Forbidden", "this key belongs to another node", hint)
    others = [other for other in devices if other.node == hello.node and other.id != device.id]
    if any(other.created_at < device.created_at for other in others):
        hint = "Revoke the older device first, if it is the same machine."
        raise LinkClosing(CLOSE_REFUSED, "Forbidden", "this node is known by another device's key", hint)
    spoken = min(hello.protocol, PROTOCOL)
    if spoken < OLDEST:
        problem = f"this node speaks protocol {hello.protocol}, the hub {OLDEST} to {PROTOCOL}"
        raise LinkClosing(CLOSE_TOO_OLD, "NodeTooOld", problem, "Update Tieline on the node.")
    if spoken < hello.oldest:
        problem = f"this node speaks protocol {hello.oldest} to {hello.protocol}, the hub only up to {PROTOCOL}"
        raise LinkClosing(CLOSE_TOO_OLD, "HubTooOld", problem, "Update Tieline on the hub.")
    return tuple(sorted(set(p.CAPABILITIES) ^ set(hello.capabilities)))[:MAX_LIMITS]


def node_view(hello: p.Hello, device: DeviceView, limits: tuple[str, ...], before: NodeView | None) -> NodeView:
    """The node as people see it, by the name it was paired with; its agents as they were, until it says anew."""
    return replace(
        before or NodeView(id=hello.node),
        name=device.name or hello.name[:200],
        version=hello.version[:100],
        platform=hello.platform[:100],
        limits=limits,
        local=False,
    )
