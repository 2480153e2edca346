"""A link for another device: printed, and as a QR code where it can be seen."""

import sys

from ... import environment

HERE_ONLY = """\
Only this machine can reach that address. For a phone: `tieline down`, then
`tieline up --host 0.0.0.0` with TLS (hub.tls_certificate, hub.tls_key), or
with --insecure on a network you trust."""


def show_link(link: str, address: str) -> None:
    """The hub's address, and the link that lets a browser in once."""
    print(f"Tieline is at {address}")
    print(f"Open this once, within ten minutes, to sign a browser in:\n  {link}")
    show_code(link)
    sys.stdout.flush()


def show_code(link: str) -> None:
    """Only on a terminal: elsewhere it is noise."""
    if not sys.stdout.isatty() or environment.variable("TERM") == "dumb":
        return
    from urllib.parse import urlsplit

    import segno

    from ...hub.security.origins import is_loopback

    print()
    segno.make(link, error="l", micro=False).terminal(out=sys.stdout, compact=True, border=2)
    if is_loopback(urlsplit(link).hostname or ""):
        print(HERE_ONLY)
