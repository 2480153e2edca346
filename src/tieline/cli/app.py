"""The Typer application: each module of `typer_apps` adds its commands, which import their work when they run."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from ..version import __version__
from .errors import run_and_report
from .help import HelpGroup

HELP = ("-h", "--help")
FAMILIES = (
    "run", "agents", "schema", "demo", "config", "hub", "phone", "service", "backup", "sessions", "changes",
    "worktrees", "top", "queue", "asks", "rules", "usage", "search", "node", "nodes", "devices", "audit", "team",
    "schedules", "members", "messages", "dead_letters", "channels", "harnesses", "mcp",
)  # fmt: skip
"""Modules with `add(app)`, in the order of the help."""

app = typer.Typer(
    cls=HelpGroup,
    rich_markup_mode=None,  # rich would take longer to import than all the rest; help.py lays the help out
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

    return run_and_report(work)


def _help(verb: str) -> str:
    """A command's help without Typer's parser, which would double the imports."""
    group = typer.main.get_command(app)
    command = group.commands.get(verb) if isinstance(group, HelpGroup) else None
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
tieline up                               the hub: watch and decide on a phone
tieline sessions                         what runs there
"""
)
def tieline(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """A switchboard for coding agents: any of them behind one event stream and one permission policy."""


for _family in FAMILIES:
    import_module(f".typer_apps.{_family}", __package__).add(app)


if __name__ == "__main__":
    sys.exit(start(sys.argv[1:]))
