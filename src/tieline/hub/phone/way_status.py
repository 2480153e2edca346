"""What a way reports while it runs: the address at which the hub is reached now, or why it is not."""

from collections.abc import Callable

from msgspec import Struct


class WayStatus(Struct, frozen=True, kw_only=True):
    urls: tuple[str, ...] = ()  # the one for phones first; none: it is not reached now
    problem: str = ""
    hint: str = ""
    authority: bytes = b""  # the certificate that a phone has to trust, DER


Report = Callable[[WayStatus], None]
