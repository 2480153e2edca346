"""The verbs about decisions: asks, approve, deny, answer."""

from typing import Annotated

import typer

from .. import completion_values
from ..help import HelpCommand
from .options import SESSIONS_PANEL, Json

AskId = Annotated[
    str,
    typer.Argument(
        metavar="ASK",
        help="Its id, or enough of it. Without one: the only one that waits, or on a terminal the one that you pick.",
        show_default=False,
        autocompletion=completion_values.asks,
    ),
]


def approve(
    ask: AskId = "",
    remember: Annotated[
        str, typer.Option(metavar="HOW", help="Remember it for: session or always, where the agent offers it.")
    ] = "",
    always: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="Make a rule of it, for this project: exact, prefix, path, host or tool. It is tested with past asks "
            "first.",
        ),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before the rule is saved.")] = False,
    json: Json = False,
) -> None:
    """Allow what an agent asks for."""
    from ..commands.asks import decide

    if always:
        from ..commands.rules import allow_always

        raise typer.Exit(allow_always(ask, always, yes=yes, json=json))
    raise typer.Exit(decide("allow", ask, remember=remember, json=json))


def deny(
    ask: AskId = "",
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; the agent is told.")] = "",
    remember: Annotated[str, typer.Option(metavar="HOW", help="Remember it for: session or always.")] = "",
    json: Json = False,
) -> None:
    """Deny what an agent asks for."""
    from ..commands.asks import decide

    raise typer.Exit(decide("deny", ask, reason=reason, remember=remember, json=json))


def answer(
    ask: Annotated[
        str,
        typer.Argument(
            metavar="ASK",
            help="Its id, or enough of it. Without one: the only one that waits, or on a terminal the one that you "
            "pick.",
            show_default=False,
            autocompletion=completion_values.questions,
        ),
    ] = "",
    answers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ANSWER",
            help="One per question: a choice by its number or its words. Several choices with commas.",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Your own words instead of a choice; repeat it for several questions."),
    ] = None,
    json: Json = False,
) -> None:
    """Answer an agent's question. Without answers it shows what is asked."""
    from ..commands.asks import answer

    raise typer.Exit(answer(ask, answers or [], text=text or [], json=json))


def asks(
    ask: Annotated[
        str,
        typer.Argument(
            metavar="ASK",
            help="Its id, or enough of it. Without one: all that wait.",
            show_default=False,
            autocompletion=completion_values.asks,
        ),
    ] = "",
    json: Json = False,
) -> None:
    """Show every ask that waits for a decision, in full."""
    from ..commands.asks import show

    raise typer.Exit(show(ask, json=json))


EXAMPLES = {
    asks: """
tieline asks
tieline asks 9be41d
tieline asks --json | jq -r '.[].parts[].text'
""",
    approve: """
tieline approve                          the only one that waits
tieline approve 9be41d --remember session
tieline approve 9be41d --always prefix
""",
    deny: """
tieline deny 9be41d --reason "not on a Friday"
""",
    answer: """
tieline answer                           what is asked
tieline answer 9be41d 2
tieline answer 9be41d "PostgreSQL" "1,3"
tieline answer 9be41d --text "neither: use SQLite"
""",
}


def add(app: typer.Typer) -> None:
    for verb, examples in EXAMPLES.items():
        app.command(cls=HelpCommand, epilog=examples, rich_help_panel=SESSIONS_PANEL)(verb)
