"""Options and help panels that several commands share."""

from typing import Annotated

import typer

HUB_PANEL = "The hub"
SESSIONS_PANEL = "At the hub"
MESSAGES_PANEL = "Messages"
HARNESSES_PANEL = "Your harnesses"

Json = Annotated[bool, typer.Option("--json", help="JSON on stdout.")]
MessageId = Annotated[str, typer.Argument(metavar="ID", help="The message's id.", show_default=False)]
