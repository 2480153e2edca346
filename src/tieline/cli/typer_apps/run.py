"""`tieline run`, as Typer declares it."""

from typing import Annotated

import typer

from ..help import HelpCommand

POLICY, AGENT, SESSION, OUTPUT = "Policy", "Agent", "Conversation", "Output and limits"


def run(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="Which agent: see `tieline agents`.", show_default=False)
    ],
    prompt: Annotated[
        str,
        typer.Argument(
            metavar="PROMPT", help="What it should do; `-` reads it from standard input.", show_default=False
        ),
    ],
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="read-only, ask, edits or full. Default: ask, or as configured.",
            rich_help_panel=POLICY,
        ),
    ] = "",
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="CAP,…", help="Permit file_write, shell or network.", rich_help_panel=POLICY),
    ] = None,
    ask: Annotated[
        list[str] | None, typer.Option(metavar="CAP,…", help="Ask each time.", rich_help_panel=POLICY)
    ] = None,
    deny: Annotated[list[str] | None, typer.Option(metavar="CAP,…", help="Refuse.", rich_help_panel=POLICY)] = None,
    on_ask: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="Who decides asks: prompt (you, at the terminal: the default), allow or deny (the default without a "
            "terminal).",
            rich_help_panel=POLICY,
        ),
    ] = "",
    accept_unenforced: Annotated[
        bool,
        typer.Option(
            "--accept-unenforced", help="Run although the agent cannot be held to the policy.", rich_help_panel=POLICY
        ),
    ] = False,
    cwd: Annotated[str, typer.Option(metavar="DIR", help="Where it works.", rich_help_panel=AGENT)] = ".",
    model: Annotated[
        str, typer.Option(metavar="NAME", help="Which model it uses; its own choice by default.", rich_help_panel=AGENT)
    ] = "",
    effort: Annotated[
        str, typer.Option(metavar="LEVEL", help="How hard it thinks; its own choice by default.", rich_help_panel=AGENT)
    ] = "",
    system: Annotated[
        str, typer.Option(metavar="TEXT", help="Added to its system instruction.", rich_help_panel=AGENT)
    ] = "",
    allowed_tools: Annotated[
        list[str] | None, typer.Option(metavar="TOOL,…", help="Tools it may use without asking.", rich_help_panel=AGENT)
    ] = None,
    disallowed_tools: Annotated[
        list[str] | None, typer.Option(metavar="TOOL,…", help="Tools it must not use.", rich_help_panel=AGENT)
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD",
            help="Add an argument to its command line; repeat it for several. Only with --policy full.",
            rich_help_panel=AGENT,
        ),
    ] = None,
    environment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Add a variable to its environment; repeat it for several.",
            rich_help_panel=AGENT,
        ),
    ] = None,
    attach: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="Give it a file with the prompt; repeat it for several.", rich_help_panel=AGENT
        ),
    ] = None,
    resume: Annotated[
        str, typer.Option(metavar="ID", help="Go on with an earlier conversation.", rich_help_panel=SESSION)
    ] = "",
    fork: Annotated[
        bool, typer.Option("--fork", help="With --resume: go on in a copy of it.", rich_help_panel=SESSION)
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="One event per line, and nothing else on stdout.", rich_help_panel=OUTPUT)
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="End the turn after this long. Default: no limit of ours.", rich_help_panel=OUTPUT
        ),
    ] = None,
    max_turns: Annotated[
        int | None,
        typer.Option(metavar="N", help="End after this many model calls. Default: no limit.", rich_help_panel=OUTPUT),
    ] = None,
    max_budget_usd: Annotated[
        float | None,
        typer.Option(metavar="USD", help="End when this much is spent. Default: no limit.", rich_help_panel=OUTPUT),
    ] = None,
    standalone: Annotated[
        bool,
        typer.Option(
            "--standalone", help="Start the agent here even if a hub runs on this machine.", rich_help_panel=OUTPUT
        ),
    ] = False,
) -> None:
    """Give an agent a task and watch it work. Its asks are answered with one key."""
    from ..run.run_options import RunOptions
    from ..run.target import execute

    request = RunOptions(
        agent=agent,
        prompt=prompt,
        cwd=cwd,
        json=json,
        policy=policy,
        allow=tuple(allow or ()),
        ask=tuple(ask or ()),
        deny=tuple(deny or ()),
        on_ask=on_ask,
        model=model,
        effort=effort,
        max_turns=max_turns,
        max_budget_usd=max_budget_usd,
        resume=resume,
        fork=fork,
        system=system,
        timeout=timeout,
        allowed_tools=tuple(allowed_tools or ()),
        disallowed_tools=tuple(disallowed_tools or ()),
        arguments=tuple(arguments or ()),
        environment=tuple(environment or ()),
        attach=tuple(attach or ()),
        accept_unenforced=accept_unenforced,
        standalone=standalone,
    )
    raise typer.Exit(execute(request))


EXAMPLES = """
tieline run codex "fix the failing test"
tieline run claude-code "tidy the docs" --policy edits --deny network
tieline run opencode - < prompt.md > answer.md
tieline run gemini "what does this do?" --policy read-only --json | jq .type
tieline run codex "and now the changelog" --resume 0199a2…

Exit status: 0 success, 1 the turn failed, 2 bad usage, 124 timeout,
130 interrupted.
While it runs: Ctrl-C interrupts the turn, a second one leaves at once.
"""


def add(app: typer.Typer) -> None:
    app.command(cls=HelpCommand, epilog=EXAMPLES)(run)
