"""The verbs about the hub of this machine: up, down, status, hub, pair."""

from typing import Annotated, NoReturn

import typer

from ..help import HelpCommand
from .options import HUB_PANEL, Json

Foreground = Annotated[bool, typer.Option("--foreground", help="Stay in the foreground and log to the terminal.")]
Host = Annotated[
    str, typer.Option(metavar="ADDRESS", help="The address to listen on. Default: 127.0.0.1, this machine only.")
]
Port = Annotated[
    int | None, typer.Option(metavar="N", help="The port to listen on. Default: 8137; 0 picks a free one.")
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Listen beyond this machine without TLS, on a network you trust.")
]


Bus = Annotated[str, typer.Option(metavar="URL", help="Store everything on this bus instead of `bus` in tieline.toml.")]
Nats = Annotated[
    bool, typer.Option("--nats", help="Store everything on a nats-server of its own, which ends with the hub.")
]


def up(
    foreground: Foreground = False,
    host: Host = "",
    port: Port = None,
    insecure: Insecure = False,
    bus: Bus = "",
    nats: Nats = False,
    json: Json = False,
) -> None:
    """Start the hub, with this machine's agents, and print its address. Ends with `tieline down`."""
    _start(True, foreground, host, port, insecure, bus, nats, json)


def hub(
    foreground: Foreground = False,
    host: Host = "",
    port: Port = None,
    insecure: Insecure = False,
    bus: Bus = "",
    nats: Nats = False,
    json: Json = False,
) -> None:
    """Start a hub alone: other machines join it, this one runs no agents."""
    _start(False, foreground, host, port, insecure, bus, nats, json)


def _start(
    node: bool, foreground: bool, host: str, port: int | None, insecure: bool, bus: str, nats: bool, json: bool
) -> NoReturn:
    from ...bootstrap.process_lock import StartOptions
    from ..commands.daemon_control import start

    order = StartOptions(node=node, host=host, port=port, insecure=insecure, bus=bus, nats=nats)
    raise typer.Exit(start(order, foreground=foreground, json=json))


def down(json: Json = False) -> None:
    """Stop what `tieline up`, `tieline hub` or `tieline node run` started here, and all its agents.

    Running turns are interrupted. Prompts that wait run after the next start."""
    from ..commands.daemon_control import stop

    raise typer.Exit(stop(json=json))


def status(
    harnesses: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="HARNESS", help="Show instead what is installed in these harnesses.", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show what runs here: the hub, its machines and sessions, and what waits for you. Exit status 1 when
    nothing runs."""
    if harnesses:
        from ..commands.harnesses import status

        raise typer.Exit(status(harnesses, json=json))
    from ..commands.daemon_control import show

    raise typer.Exit(show(json=json))


def pair(
    node: Annotated[bool, typer.Option("--node", help="For another machine: `tieline node join`.")] = False,
    page: Annotated[bool, typer.Option("--page", help="For a browser (the default).")] = False,
    client: Annotated[bool, typer.Option("--client", help="For a program.")] = False,
    mesh: Annotated[bool, typer.Option("--mesh", help="For a harness elsewhere: only the MCP server.")] = False,
    name: Annotated[
        str, typer.Option(metavar="TEXT", help="Its name in the list of devices. Default: its own name.")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help='`{"url", "secret"}` on stdout, for a program.')] = False,
) -> None:
    """Pair one more device: prints a link and a QR code that work once, within ten minutes."""
    from ..commands.pairing import pair

    raise typer.Exit(pair(node=node, page=page, client=client, mesh=mesh, name=name, json=json))


EXAMPLES = {
    up: """
tieline up
tieline up --port 0
tieline up --foreground
tieline up --bus nats://127.0.0.1:4222
tieline up --json | jq -r .login         the link that signs a browser in
tieline up --nats                        on a nats-server of its own

For phones: `tieline phone`.
""",
    hub: """
tieline hub
tieline hub --host 0.0.0.0               with TLS, see below

TLS: hub.tls_certificate and hub.tls_key in tieline.toml name its files.
""",
    down: """
tieline down
""",
    status: """
tieline status
tieline status --json | jq .asks
tieline status claude-code codex         what is installed in these harnesses
""",
    pair: """
tieline pair                             a browser: a phone, another computer
tieline pair --node                      another machine with agents
tieline pair --client --name backup      a program
tieline pair --client --json             its secret for POST /api/v1/pair
tieline pair --mesh --json               for a harness on another machine
""",
}


def add(app: typer.Typer) -> None:
    for verb, examples in EXAMPLES.items():
        app.command(cls=HelpCommand, epilog=examples, rich_help_panel=HUB_PANEL)(verb)
