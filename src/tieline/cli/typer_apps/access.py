"""The verbs about who may talk to the hub, and who did what: devices, audit."""

from typing import Annotated

import typer

from ..help import HelpCommand
from .hub import PANEL

Json = Annotated[bool, typer.Option("--json", help="JSON on stdout.")]


def audit(
    kind: Annotated[
        str,
        typer.Option(metavar="KIND", help="Only these: sign-in, pairing, revoke, decision, policy, refusal or code."),
    ] = "",
    since: Annotated[
        str, typer.Option(metavar="WHEN", help="Not older: 30m, 12h, 7d, or a date such as 2026-11-01.")
    ] = "",
    limit: Annotated[int, typer.Option(metavar="N", help="How many lines at most.", min=1)] = 100,
    json: Json = False,
) -> None:
    """Who signed in, paired, decided, changed a policy or was refused. The newest first; kept for 90 days."""
    from ..commands.audit import show

    raise typer.Exit(show(kind=kind, since=since, limit=limit, json=json))


def devices(
    revoke: Annotated[
        str, typer.Option(metavar="ID", help="Shut this one out, at once. Its id, or enough of it.")
    ] = "",
    let_in: Annotated[
        bool | None,
        typer.Option("--let-in/--only", help="With --revoke: also whom it let in, or only it.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Who may talk to the hub, and who let them in. Devices that are not used for 90 days expire."""
    from ..commands.devices import revoke as shut_out
    from ..commands.devices import show

    raise typer.Exit(shut_out(revoke, let_in=let_in) if revoke else show(json=json))


EXAMPLES = {
    devices: """
tieline devices
tieline devices --revoke 9be41d
tieline devices --revoke 9be41d --let-in   and all that it let in
""",
    audit: """
tieline audit
tieline audit --kind decision --since 7d
tieline audit --json | jq '.[] | select(.what == "refusal")'
""",
}


def add(app: typer.Typer) -> None:
    for verb, examples in EXAMPLES.items():
        app.command(cls=HelpCommand, epilog=examples, rich_help_panel=PANEL)(verb)
