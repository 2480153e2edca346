"""How a phone reaches the hub: the ways that its machine has, and the one that is set up."""

from typing import Literal

from msgspec import Struct

from .request_bodies import Body

PhoneWayName = Literal["configured", "tailscale", "lan", "mkcert", "cloudflare", "ngrok", "ssh"]
"""In the order in which they are recommended."""


class PhoneWay(Struct, frozen=True, kw_only=True):
    """A way for a phone to reach the hub, and what it means for safety."""

    name: PhoneWayName
    title: str
    available: bool
    problem: str = ""  # why it is not available, and what to do
    address: str = ""  # where the hub would be reached, as far as that is known before
    who_reaches: str
    who_reads: str
    push: bool = True  # Web Push works
    lasting: bool = True  # the address stays the same
    trust: bool = False  # the phone has to trust a certificate authority first


class PhoneSetup(Body, frozen=True, kw_only=True):
    way: PhoneWayName
    address: str = ""  # of this machine in its network, for `lan` and `mkcert`; empty: the hub finds it
    port: int = 0  # to listen on there; 0: the hub's own where it is free


class PhoneCheck(Struct, frozen=True, kw_only=True):
    """What was found when the hub called itself by the address that phones use."""

    ok: bool
    found: str


class PhoneStatus(Struct, frozen=True, kw_only=True):
    """The way that is set up, if one is."""

    state: Literal["off", "starting", "on", "failed"] = "off"
    way: PhoneWayName | None = None
    url: str = ""  # where a phone reaches the hub
    other_urls: tuple[str, ...] = ()
    problem: str = ""  # why it does not work now; the hub keeps trying
    hint: str = ""
    trust_url: str = ""  # where a phone gets the authority's certificate; empty: closed, or not needed
    trust_until: float = 0.0  # when that page closes
    trust_qr: str = ""  # the same address as a picture, for the page
    fingerprint: str = ""  # SHA-256 of the authority's certificate, to be compared on the phone
    command: str = ""  # to be typed on the other computer, with `ssh`
    check: PhoneCheck | None = None
