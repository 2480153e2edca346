"""The verbs about prompts that wait: queue, queue cancel, queue move, queue edit."""

from typing import Annotated

import typer

from ..help import FamilyGroup, HelpCommand
from .options import SESSIONS_PANEL, Json, Session

Prompt = Annotated[
    str, typer.Argument(metavar="PROMPT", help="Its id, or enough of its beginning or end.", show_default=False)
]


def list_prompts(session: Session, json: Json = False) -> None:
    """Show what runs and what waits in a session, in order."""
    from ..commands.queue import show

    raise typer.Exit(show(session, json=json))


def cancel(session: Session, prompt: Prompt, json: Json = False) -> None:
    """Remove a waiting prompt from the queue. A running one is interrupted by `tieline abort`."""
    from ..commands.queue import cancel

    raise typer.Exit(cancel(session, prompt, json=json))


def move(
    session: Session,
    prompt: Prompt,
    before: Annotated[str, typer.Option(metavar="PROMPT", help="Before this one. Default: to the end.")] = "",
    first: Annotated[bool, typer.Option("--first", help="Before all that wait.")] = False,
    json: Json = False,
) -> None:
    """Move a waiting prompt."""
    from ..commands.queue import move

    raise typer.Exit(move(session, prompt, before=before, first=first, json=json))


def edit(
    session: Session,
    prompt: Prompt,
    text: Annotated[
        str,
        typer.Argument(metavar="TEXT", help="What it says from now on; `-` reads standard input.", show_default=False),
    ],
    json: Json = False,
) -> None:
    """Replace the text of a waiting prompt. It is refused once the prompt runs."""
    from ..commands.queue import edit

    raise typer.Exit(edit(session, prompt, text, json=json))


EXAMPLES = {
    "list": """
tieline queue 1f0c2a
tieline queue 1f0c2a --json | jq -r '.[].text'
""",
    "cancel": """
tieline queue cancel 1f0c2a 7be04f
""",
    "move": """
tieline queue move 1f0c2a 7be04f         to the end
tieline queue move 1f0c2a 7be04f --first
tieline queue move 1f0c2a 7be04f --before 02ce11
""",
    "edit": """
tieline queue edit 1f0c2a 7be04f "the changelog, in one line"
""",
}
VERBS = {"list": list_prompts, "cancel": cancel, "move": move, "edit": edit}


def add(app: typer.Typer) -> None:
    about = "The prompts that wait in a session; cancel, move or edit one."
    group = typer.Typer(cls=FamilyGroup, rich_markup_mode=None)
    examples = "\n".join(each.strip().splitlines()[0] for each in EXAMPLES.values())
    app.add_typer(group, name="queue", help=about, epilog=examples, rich_help_panel=SESSIONS_PANEL)
    for name, verb in VERBS.items():
        group.command(name, cls=HelpCommand, epilog=EXAMPLES[name])(verb)
