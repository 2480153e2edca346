"""Checks the endpoint of a push subscription: it comes from a client and must not point into the hub's own network."""

import asyncio
import ipaddress
import socket
from urllib.parse import urlsplit

from msgspec import Struct

from ..http.problems import RequestRefused

MAX_ENDPOINT = 2048
RESOLVE_S = 5.0


class PushEndpoint(Struct, frozen=True, kw_only=True):
    scheme: str
    host: str
    port: int
    path: str  # with its query

    @property
    def origin(self) -> str:
        """As the push service knows itself: whom the hub's signature is for."""
        usual = {"https": 443, "http": 80}[self.scheme]
        return f"{self.scheme}://{self.host}" + ("" if self.port == usual else f":{self.port}")

    def at(self, address: str) -> str:
        """Its URL, with the address that was looked at in place of the name: a name may change its mind."""
        shown = f"[{address}]" if ":" in address else address
        return f"{self.scheme}://{shown}:{self.port}{self.path}"


def parse(text: str, *, loopback: bool = False) -> PushEndpoint:
    """Raises Refused. `loopback`: http to this very machine is fine too; for tests."""
    try:
        if not text.isascii() or not text.isprintable() or " " in text or len(text) > MAX_ENDPOINT:
            raise ValueError("not a URL")
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _refused(f"invalid endpoint: {error}") from None
    if parts.scheme not in ("https", "http") or not host or parts.username is not None or parts.password is not None:
        raise _refused("an endpoint is an https address")
    local = is_loopback(host)
    if parts.scheme == "http" and not (loopback and local):
        raise _refused("an endpoint is an https address")
    if (local and not loopback) or (not local and _is_address(host) and not is_public(host)):
        raise _refused("the endpoint is not on the public internet")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return PushEndpoint(
        scheme=parts.scheme, host=host, port=port or {"https": 443, "http": 80}[parts.scheme], path=path
    )


async def resolve(endpoint: PushEndpoint, *, loopback: bool = False) -> str:
    """An address of the endpoint that the hub may reach. Raises Refused when any of its addresses is not public: an
    endpoint that resolves to one tries to make the hub call a private host."""
    if _is_address(endpoint.host):
        addresses = [endpoint.host]
    else:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(RESOLVE_S):
                rows = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError, UnicodeError) as error:
            raise _refused(f"{endpoint.host} is not found: {error}") from None
        addresses = [str(row[4][0]) for row in rows]
    for address in addresses:
        if not (is_public(address) or (loopback and is_loopback(address))):
            raise _refused(f"{endpoint.host} is {address}, which is not on the public internet")
    return addresses[0]


def is_loopback(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost") or (_is_address(host) and _address(host).is_loopback)


def is_public(host: str) -> bool:
    address = _address(host)
    return address.is_global and not address.is_multicast


def _is_address(host: str) -> bool:
    try:
        _address(host)
    except ValueError:
        return False
    return True


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(host.partition("%")[0])
    # An IPv4 address in IPv6 clothes is what it is inside.
    inner = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    return inner or address


def _refused(message: str) -> RequestRefused:
    return RequestRefused("UsageError", message, field="endpoint")
