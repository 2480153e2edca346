"""`tieline channels list|check|reload|test|secret`, as Typer declares them."""

from typing import Annotated

import typer

from ..help import add_family
from .options import MESSAGES_PANEL, Json


def channels_list(json: Json = False) -> None:
    """The channels of the hub: the state of each, and why."""
    from ..commands.channels import show

    raise typer.Exit(show(json=json))


def channels_check(json: Json = False) -> None:
    """Check the configuration file's channels without running them. Needs no hub."""
    from ..commands.channels import check

    raise typer.Exit(check(json=json))


def channels_reload(
    yes: Annotated[bool, typer.Option("--yes", help="Trust new code, rights and secrets without asking.")] = False,
    json: Json = False,
) -> None:
    """Reload the configuration now; it asks before it trusts anything new. Only changed channels restart."""
    from ..commands.channels import reload

    raise typer.Exit(reload(yes=yes, json=json))


def channels_test(
    id: Annotated[str, typer.Argument(metavar="CHANNEL", help="Its id.", show_default=False)],
    to: Annotated[str, typer.Option(metavar="ADDRESS", help="One of its addresses; its own by default.")] = "",
    text: Annotated[str, typer.Option(metavar="TEXT", help="What to send.")] = "This is a test of the channel.",
    json: Json = False,
) -> None:
    """Send a message through a channel and say what became of it."""
    from ..commands.channels import test

    raise typer.Exit(test(id, to=to, text=text, json=json))


def channels_secret(json: Json = False) -> None:
    """Make a secret for a webhook, as the Standard Webhooks specification has it. Needs no hub."""
    from ..commands.channels import secret

    raise typer.Exit(secret(json=json))


ABOUT = "Channels deliver messages: to agents, Telegram, webhooks, notifications, plugins."
VERBS = {
    "list": (channels_list, "tieline channels list"),
    "check": (channels_check, "tieline channels check"),
    "reload": (channels_reload, "tieline channels reload\ntieline channels reload --yes"),
    "test": (channels_test, "tieline channels test phone\ntieline channels test ci --text hello"),
    "secret": (channels_secret, "tieline channels secret\nexport CI_SECRET=$(tieline channels secret)"),
}  # fmt: skip


def add(app: typer.Typer) -> None:
    add_family(app, "channels", ABOUT, VERBS, panel=MESSAGES_PANEL)
