"""`tieline phone`, as Typer declares it."""

from typing import Annotated

import typer

from ...errors import UsageError
from ..help import HelpCommand
from .options import HUB_PANEL, Json


def phone(
    action: Annotated[str, typer.Argument(metavar="[off]", help="`off` ends it.", show_default=False)] = "",
    way: Annotated[
        str,
        typer.Option(metavar="NAME", help="lan, tailscale, mkcert, cloudflare, ngrok or ssh. Default: the best."),
    ] = "",
    ways: Annotated[bool, typer.Option("--list", help="List the ways, and what each means for safety.")] = False,
    address: Annotated[
        str, typer.Option(metavar="IP", help="With lan and mkcert: this machine's address that phones reach.")
    ] = "",
    port: Annotated[
        int, typer.Option(metavar="N", help="With lan and mkcert. Default: the hub's.", show_default=False)
    ] = 0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Let a phone reach the hub: sets up a way, checks it, and prints the QR code that signs the phone in.

    It stays until `tieline phone off`, also when the hub is started again."""
    from ..commands.phone import set_up, show_ways, turn_off

    if action not in ("", "off"):
        raise UsageError(f"no action {action!r}", field="action", hint="`tieline phone off` ends it.")
    if action == "off":
        raise typer.Exit(turn_off())
    if ways:
        raise typer.Exit(show_ways(json=json))
    raise typer.Exit(set_up(way=way, address=address, port=port, yes=yes, json=json))


EXAMPLES = """
tieline phone                            the best way that this machine has
tieline phone --list                     all ways, and who can read along
tieline phone --way lan                  the local network, by TLS
tieline phone --way tailscale --yes
tieline phone --yes --json | jq -r .link
tieline phone off
"""


def add(app: typer.Typer) -> None:
    app.command(cls=HelpCommand, epilog=EXAMPLES, rich_help_panel=HUB_PANEL)(phone)
