"""`tieline mcp`, as Typer declares it. It is started without Typer (`cli/__init__.py`); this is its help."""

from typing import Annotated

import typer

from ..help import HelpCommand
from .options import HUB_PANEL


def mcp(
    harness: Annotated[
        str, typer.Option(metavar="NAME", help="The harness that starts it: claude-code, codex, opencode …")
    ] = "",
    no_start: Annotated[bool, typer.Option("--no-start", help="Do not start a hub when none runs.")] = False,
) -> None:
    """The mesh's MCP server on standard input and output, for harnesses to start; over HTTP it is the hub's `/mcp`.

    It passes messages on to the hub that runs here (or to $TIELINE_HUB with the key $TIELINE_TOKEN) and starts one
    when none does."""
    from ..mcp.stdio_bridge import run

    given = [*(["--harness", harness] if harness else []), *(["--no-start"] if no_start else [])]
    raise typer.Exit(run(given) or 0)


EXAMPLES = """
tieline mcp
tieline mcp --harness codex
claude mcp add tieline -- tieline mcp
"""


def add(app: typer.Typer) -> None:
    app.command(cls=HelpCommand, epilog=EXAMPLES, rich_help_panel=HUB_PANEL)(mcp)
