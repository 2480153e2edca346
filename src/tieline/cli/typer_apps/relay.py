"""The verbs about messages at a hub: message, inbox, dead, channels. The work is in mail.py and channels.py."""

from typing import Annotated

import typer

from ..help import HelpCommand, family

PANEL = "Messages"
FIND = "Which"

Json = Annotated[bool, typer.Option("--json", help="JSON on stdout.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The message's id.", show_default=False)]
To = Annotated[str, typer.Argument(metavar="ADDRESS", help="Who it is for: relay.agent.<session>, relay.user.owner …")]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="What to say; `-` reads it from standard input.")]
Within = Annotated[
    str, typer.Option(metavar="ID", help="The message you work on: this one inherits what is left of its budget.")
]
Session = Annotated[str, typer.Option(metavar="ID", help="Send it as this session.")]
Hops = Annotated[int | None, typer.Option("--max-hops", metavar="N", help="Pass it on at most so often. Default: 8.")]
Calls = Annotated[
    int | None, typer.Option(metavar="N", help="At most so many messages and turns may come of it. Default: 32.")
]
Pattern = Annotated[
    str, typer.Option(metavar="PATTERN", help="Whom they were for: relay.agent.>", rich_help_panel=FIND)
]
From = Annotated[str, typer.Option("--from", metavar="PATTERN", help="Who sent them.", rich_help_panel=FIND)]
Reason = Annotated[str, typer.Option(metavar="CODE", help="Why they died: gave_up …", rich_help_panel=FIND)]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Their messages' ids.", show_default=False)]


# --- message -------------------------------------------------------------------------------------------------


def send(
    to: To,
    text: Text,
    reply_to: Annotated[str, typer.Option(metavar="ADDRESS", help="Where an answer goes; to you by default.")] = "",
    no_reply: Annotated[bool, typer.Option("--no-reply", help="No answer is wanted.")] = False,
    in_reply_to: Annotated[str, typer.Option(metavar="ID", help="The message that this answers.")] = "",
    thread: Annotated[str, typer.Option(metavar="ID", help="The thread it belongs to; a new one by default.")] = "",
    content_type: Annotated[
        str, typer.Option("--type", metavar="TYPE", help="The text is this: application/json. Default: plain text.")
    ] = "",
    attach: Annotated[
        list[str] | None, typer.Option(metavar="FILE|URL", help="Goes with it, by reference; repeat it for several.")
    ] = None,
    ttl: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Of no use after that. Default: an hour.")
    ] = None,
    max_hops: Hops = None,
    calls: Calls = None,
    key: Annotated[str, typer.Option(metavar="KEY", help="The same key again is the same message.")] = "",
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


def status(id: Id, json: Json = False) -> None:
    """Where a message is, step by step."""
    from ..commands.messages import status

    raise typer.Exit(status(id, json=json))


def trace(id: Id, json: Json = False) -> None:
    """The whole chain of messages that one belongs to, and what of it did not arrive."""
    from ..commands.messages import trace

    raise typer.Exit(trace(id, json=json))


def listed(
    limit: Annotated[int, typer.Option(metavar="N", help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """The threads, the last active first."""
    from ..commands.messages import threads

    raise typer.Exit(threads(limit=limit, json=json))


# --- inbox ---------------------------------------------------------------------------------------------------


def inbox(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Whose; yours by default.")] = "",
    take: Annotated[bool, typer.Option("--take", help="Read what waits: it is seen then.")] = False,
    every: Annotated[bool, typer.Option("--all", help="All addresses that mail waits for.")] = False,
    limit: Annotated[int, typer.Option(metavar="N", help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """What waits for you, or for another address."""
    from ..commands.messages import inbox

    raise typer.Exit(inbox(address, take=take, every=every, limit=limit, json=json))


# --- dead ----------------------------------------------------------------------------------------------------


def dead_list(
    pattern: Pattern = "",
    sender: From = "",
    reason: Reason = "",
    limit: Annotated[int, typer.Option(metavar="N", help="At most so many.")] = 100,
    json: Json = False,
) -> None:
    """What did not arrive, and why."""
    from ..commands.dead_letters import listed

    raise typer.Exit(listed(pattern, sender, reason, limit=limit, json=json))


def dead_show(id: Id, json: Json = False) -> None:
    """One dead letter, whole."""
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
    """Throw dead letters away for good."""
    from ..commands.dead_letters import drop

    raise typer.Exit(drop(ids or [], pattern, sender, reason, json=json))


# --- channels ------------------------------------------------------------------------------------------------


def channels_list(json: Json = False) -> None:
    """The channels of the hub: how each is, and its last error."""
    from ..commands.channels import show

    raise typer.Exit(show(json=json))


def channels_check(json: Json = False) -> None:
    """Check the configuration file's channels without running them. Needs no hub."""
    from ..commands.channels import checked

    raise typer.Exit(checked(json=json))


def channels_reload(
    yes: Annotated[bool, typer.Option("--yes", help="Trust new code, rights and secrets without asking.")] = False,
    json: Json = False,
) -> None:
    """Have the hub look at the configuration now; asks before it trusts what is new. Only what changed is made anew."""
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


GROUPS = {
    "message": (
        "Messages between agents, people and everything else with an address.",
        {
            "send": (send, 'tieline message send relay.agent.shop.fixer "the build is red"\n'
                     'tieline message send relay.telegram.phone.4711 "done" --no-reply\n'
                     "tieline message send relay.webhook.ci '{\"n\": 1}' --type application/json\n"
                     "git log -1 | tieline message send relay.user.owner -"),
            "ask": (ask, 'tieline message ask relay.agent.shop.reviewer "is it fine?" --timeout 300'),
            "status": (status, "tieline message status 0199a2…"),
            "trace": (trace, "tieline message trace 0199a2…\ntieline message trace 0199a2… --json | jq .dead"),
            "list": (listed, "tieline message list\ntieline message list --json | jq -r '.[].id'"),
        },
    ),
    "dead": (
        "Messages that did not arrive: look at them, send them again, drop them.",
        {
            "list": (dead_list, "tieline dead list\ntieline dead list --pattern 'relay.agent.>' --reason gave_up"),
            "show": (dead_show, "tieline dead show 0199a2…"),
            "retry": (dead_retry, "tieline dead retry 0199a2…\ntieline dead retry --pattern 'relay.webhook.ci.>'"),
            "drop": (dead_drop, "tieline dead drop 0199a2…\ntieline dead drop --reason hops_exceeded"),
        },
    ),
    "channels": (
        "Channels deliver messages: to agents, Telegram, webhooks, notifications, plugins.",
        {
            "list": (channels_list, "tieline channels list"),
            "check": (channels_check, "tieline channels check"),
            "reload": (channels_reload, "tieline channels reload\ntieline channels reload --yes"),
            "test": (channels_test, "tieline channels test phone\ntieline channels test ci --text hello"),
        },
    ),
}  # fmt: skip


def add(app: typer.Typer) -> None:
    for name, (about, verbs) in GROUPS.items():
        first = "\n".join(examples.splitlines()[0] for _, examples in verbs.values())
        group = family(app, name, about, panel=PANEL, examples=first)
        for verb, (work, examples) in verbs.items():
            group.command(verb, cls=HelpCommand, epilog=examples)(work)
    examples = "\ntieline inbox\ntieline inbox --take\ntieline inbox --all\n"
    app.command("inbox", cls=HelpCommand, epilog=examples, rich_help_panel=PANEL)(inbox)
