"""`tieline run`, as Typer declares it."""

from typing import Annotated, Any

import typer

from .. import completion_values
from ..help import HelpCommand
from .options import AGENT, OUTPUT, POLICY, Branch, InWorktree, opens_an_agent, run_options


@opens_an_agent(after="prompt")
def run(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT",
            help="The agent to run: see `tieline agents`.",
            show_default=False,
            autocompletion=completion_values.agents,
        ),
    ],
    prompt: Annotated[
        str,
        typer.Argument(
            metavar="PROMPT", help="What it should do; `-` reads it from standard input.", show_default=False
        ),
    ],
    on_ask: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="Who decides asks: prompt (you, at the terminal: the default), allow or deny (the default without a "
            "terminal).",
            rich_help_panel=POLICY,
        ),
    ] = "",
    cwd: Annotated[str, typer.Option(metavar="DIR", help="The directory it works in.", rich_help_panel=AGENT)] = ".",
    worktree: InWorktree = False,
    branch: Branch = "",
    json: Annotated[
        bool, typer.Option("--json", help="One event per line, and nothing else on stdout.", rich_help_panel=OUTPUT)
    ] = False,
    standalone: Annotated[
        bool,
        typer.Option(
            "--standalone", help="Start the agent here even if a hub runs on this machine.", rich_help_panel=OUTPUT
        ),
    ] = False,
    **opening: Any,
) -> None:
    """Give an agent a task and watch it work. Its asks are answered with one key."""
    given = {**locals(), **opening}
    from ..run.target import execute

    raise typer.Exit(execute(run_options(given)))


EXAMPLES = """
tieline run codex "fix the failing test"
tieline run claude-code "tidy the docs" --policy edits --deny network
tieline run opencode - < prompt.md > answer.md
tieline run gemini "what does this do?" --policy read-only --json | jq .type
tieline run codex "and now the changelog" --resume 0199a2…
tieline run codex "try SQLite instead" --worktree

Exit status: 0 success, 1 the turn failed, 2 bad usage, 124 timeout,
130 interrupted.
While it runs: Ctrl-C interrupts the turn, a second one leaves at once.
"""


def add(app: typer.Typer) -> None:
    app.command(cls=HelpCommand, epilog=EXAMPLES)(run)
