"""`tieline agents list|models|add|test|remove`, as Typer declares them."""

from typing import Annotated

import typer

from .. import completion_values
from ..help import FamilyGroup, HelpCommand


def list_agents(
    names: Annotated[list[str] | None, typer.Argument(metavar="AGENT", help="Only these.", show_default=False)] = None,
    all: Annotated[bool, typer.Option("--all", help="Also those that are not here, and how to get them.")] = False,
    json: Annotated[bool, typer.Option("--json", help="A JSON array on stdout, of all that are known.")] = False,
) -> None:
    """List the agents: version, signed in or not, tested or not, what each can do, and how to fix problems."""
    from ..commands.agents import show

    show(names or [], all=all, json=json)


def list_models(
    name: Annotated[str, typer.Argument(metavar="AGENT", help="Which one.", show_default=False)],
    node: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="On this machine of the hub. Default: here, without a hub.",
            autocompletion=completion_values.nodes,
        ),
    ] = "",
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Ask the agent again, even if its list is recent.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="The list as JSON on stdout.")] = False,
) -> None:
    """List the models that an agent offers, and the efforts of each where it names them. The agent is started
    for this, but no model is called. The list is kept for a day."""
    from ..commands.agents_models import show

    raise typer.Exit(show(name, node=node, refresh=refresh, json=json))


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
    default: Annotated[bool, typer.Option("--default", help="Make it the agent of new sessions.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the agent of that name.")] = False,
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
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="AGENT", help="Which agents. Default: all that are installed.", show_default=False),
    ] = None,
    prompt: Annotated[
        str, typer.Option(metavar="TEXT", help="Ask its own model this instead; the agent may only read.")
    ] = "",
    own_model: Annotated[bool, typer.Option("--own-model", help="Ask its own model for a word instead.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --own-model: do not ask me first.")] = False,
    accept_unenforced: Annotated[
        bool, typer.Option("--accept-unenforced", help="With its own model: although nothing keeps it from more.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="The result as JSON on stdout.")] = False,
) -> None:
    """Test an agent over a scripted model, without an account or cost, and compare what it does with what its
    driver promises. An agent that cannot use that model is only detected and opened."""
    from ..commands.agents_test import show

    status = show(
        names or [], prompt=prompt, own_model=own_model, yes=yes, accept_unenforced=accept_unenforced, json=json
    )
    raise typer.Exit(status)


def remove_agent(
    name: Annotated[str, typer.Argument(metavar="AGENT", help="Which one.", show_default=False)],
    json: Annotated[bool, typer.Option("--json", help="What was done, as JSON on stdout.")] = False,
) -> None:
    """Take an agent out of your `tieline.toml`. The agent itself stays installed."""
    from ..commands.agents_edit import remove

    remove(name, json=json)


GROUP_EXAMPLES = """
tieline agents
tieline agents --all
tieline agents codex gemini
tieline agents --json | jq '.[] | select(.found) | .name'
tieline agents models codex
tieline agents add work --type claude-code --env A_KEY=env:WORK_KEY
tieline agents add reviewer -- my-agent --print {prompt}
tieline agents test codex
tieline agents remove reviewer
"""
EXAMPLES = {
    "list": """
tieline agents
tieline agents --all
tieline agents codex gemini
""",
    "models": """
tieline agents models codex
tieline agents models opencode --refresh
tieline agents models codex --node workshop
tieline agents models codex --json | jq -r '.models[].name'
""",
    "add": """
tieline agents add work --type claude-code --env A_KEY=env:WORK_KEY
tieline agents add reviewer -- my-agent --print {prompt}
tieline agents add mine --type acp -- my-agent --acp
tieline agents add codex --arg=--strict-config --replace
""",
    "test": """
tieline agents test
tieline agents test codex
tieline agents test codex --json | jq '.checks[] | {name, outcome}'
tieline agents test codex --own-model
tieline agents test reviewer --prompt "say hello"
""",
    "remove": """
tieline agents remove reviewer
""",
}


def add(app: typer.Typer) -> None:
    about = "List the agents: version, signed in or not, what each can do. Show their models; add, test or remove one."
    group = typer.Typer(cls=FamilyGroup, rich_markup_mode=None)
    app.add_typer(group, name="agents", help=about, epilog=GROUP_EXAMPLES)
    verbs = {"list": list_agents, "models": list_models, "add": add_agent, "test": test_agent, "remove": remove_agent}
    for name, verb in verbs.items():
        group.command(name, cls=HelpCommand, epilog=EXAMPLES[name])(verb)
