"""The Typer application: every verb with its options and examples. The work is in a file per verb, imported by need."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ..version import __version__
from .errors import reported
from .help import Command, Group

HELP = ("-h", "--help")

app = typer.Typer(
    cls=Group,
    rich_markup_mode=None,  # rich would take longer to import than all the rest; help.py lays the help out
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": list(HELP)},
)


def start(arguments: Sequence[str]) -> int:
    def work() -> int:
        if len(arguments) == 2 and arguments[1] in HELP and (page := _help(arguments[0])):
            print(page)
            return 0
        try:
            app(list(arguments), prog_name="tieline")
        except SystemExit as exit:
            return exit.code if isinstance(exit.code, int) else 1
        return 0

    return reported(work)


def _help(verb: str) -> str:
    """A verb's help without the library's parsing, which imports as much again as all the rest."""
    group = typer.main.get_command(app)
    command = group.commands.get(verb) if isinstance(group, Group) else None
    if command is None:
        return ""
    above = typer.Context(group, info_name="tieline")
    return command.get_help(typer.Context(command, info_name=verb, parent=above, help_option_names=list(HELP)))


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tieline {__version__}")
        raise typer.Exit


@app.callback(
    epilog="""
tieline demo                             see it work: no key, no account
tieline agents                           which agents are here
tieline run codex "fix the failing test"
tieline run claude-code "write the docs" --policy edits
"""
)
def tieline(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """A switchboard for coding agents: any of them behind one event stream and one permission policy."""


POLICY, AGENT, SESSION, OUTPUT = "Policy", "Agent", "Conversation", "Output and limits"


@app.command(
    cls=Command,
    epilog="""
tieline run codex "fix the failing test"
tieline run claude-code "tidy the docs" --policy edits --deny network
tieline run opencode - < prompt.md > answer.md
tieline run gemini "what does this do?" --policy read-only --json | jq .type
tieline run codex "and now the changelog" --resume 0199a2…

Exit status: 0 success, 1 the turn failed, 2 bad usage, 124 timeout, 130 interrupted.
While it runs: Ctrl-C interrupts the turn, a second one leaves at once.
""",
)
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
        str, typer.Option(metavar="NAME", help="read-only, ask, edits or full.", rich_help_panel=POLICY)
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
            help="Who decides asks: prompt (you, on a terminal), allow or deny. Without a terminal they are denied.",
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
    model: Annotated[str, typer.Option(metavar="NAME", help="Which model it uses.", rich_help_panel=AGENT)] = "",
    effort: Annotated[str, typer.Option(metavar="LEVEL", help="How hard it thinks.", rich_help_panel=AGENT)] = "",
    system: Annotated[
        str, typer.Option(metavar="TEXT", help="Added to its system instruction.", rich_help_panel=AGENT)
    ] = "",
    allowed_tools: Annotated[
        list[str] | None, typer.Option(metavar="TOOL,…", help="Tools it may use without asking.", rich_help_panel=AGENT)
    ] = None,
    disallowed_tools: Annotated[
        list[str] | None, typer.Option(metavar="TOOL,…", help="Tools it must not use.", rich_help_panel=AGENT)
    ] = None,
    attach: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Give it a file with the prompt.", rich_help_panel=AGENT)
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
        float | None, typer.Option(metavar="SECONDS", help="End the turn after this long.", rich_help_panel=OUTPUT)
    ] = None,
    max_turns: Annotated[
        int | None, typer.Option(metavar="N", help="End after this many model calls.", rich_help_panel=OUTPUT)
    ] = None,
    max_budget_usd: Annotated[
        float | None, typer.Option(metavar="USD", help="End when this much is spent.", rich_help_panel=OUTPUT)
    ] = None,
) -> None:
    """Give an agent a task and watch it work. Its asks are answered with one key."""
    from .request import Request
    from .run import carry_out

    request = Request(
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
        attach=tuple(attach or ()),
        accept_unenforced=accept_unenforced,
    )
    raise typer.Exit(carry_out(request))


@app.command(
    cls=Command,
    epilog="""
tieline agents
tieline agents codex gemini
tieline agents --json | jq '.[] | select(.found) | .name'
""",
)
def agents(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[AGENT]...", help="Only these.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON array on stdout.")] = False,
) -> None:
    """What is installed: version, signed in or not, what each can do, and what to do about problems."""
    from .agents import show

    show(names or [], json=json)


@app.command(
    cls=Command,
    epilog="""
tieline schema                           every event, as --json prints it
tieline schema policy
tieline schema script > script.schema.json
""",
)
def schema(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="events, policy, receipt, prompt, script or agents.")
    ] = "events",
) -> None:
    """Print the JSON Schema of what Tieline says and takes."""
    from .schema import text

    print(text(name))


@app.command(
    cls=Command,
    epilog="""
tieline demo                             you decide
tieline demo --yes                       everything is allowed
""",
)
def demo(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Answer every ask with yes.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the demo's directory in place.")] = False,
) -> None:
    """A scripted agent mends a small project in a temporary directory. No key, no account, nothing to install."""
    from .demo import play

    raise typer.Exit(play(yes=yes, keep=keep))


if __name__ == "__main__":
    sys.exit(start(sys.argv[1:]))
