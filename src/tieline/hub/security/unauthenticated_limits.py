"""Connections whose other side has not said who it is: few of an address, small, and not for long.

A connection is a stranger's until a request or a frame on it brought a key. Where an address has as many as it may, one
that waits for nothing makes room for the next; so whoever opens them and is silent keeps nobody out.
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
"""To say what one wants, or who one is; and how long a connection is kept for another request."""
MAX_FRAME = 4 * 1024
"""Bytes of a WebSocket frame before signing in."""
MAX_BYTES = 2 * MAX_FRAME
"""Bytes of all frames before it: who one is, and the first thing that one wants."""
GRACE_S = 1.0
"""How old a connection is before it makes room for another one: the time that a greeting takes."""


class UnauthenticatedConnection(Protocol):
    """Whoever serves a connection says whether something is being done for it."""

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
        """Whether there is room for it. One that changes its protocol comes again, and stays what it was."""
        if known := self._connections.get(transport):
            known.connection = server
            return True
        place = _address_of(transport)
        if not place:
            return True
        if self._by_address.get(place, 0) >= self._per_address and not self._make_room(place):
            return False
        if len(self._connections) >= self._total and not self._make_room(""):
            return False
        self._connections[transport] = _Tracked(place, time.monotonic(), server)
        self._by_address[place] = self._by_address.get(place, 0) + 1
        return True

    def discard(self, transport: asyncio.Transport) -> None:
        """It is closed, or no stranger's any more."""
        one = self._connections.pop(transport, None)
        if one is None:
            return
        left = self._by_address[one.address] - 1
        if left:
            self._by_address[one.address] = left
        else:
            del self._by_address[one.address]

    def _make_room(self, place: str) -> bool:
        latest = time.monotonic() - GRACE_S
        for transport, one in self._connections.items():
            if one.since > latest:
                return False  # so are all that follow
            if place in ("", one.address) and not one.connection.busy:
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
