"""`tieline message …` and `tieline inbox`, as Typer declares them."""

from typing import Annotated

import typer

from ..help import HelpCommand, add_family
from .options import MESSAGES_PANEL, Json, MessageId

To = Annotated[str, typer.Argument(metavar="TO", help="Who it is for: @name of a member, relay.agent.<session> …")]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="What to say; `-` reads it from standard input.")]
Within = Annotated[
    str, typer.Option(metavar="ID", help="The message you are working on, whose budget this one inherits.")
]
Session = Annotated[str, typer.Option(metavar="ID", help="Send it as this session.")]
Hops = Annotated[int | None, typer.Option("--max-hops", metavar="N", help="How often it may be passed on. Default: 8.")]
Calls = Annotated[
    int | None, typer.Option(metavar="N", help="How many messages and turns may follow from it. Default: 32.")
]


def send(
    to: To,
    text: Text,
    reply_to: Annotated[str, typer.Option(metavar="ADDRESS", help="Where an answer goes. Default: to you.")] = "",
    no_reply: Annotated[bool, typer.Option("--no-reply", help="No answer is wanted.")] = False,
    in_reply_to: Annotated[str, typer.Option(metavar="ID", help="The message that this answers.")] = "",
    thread: Annotated[str, typer.Option(metavar="ID", help="The thread it belongs to. Default: a new one.")] = "",
    content_type: Annotated[
        str, typer.Option("--type", metavar="TYPE", help="The text is this: application/json. Default: plain text.")
    ] = "",
    attach: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE|URL", help="Attach a file or URL by reference; repeat it for several."),
    ] = None,
    ttl: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Seconds after which it expires. Default: an hour.")
    ] = None,
    max_hops: Hops = None,
    calls: Calls = None,
    key: Annotated[
        str, typer.Option(metavar="KEY", help="Idempotency key: sending the same key again sends nothing new.")
    ] = "",
    within: Within = "",
    session: Session = "",
    json: Json = False,
) -> None:
    """Send a message. It is stored when this returns."""
    from ..commands.messages import send

    raise typer.Exit(
        send(
            to,
            text,
            reply_to=reply_to,
            no_reply=no_reply,
            in_reply_to=in_reply_to,
            thread=thread,
            content_type=content_type,
            attach=attach or [],
            ttl=ttl,
            max_hops=max_hops,
            calls=calls,
            key=key,
            within=within,
            session=session,
            json=json,
        )
    )


def ask(
    to: To,
    text: Text,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long to wait for the answer.")] = 60.0,
    max_hops: Hops = None,
    calls: Calls = None,
    within: Within = "",
    session: Session = "",
    json: Json = False,
) -> None:
    """Send a message and print its answer. Exit status 1 when none came, 124 when it took too long."""
    from ..commands.messages import ask

    raise typer.Exit(
        ask(to, text, timeout=timeout, max_hops=max_hops, calls=calls, within=within, session=session, json=json)
    )


def status(id: MessageId, json: Json = False) -> None:
    """Show how far a message has got, step by step."""
    from ..commands.messages import status

    raise typer.Exit(status(id, json=json))


def trace(id: MessageId, json: Json = False) -> None:
    """Show the whole chain of messages that one belongs to, and what was not delivered."""
    from ..commands.messages import trace

    raise typer.Exit(trace(id, json=json))


def listed(
    limit: Annotated[int, typer.Option(metavar="N", help="Show at most this many.")] = 50,
    json: Json = False,
) -> None:
    """List the threads, the last active first."""
    from ..commands.messages import threads

    raise typer.Exit(threads(limit=limit, json=json))


def inbox(
    address: Annotated[str, typer.Argument(metavar="WHOSE", help="An address or @name; yours by default.")] = "",
    take: Annotated[bool, typer.Option("--take", help="Read what waits and mark it as seen.")] = False,
    every: Annotated[bool, typer.Option("--all", help="All addresses with waiting messages.")] = False,
    limit: Annotated[int, typer.Option(metavar="N", help="Show at most this many.")] = 50,
    json: Json = False,
) -> None:
    """Show the messages that wait for you, or for another address."""
    from ..commands.messages import inbox

    raise typer.Exit(inbox(address, take=take, every=every, limit=limit, json=json))


ABOUT = "Messages between agents, people and everything else with an address."
VERBS = {
    "send": (send, 'tieline message send @shop-codex "the build is red"\n'
             'tieline message send relay.agent.shop.fixer "the build is red"\n'
             'tieline message send relay.telegram.phone.4711 "done" --no-reply\n'
             "tieline message send relay.webhook.ci '{\"n\": 1}' --type application/json\n"
             "git log -1 | tieline message send relay.user.owner -"),
    "ask": (ask, 'tieline message ask relay.agent.shop.reviewer "is it fine?" --timeout 300'),
    "status": (status, "tieline message status 0199a2…"),
    "trace": (trace, "tieline message trace 0199a2…\ntieline message trace 0199a2… --json | jq .dead"),
    "list": (listed, "tieline message list\ntieline message list --json | jq -r '.[].id'"),
}  # fmt: skip


def add(app: typer.Typer) -> None:
    add_family(app, "message", ABOUT, VERBS, panel=MESSAGES_PANEL)
    examples = "\ntieline inbox\ntieline inbox --take\ntieline inbox --all\n"
    app.command("inbox", cls=HelpCommand, epilog=examples, rich_help_panel=MESSAGES_PANEL)(inbox)
