"""`tieline schema`, as Typer declares it."""

from typing import Annotated

import typer

from ..help import HelpCommand


def schema(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="events, policy, receipt, prompt, script or agents.")
    ] = "events",
) -> None:
    """Print the JSON Schema of the values that Tieline reads and writes."""
    from ..commands.schema import schema_text

    print(schema_text(name))


EXAMPLES = """
tieline schema                           every event, as --json prints it
tieline schema policy
tieline schema script > script.schema.json
"""


def add(app: typer.Typer) -> None:
    app.command(cls=HelpCommand, epilog=EXAMPLES)(schema)
