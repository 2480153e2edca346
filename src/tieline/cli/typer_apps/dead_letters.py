"""`tieline dead list|show|retry|drop`, as Typer declares them."""

from typing import Annotated

import typer

from ..help import add_family
from .options import MESSAGES_PANEL, Json, MessageId

FIND = "Which"

Pattern = Annotated[
    str, typer.Option(metavar="PATTERN", help="Whom they were for: relay.agent.>", rich_help_panel=FIND)
]
From = Annotated[str, typer.Option("--from", metavar="PATTERN", help="Who sent them.", rich_help_panel=FIND)]
Reason = Annotated[
    str, typer.Option(metavar="CODE", help="Why they were not delivered: gave_up …", rich_help_panel=FIND)
]
Ids = Annotated[
    list[str] | None, typer.Argument(metavar="ID", help="Their messages' ids, or enough of them.", show_default=False)
]


def dead_list(
    pattern: Pattern = "",
    sender: From = "",
    reason: Reason = "",
    limit: Annotated[int, typer.Option(metavar="N", help="Show at most this many.")] = 100,
    json: Json = False,
) -> None:
    """Messages that could not be delivered, and why."""
    from ..commands.dead_letters import list_letters

    raise typer.Exit(list_letters(pattern, sender, reason, limit=limit, json=json))


def dead_show(id: MessageId, json: Json = False) -> None:
    """Show one dead letter in full."""
    from ..commands.dead_letters import show

    raise typer.Exit(show(id, json=json))


def dead_retry(
    ids: Ids = None, pattern: Pattern = "", sender: From = "", reason: Reason = "", json: Json = False
) -> None:
    """Send dead letters again, each with a fresh budget."""
    from ..commands.dead_letters import retry

    raise typer.Exit(retry(ids or [], pattern, sender, reason, json=json))


def dead_drop(
    ids: Ids = None, pattern: Pattern = "", sender: From = "", reason: Reason = "", json: Json = False
) -> None:
    """Delete dead letters for good."""
    from ..commands.dead_letters import drop

    raise typer.Exit(drop(ids or [], pattern, sender, reason, json=json))


ABOUT = "Messages that could not be delivered: list them, send them again, drop them."
VERBS = {
    "list": (dead_list, "tieline dead list\ntieline dead list --pattern 'relay.agent.>' --reason gave_up"),
    "show": (dead_show, "tieline dead show 0199a2…"),
    "retry": (dead_retry, "tieline dead retry 0199a2…\ntieline dead retry --pattern 'relay.webhook.ci.>'"),
    "drop": (dead_drop, "tieline dead drop 0199a2…\ntieline dead drop --reason hops_exceeded"),
}  # fmt: skip


def add(app: typer.Typer) -> None:
    add_family(app, "dead", ABOUT, VERBS, panel=MESSAGES_PANEL)
