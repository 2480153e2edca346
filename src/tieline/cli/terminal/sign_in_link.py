"""A link for another device: printed, and as a QR code where it can be seen."""

import sys

from ... import environment

HERE_ONLY = "Only this machine can reach that address. `tieline phone` lets a phone in."


def show_link(link: str, address: str, *, phone: str = "") -> None:
    """The hub's address, and the link that lets a browser in once. `phone`: the way that phones come by."""
    print(f"Tieline is at {address}")
    print(f"Open this once, within ten minutes, to sign a browser in:\n  {link}")
    if phone:
        print(f"Phones come by the way {phone}: `tieline phone` prints their code.")
    else:
        show_code(link)
    sys.stdout.flush()


def show_code(link: str) -> None:
    """Only on a terminal: elsewhere it is noise. No code where no phone could follow it."""
    if not sys.stdout.isatty() or environment.variable("TERM") == "dumb":
        return
    from urllib.parse import urlsplit

    from ...hub.security.origins import is_loopback

    if is_loopback(urlsplit(link).hostname or ""):
        print(HERE_ONLY)
        return
    import segno

    print()
    segno.make(link, error="l", micro=False).terminal(out=sys.stdout, compact=True, border=2)
