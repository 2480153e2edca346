"""The verbs about rules for asks: rules list, add, test, show, revoke."""

from typing import Annotated, Any, Literal

import typer

from .. import completion_values
from ..help import FamilyGroup, HelpCommand
from .options import SESSIONS_PANEL, Json, takes_also

Rule = Annotated[
    str,
    typer.Argument(
        metavar="RULE", help="Its id, or enough of it.", show_default=False, autocompletion=completion_values.rules
    ),
]


def _rule(
    match: Annotated[
        Literal["exact", "prefix", "edit", "read", "host", "tool"],
        typer.Argument(
            metavar="KIND",
            help="exact, prefix (a command, by its words), edit, read (a file or a directory/), host, "
            "tool (server/tool).",
            show_default=False,
        ),
    ],
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="The pattern to match.", show_default=False)],
    deny: Annotated[bool, typer.Option("--deny", help="Deny it instead.")] = False,
    directory: Annotated[
        str,
        typer.Option(
            "--dir", metavar="DIR", help="For sessions in there. Default: this directory.", show_default=False
        ),
    ] = "",
    everywhere: Annotated[bool, typer.Option("--everywhere", help="In every directory.")] = False,
    machine: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="On this machine only. Default: on every one.", autocompletion=completion_values.nodes
        ),
    ] = "",
    agent: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="For this agent only. Default: for every one.", autocompletion=completion_values.agents
        ),
    ] = "",
) -> None:
    """A rule as it is typed, told once for the commands that take one."""


def list_rules(json: Json = False) -> None:
    """List the rules: what each decides, who made it, how often it was used. Revoked and expired ones come last."""
    from ..commands.rules import list_rules

    raise typer.Exit(list_rules(json=json))


@takes_also(_rule)
def add_rule(
    lasts: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long it holds: 12h, 7d, 2w. Default: for good.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Save it without a question.")] = False,
    json: Json = False,
    **rule: Any,
) -> None:
    """Add a rule that decides asks of a kind from now on. It first shows what it would have decided before."""
    from ..commands.rules import RuleOptions, add

    raise typer.Exit(add(RuleOptions(**rule, lasts=lasts), yes=yes, json=json))


@takes_also(_rule)
def test_rule(json: Json = False, **rule: Any) -> None:
    """Show what a rule would have decided about the last 60 asks. Saves nothing."""
    from ..commands.rules import RuleOptions, test

    raise typer.Exit(test(RuleOptions(**rule), json=json))


def show(rule: Rule, json: Json = False) -> None:
    """Show one rule: who made it, when, from what, and which machines do not know it yet."""
    from ..commands.rules import show

    raise typer.Exit(show(rule, json=json))


def revoke(rule: Rule, json: Json = False) -> None:
    """Revoke a rule, at once."""
    from ..commands.rules import revoke

    raise typer.Exit(revoke(rule, json=json))


ABOUT = "Rules that decide asks without asking you: list, add, test, show, revoke."
VERBS = {
    "list": (list_rules, "tieline rules\ntieline rules --json | jq -r '.[].text'"),
    "add": (
        add_rule,
        """tieline rules add prefix "npm test"
tieline rules add edit src/ --agent codex
tieline rules add host .example.com --everywhere --for 7d
tieline rules add exact "git push" --deny --everywhere""",
    ),
    "test": (test_rule, 'tieline rules test prefix "npm test"'),
    "show": (show, "tieline rules show 9be41d"),
    "revoke": (revoke, "tieline rules revoke 9be41d"),
}


def add(app: typer.Typer) -> None:
    group = typer.Typer(cls=FamilyGroup, rich_markup_mode=None)
    first = "\n".join(examples.splitlines()[0] for _, examples in VERBS.values())
    app.add_typer(group, name="rules", help=ABOUT, epilog=first, rich_help_panel=SESSIONS_PANEL)
    for verb, (function, examples) in VERBS.items():
        group.command(verb, cls=HelpCommand, epilog=examples)(function)
