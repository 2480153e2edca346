"""`tieline install|uninstall|harnesses|doctor`, as Typer declares them."""

from enum import StrEnum
from typing import Annotated

import typer

from ..help import HelpCommand
from .options import HARNESSES_PANEL, Json

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="HARNESS", help="Which harnesses. Default: all that are found here.", show_default=False),
]
Project = Annotated[str, typer.Option(metavar="DIR", help="In this project's files only.")]
Global = Annotated[bool, typer.Option("--global", help="In your own configuration (the default).")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, line by line; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")]


class TransportChoice(StrEnum):
    STDIO = "stdio"
    HTTP = "http"


def install(
    names: Names = None,
    project: Project = "",
    for_all: Global = False,
    transport: Annotated[
        TransportChoice,
        typer.Option(help="How the harness reaches the hub: a program that it starts, or the hub's address."),
    ] = TransportChoice.STDIO,
    url: Annotated[str, typer.Option(metavar="URL", help="http: the hub's address. Default: this machine's.")] = "",
    hooks: Annotated[bool, typer.Option("--hooks", help="Codex: also hooks, which you must approve in it.")] = False,
    attach: Annotated[
        bool,
        typer.Option("--attach", help="Also show your terminals' sessions, and answer and prompt them from here."),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Add Tieline to your harnesses, so that their agents find each other and exchange messages.

    Writes an MCP server, hooks or a plugin, instructions and a slash command into their configuration; everything else
    in those files stays as it is."""
    from ..commands import harnesses

    _one_scope(project, for_all)
    request = harnesses.InstallRequest(
        names=tuple(names or ()),
        project=project,
        transport=transport.value,
        url=url,
        hooks=hooks,
        attach=attach,
        dry_run=dry_run,
        yes=yes,
        json=json,
    )
    raise typer.Exit(harnesses.install(request))


def uninstall(
    names: Names = None,
    project: Project = "",
    for_all: Global = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove Tieline from your harnesses. Their files are then as they were before."""
    from ..commands import harnesses

    _one_scope(project, for_all)
    request = harnesses.InstallRequest(names=tuple(names or ()), project=project, dry_run=dry_run, yes=yes, json=json)
    raise typer.Exit(harnesses.uninstall(request))


def list_harnesses(names: Names = None, project: Project = "", json: Json = False) -> None:
    """List the harnesses on this machine, their versions, and whether Tieline is installed in them."""
    from ..commands import harnesses

    raise typer.Exit(harnesses.show(names or [], project=project, json=json))


def doctor(
    names: Names = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Fix what is safe to fix: outdated integrations are installed again.")
    ] = False,
    canary: Annotated[
        str, typer.Option(metavar="MEMBER", help="Send this member a test message and show how far it gets.")
    ] = "",
    json: Json = False,
) -> None:
    """Check whether agents in your harnesses can be reached: integrations, versions, hooks, sessions.

    Exit status 1 when something is wrong."""
    from ..commands import doctor

    raise typer.Exit(doctor.run(names or [], fix=fix, canary=canary, json=json))


def _one_scope(project: str, for_all: bool) -> None:
    if project and for_all:
        from ...errors import UsageError

        raise UsageError("--project and --global exclude each other", field="project", hint="Give one of them.")


EXAMPLES = {
    "install": """
tieline install                          all that are found, after a question
tieline install claude-code codex
tieline install --dry-run
tieline install opencode --project .
tieline install gemini --transport http
tieline install claude-code codex --attach
""",
    "uninstall": """
tieline uninstall
tieline uninstall codex --dry-run
""",
    "harnesses": """
tieline harnesses
tieline harnesses --json | jq '.[] | select(.found) | .harness'
""",
    "doctor": """
tieline doctor
tieline doctor codex --fix
tieline doctor --canary @ada
""",
}


def add(app: typer.Typer) -> None:
    verbs = {"install": install, "uninstall": uninstall, "harnesses": list_harnesses, "doctor": doctor}
    for name, verb in verbs.items():
        app.command(name, cls=HelpCommand, epilog=EXAMPLES[name], rich_help_panel=HARNESSES_PANEL)(verb)
