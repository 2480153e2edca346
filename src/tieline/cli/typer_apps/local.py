"""The verbs that need no hub: run, agents, schema, demo."""

from typing import Annotated

import typer

from ..help import HelpCommand, HelpGroup

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
        attach=tuple(attach or ()),
        accept_unenforced=accept_unenforced,
        standalone=standalone,
    )
    raise typer.Exit(execute(request))


def list_agents(
    names: Annotated[list[str] | None, typer.Argument(metavar="AGENT", help="Only these.", show_default=False)] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON array on stdout.")] = False,
) -> None:
    """What is installed: version, signed in or not, what each can do, and what to do about problems."""
    from ..commands.agents import show

    show(names or [], json=json)


def add_agent(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What you will call it.", show_default=False)],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND…", help="The program and its first arguments.", show_default=False),
    ] = None,
    type: Annotated[
        str, typer.Option(metavar="TYPE", help="claude-code, codex, opencode, gemini, acp, shell … Default: shell.")
    ] = "",
    arg: Annotated[list[str] | None, typer.Option(metavar="ARG", help="An argument after the driver's own.")] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A variable; VALUE may be env:OTHER.")
    ] = None,
    model: Annotated[str, typer.Option(metavar="NAME", help="Its model, where a session names none.")] = "",
    effort: Annotated[str, typer.Option(metavar="LEVEL", help="Its effort, where a session names none.")] = "",
    set: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Another setting of its type, in TOML.")
    ] = None,
    default: Annotated[bool, typer.Option("--default", help="New sessions use it.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="In place of the one of that name.")] = False,
    json: Annotated[bool, typer.Option("--json", help="What was written, as JSON on stdout.")] = False,
) -> None:
    """Register an agent in your `tieline.toml`. Comments and everything else in it stay."""
    from ..commands.agents_edit import NewAgent, add

    new = NewAgent(
        name=name,
        type=type,
        command=tuple(command or ()),
        args=tuple(arg or ()),
        env=tuple(env or ()),
        settings=tuple(set or ()),
        model=model,
        effort=effort,
        default=default,
        replace=replace,
    )
    add(new, json=json)


def test_agent(
    name: Annotated[str, typer.Argument(metavar="AGENT", help="Which one.", show_default=False)],
    prompt: Annotated[str, typer.Option(metavar="TEXT", help="Ask it this too; it may only read.")] = "",
    accept_unenforced: Annotated[
        bool, typer.Option("--accept-unenforced", help="With --prompt: although nothing keeps it from more.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="The result as JSON on stdout.")] = False,
) -> None:
    """Try an agent: is it there, signed in, does it open. Without --prompt no model is called."""
    from ..commands.agents_test import show

    raise typer.Exit(show(name, prompt=prompt, accept_unenforced=accept_unenforced, json=json))


def remove_agent(
    name: Annotated[str, typer.Argument(metavar="AGENT", help="Which one.", show_default=False)],
    json: Annotated[bool, typer.Option("--json", help="What was done, as JSON on stdout.")] = False,
) -> None:
    """Take an agent out of your `tieline.toml`. The agent itself stays installed."""
    from ..commands.agents_edit import remove

    remove(name, json=json)


def schema(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="events, policy, receipt, prompt, script or agents.")
    ] = "events",
) -> None:
    """Print the JSON Schema of what Tieline says and takes."""
    from ..commands.schema import text

    print(text(name))


def demo(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Answer every ask with yes.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the demo's directory in place.")] = False,
) -> None:
    """A scripted agent mends a small project in a temporary directory. No key, no account, nothing to install."""
    from ..commands.demo import play

    raise typer.Exit(play(yes=yes, keep=keep))


class AgentsGroup(HelpGroup):
    """`tieline agents` and `tieline agents codex` list; its verbs are another matter."""

    default_verb = "list"


AGENTS_EXAMPLES = {
    "list": """
tieline agents
tieline agents codex gemini
""",
    "add": """
tieline agents add work --type claude-code --env A_KEY=env:WORK_KEY
tieline agents add reviewer -- my-agent --print {prompt}
tieline agents add mine --type acp -- my-agent --acp
tieline agents add codex --arg=--strict-config --replace
""",
    "test": """
tieline agents test codex
tieline agents test reviewer --prompt "say hello"
tieline agents test reviewer --json | jq .works
""",
    "remove": """
tieline agents remove reviewer
""",
}

EXAMPLES = {
    "run": """
tieline run codex "fix the failing test"
tieline run claude-code "tidy the docs" --policy edits --deny network
tieline run opencode - < prompt.md > answer.md
tieline run gemini "what does this do?" --policy read-only --json | jq .type
tieline run codex "and now the changelog" --resume 0199a2…

Exit status: 0 success, 1 the turn failed, 2 bad usage, 124 timeout,
130 interrupted.
While it runs: Ctrl-C interrupts the turn, a second one leaves at once.
""",
    "agents": """
tieline agents
tieline agents codex gemini
tieline agents --json | jq '.[] | select(.found) | .name'
tieline agents add work --type claude-code --env A_KEY=env:WORK_KEY
tieline agents add reviewer -- my-agent --print {prompt}
tieline agents test reviewer --prompt "say hello"
tieline agents remove reviewer
""",
    "schema": """
tieline schema                           every event, as --json prints it
tieline schema policy
tieline schema script > script.schema.json
""",
    "demo": """
tieline demo                             you decide
tieline demo --yes                       everything is allowed
""",
}


def add(app: typer.Typer) -> None:
    app.command(cls=HelpCommand, epilog=EXAMPLES["run"])(run)
    about = "What is installed: version, signed in or not, what each can do; and add, test or remove one."
    group = typer.Typer(cls=AgentsGroup, rich_markup_mode=None)
    app.add_typer(group, name="agents", help=about, epilog=EXAMPLES["agents"])
    for name, verb in (("list", list_agents), ("add", add_agent), ("test", test_agent), ("remove", remove_agent)):
        group.command(name, cls=HelpCommand, epilog=AGENTS_EXAMPLES[name])(verb)
    for verb in (schema, demo):
        app.command(cls=HelpCommand, epilog=EXAMPLES[verb.__name__])(verb)
