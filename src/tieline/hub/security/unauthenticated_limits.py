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
TOGETHER = 1024
STRANGER_S = 10.0
"""To say what one wants, or who one is; and how long a connection is kept for another request."""
FRAME = 4 * 1024
"""Bytes of a WebSocket frame before signing in."""
BEFORE = 2 * FRAME
"""Bytes of all frames before it: who one is, and the first thing that one wants."""
GRACE_S = 1.0
"""How old a connection is before it makes room for another one: the time that a greeting takes."""


class UnauthenticatedConnection(Protocol):
    """Whoever serves a connection says whether something is being done for it."""

    @property
    def at_work(self) -> bool: ...


class _Tracked(Struct):
    place: str
    since: float
    server: UnauthenticatedConnection


class UnauthenticatedLimits:
    def __init__(self, per_address: int = PER_ADDRESS, together: int = TOGETHER) -> None:
        self._per_address = per_address
        self._together = together
        self._all: dict[asyncio.Transport, _Tracked] = {}  # the oldest first
        self._by_place: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, transport: asyncio.Transport) -> bool:
        return transport in self._all

    def came(self, transport: asyncio.Transport, server: UnauthenticatedConnection) -> bool:
        """Whether there is room for it. One that changes its protocol comes again, and stays what it was."""
        if known := self._all.get(transport):
            known.server = server
            return True
        place = _place(transport)
        if not place:
            return True
        if self._by_place.get(place, 0) >= self._per_address and not self._make_room(place):
            return False
        if len(self._all) >= self._together and not self._make_room(""):
            return False
        self._all[transport] = _Tracked(place, time.monotonic(), server)
        self._by_place[place] = self._by_place.get(place, 0) + 1
        return True

    def gone(self, transport: asyncio.Transport) -> None:
        """It is closed, or no stranger's any more."""
        one = self._all.pop(transport, None)
        if one is None:
            return
        left = self._by_place[one.place] - 1
        if left:
            self._by_place[one.place] = left
        else:
            del self._by_place[one.place]

    def _make_room(self, place: str) -> bool:
        latest = time.monotonic() - GRACE_S
        for transport, one in self._all.items():
            if one.since > latest:
                return False  # so are all that follow
            if place in ("", one.place) and not one.server.at_work:
                self.gone(transport)
                transport.abort()
                return True
        return False


def _place(transport: asyncio.Transport) -> str:
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
