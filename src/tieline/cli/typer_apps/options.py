"""Options and help panels that several commands share."""

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args

import typer

from .. import completion_values

if TYPE_CHECKING:
    from ..run.run_options import RunOptions

HUB_PANEL = "The hub"
SESSIONS_PANEL = "At the hub"
MESSAGES_PANEL = "Messages"
HARNESSES_PANEL = "Your harnesses"

Json = Annotated[bool, typer.Option("--json", help="JSON on stdout.")]
Session = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="Its id, or enough of its beginning or end.",
        show_default=False,
        autocompletion=completion_values.sessions,
    ),
]
MessageId = Annotated[
    str, typer.Argument(metavar="ID", help="The message's id, or enough of its beginning or end.", show_default=False)
]
Since = Annotated[str, typer.Option(metavar="WHEN", help="Not older: 30m, 12h, 7d, or a date such as 2026-11-01.")]
Until = Annotated[str, typer.Option(metavar="WHEN", help="Not newer, in the same way; a date is its end.")]
OnlyAgent = Annotated[
    str, typer.Option(metavar="AGENT", help="Only this agent.", autocompletion=completion_values.agents)
]
OnlyProject = Annotated[str, typer.Option(metavar="NAME", help="Only this project: the name of its repository.")]
OnlySession = Annotated[
    str, typer.Option(metavar="SESSION", help="Only this session.", autocompletion=completion_values.sessions)
]

# --- how an agent is opened: `run` and `send --new` ---------------------------------------------------------------

Command = TypeVar("Command", bound=Callable[..., None])
POLICY, AGENT, SESSION, OUTPUT = "Policy", "Agent", "Conversation", "Output and limits"
InWorktree = Annotated[
    bool,
    typer.Option("--worktree", help="Work in a git worktree of its own, on a new branch.", rich_help_panel=AGENT),
]
Branch = Annotated[
    str,
    typer.Option(metavar="NAME", help="The worktree's branch; implies --worktree.", rich_help_panel=AGENT),
]


def _opening(
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="read-only, ask, edits or full. Default: ask, or as configured.",
            autocompletion=completion_values.policies,
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
    accept_unenforced: Annotated[
        bool,
        typer.Option(
            "--accept-unenforced", help="Run although the agent cannot be held to the policy.", rich_help_panel=POLICY
        ),
    ] = False,
    model: Annotated[
        str,
        typer.Option(metavar="NAME", help="The model it uses. Default: the agent's own choice.", rich_help_panel=AGENT),
    ] = "",
    effort: Annotated[
        str,
        typer.Option(
            metavar="LEVEL", help="How hard it thinks. Default: the agent's own choice.", rich_help_panel=AGENT
        ),
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
        str, typer.Option(metavar="ID", help="Continue an earlier conversation.", rich_help_panel=SESSION)
    ] = "",
    fork: Annotated[
        bool, typer.Option("--fork", help="With --resume: continue in a copy of it.", rich_help_panel=SESSION)
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="End the turn after this long. Default: no limit.", rich_help_panel=OUTPUT
        ),
    ] = None,
    max_turns: Annotated[
        int | None,
        typer.Option(metavar="N", help="End after this many model calls. Default: no limit.", rich_help_panel=OUTPUT),
    ] = None,
    max_budget_usd: Annotated[
        float | None,
        typer.Option(
            metavar="USD", help="End when this much has been spent. Default: no limit.", rich_help_panel=OUTPUT
        ),
    ] = None,
) -> None:
    """How an agent is opened, told once for all commands that open one."""


def opens_an_agent(*, after: str) -> Callable[[Command], Command]:
    """Gives a command those options, after a parameter of its own."""
    return takes_also(_opening, after=after)


def _changing(command: Command) -> Command:
    """The options of a command that changes what is there: without a word about what they are when not given."""
    signature = inspect.signature(command)
    changed: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        kind, option = get_args(each.annotation)
        option = copy(option)
        option.help = option.help.partition(" Default:")[0]
        changed.append(each.replace(annotation=Annotated[kind, option]))

    def options() -> None: ...

    setattr(options, "__signature__", signature.replace(parameters=changed))  # noqa: B010
    return cast(Command, options)


def changes_an_agent(*, after: str) -> Callable[[Command], Command]:
    """Gives a command the same options for changing how an agent is opened; `given` tells which were."""
    return takes_also(_changing(_opening), after=after)


def given(context: typer.Context) -> frozenset[str]:
    """The parameters that are on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")


def takes_also(options: Callable[..., None], *, after: str = "") -> Callable[[Command], Command]:
    """Gives a command the parameters of another function that it does not have itself: first, or after one of its own.
    They are its keywords."""

    def add_options(command: Command) -> Command:
        own = inspect.signature(command).parameters
        added = [each for name, each in inspect.signature(options).parameters.items() if name not in own]
        whole = [] if after else added
        for each in own.values():
            if each.kind is not each.VAR_KEYWORD:
                whole.append(each)
            if each.name == after:
                whole += added
        setattr(command, "__signature__", inspect.Signature(whole))  # noqa: B010 (a function's type does not have it)
        return command

    return add_options


def run_options(given: Mapping[str, Any]) -> "RunOptions":
    """The request, from a command's parameters, which are named as its fields."""
    from ..run.run_options import LISTS, RunOptions

    named: dict[str, Any] = {name: given[name] for name in RunOptions.__struct_fields__ if given.get(name) is not None}
    for name in LISTS & named.keys():
        named[name] = tuple(named[name])
    return RunOptions(**named)
