"""Limits for connections that have not authenticated: number per address, bytes, and time.

A connection counts until a request or a frame on it brings a key. At the limit of an address, an idle connection makes
room for the next: silent connections lock nobody out.
"""

import asyncio
import ipaddress
import socket
import time
from typing import Protocol

from msgspec import Struct

PER_ADDRESS = 64
TOTAL = 1024
UNAUTHENTICATED_S = 10.0
"""Time to send a request or to authenticate; also the keep-alive of such connections."""
MAX_FRAME = 4 * 1024
"""Bytes of a WebSocket frame before signing in."""
MAX_BYTES = 2 * MAX_FRAME
"""Bytes of all frames before authentication."""
GRACE_S = 1.0
"""Minimum age of a connection that is closed to make room."""


class UnauthenticatedConnection(Protocol):
    """The protocol of a connection: `busy` while it handles a request."""

    @property
    def busy(self) -> bool: ...


class _Tracked(Struct):
    address: str
    since: float
    connection: UnauthenticatedConnection


class UnauthenticatedLimits:
    def __init__(self, per_address: int = PER_ADDRESS, together: int = TOTAL) -> None:
        self._per_address = per_address
        self._total = together
        self._connections: dict[asyncio.Transport, _Tracked] = {}  # the oldest first
        self._by_address: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def __contains__(self, transport: asyncio.Transport) -> bool:
        return transport in self._connections

    def add(self, transport: asyncio.Transport, server: UnauthenticatedConnection) -> bool:
        """Whether there is room for the connection. After an upgrade the same transport is added again."""
        if known := self._connections.get(transport):
            known.connection = server
            return True
        address = _address_of(transport)
        if not address:
            return True
        if self._by_address.get(address, 0) >= self._per_address and not self._make_room(address):
            return False
        if len(self._connections) >= self._total and not self._make_room(""):
            return False
        self._connections[transport] = _Tracked(address, time.monotonic(), server)
        self._by_address[address] = self._by_address.get(address, 0) + 1
        return True

    def discard(self, transport: asyncio.Transport) -> None:
        """The connection is closed, or authenticated."""
        tracked = self._connections.pop(transport, None)
        if tracked is None:
            return
        left = self._by_address[tracked.address] - 1
        if left:
            self._by_address[tracked.address] = left
        else:
            del self._by_address[tracked.address]

    def _make_room(self, address: str) -> bool:
        latest = time.monotonic() - GRACE_S
        for transport, tracked in self._connections.items():
            if tracked.since > latest:
                return False  # so are all that follow
            if address in ("", tracked.address) and not tracked.connection.busy:
                self.discard(transport)
                transport.abort()
                return True
        return False


def _address_of(transport: asyncio.Transport) -> str:
    """Whom a connection comes from: an address, or the network that one subscriber has of IPv6. Empty for a socket in
    the file system, which only its owner can open."""
    bound = transport.get_extra_info("socket")
    if bound is not None and bound.family == getattr(socket, "AF_UNIX", None):
        return ""
    peer = transport.get_extra_info("peername")
    host = str(peer[0]).partition("%")[0] if peer else "unknown"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host
