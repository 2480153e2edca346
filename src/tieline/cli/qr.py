"""A link for another device: printed, and as a QR code where it can be seen."""

import sys

from .. import environment


def show_link(link: str, address: str) -> None:
    """The hub's address, and the link that lets a browser in once."""
    print(f"Tieline is at {address}")
    print(f"Open this once, within ten minutes, to log a browser in:\n  {link}")
    show_code(link)
    sys.stdout.flush()


def show_code(text: str) -> None:
    """Only on a terminal: elsewhere it is noise."""
    if not sys.stdout.isatty() or environment.variable("TERM") == "dumb":
        return
    import segno

    print()
    segno.make(text, error="l", micro=False).terminal(out=sys.stdout, compact=True, border=2)
