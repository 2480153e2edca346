"""The addresses of this machine in its networks, as the routing table tells them. Nothing is sent."""

import ipaddress
import socket
from contextlib import suppress

from .local_authority import PRIVATE_NETWORKS, IpAddress

ROUTES = ("198.51.100.1", "192.168.255.254", "10.255.255.254", "172.31.255.254")
"""Where a packet would go: anywhere (the default route comes first), and to private networks behind other routes."""


def lan_addresses() -> list[IpAddress]:
    """The addresses that a phone may reach, the most likely first. A VPN often takes the default route, and few phones
    are in it: addresses of private networks come before others."""
    addresses: dict[IpAddress, None] = {}
    for target in ROUTES:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
            probe.connect((target, 9))
            addresses[ipaddress.ip_address(probe.getsockname()[0])] = None
    with suppress(OSError, UnicodeError):
        for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET, socket.SOCK_STREAM):
            addresses[ipaddress.ip_address(entry[4][0])] = None
    usable = [
        address for address in addresses if not (address.is_loopback or address.is_unspecified or address.is_link_local)
    ]
    return sorted(usable, key=lambda address: not any(address in network for network in PRIVATE_NETWORKS))


def is_own(address: IpAddress) -> bool:
    """Whether this machine has the address now."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
        return True
