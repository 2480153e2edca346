"""The verbs about sessions at a hub: sessions, send, tail, abort, adopt, attach, diff, open."""

from enum import StrEnum
from typing import Annotated

import typer

from ..help import HelpCommand
from .options import SESSIONS_PANEL, Json


class AttachAction(StrEnum):
    ON = "on"
    OFF = "off"


Session = Annotated[
    str, typer.Argument(metavar="SESSION", help="Its id, or enough of its beginning or end.", show_default=False)
]


def sessions(
    every: Annotated[bool, typer.Option("--all", help="Archived ones too.")] = False,
    agent: Annotated[str, typer.Option(metavar="NAME", help="Only of this agent.")] = "",
    node: Annotated[str, typer.Option(metavar="NAME", help="Only on this machine: its name or id.")] = "",
    status: Annotated[
        str, typer.Option(metavar="STATUS", help="Only idle, working, waiting, stuck, failed or closed ones.")
    ] = "",
    query: Annotated[str, typer.Option("-q", "--query", metavar="TEXT", help="Only those that mention it.")] = "",
    limit: Annotated[int | None, typer.Option(metavar="N", help="At most so many. Default: 500.")] = None,
    json: Json = False,
) -> None:
    """What runs, waits and is done at the hub, the last active first."""
    from ..commands.sessions import list_sessions

    raise typer.Exit(
        list_sessions(every=every, agent=agent, node=node, status=status, query=query, limit=limit, json=json)
    )


def send(
    session: Annotated[
        str,
        typer.Argument(metavar="SESSION", help="Its id, or enough of it; none with --new.", show_default=False),
    ] = "",
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What it should do; `-` reads it from standard input.")
    ] = "",
    new: Annotated[str, typer.Option("--new", metavar="AGENT", help="Start a session with this agent.")] = "",
    cwd: Annotated[
        str,
        typer.Option(
            metavar="DIR", help="With --new: where it works. Default: here; with --node, the home directory there."
        ),
    ] = "",
    node: Annotated[
        str, typer.Option(metavar="NAME", help="With --new: on which machine; the hub's own by default.")
    ] = "",
    policy: Annotated[
        str,
        typer.Option(metavar="NAME", help="With --new: read-only, ask, edits or full. Default: ask, or as configured."),
    ] = "",
    model: Annotated[
        str, typer.Option(metavar="NAME", help="With --new: which model; its own choice by default.")
    ] = "",
    title: Annotated[
        str, typer.Option(metavar="TEXT", help="With --new: what the list shows; its first prompt by default.")
    ] = "",
    attach: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Give it a file; repeat it for several.")
    ] = None,
    steer: Annotated[bool, typer.Option("--steer", help="Into the turn that runs now.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Show the turn, on stdout. Ctrl-C leaves; it goes on.")] = False,
    json: Json = False,
) -> None:
    """Send a prompt to a session, or start one. It runs at the hub, whether you stay or not."""
    from ..commands.sessions import PromptMessage, send

    if new and session and not text:
        session, text = "", session
    message = PromptMessage(
        session=session,
        text=text,
        new=new,
        cwd=cwd,
        node=node,
        policy=policy,
        model=model,
        title=title,
        attach=tuple(attach or ()),
        steer=steer,
        wait=wait,
        json=json,
    )
    raise typer.Exit(send(message))


def tail(
    session: Session,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Go on as things happen.")] = True,
    number: Annotated[int, typer.Option("-n", "--number", metavar="N", help="Of the last so many events.")] = 200,
    json: Annotated[bool, typer.Option("--json", help="One event per line, with its place in the log.")] = False,
) -> None:
    """What a session said and did lately, and what it does now. Ctrl-C leaves; the session goes on.

    Into a pipe, all of it goes to stdout."""
    from ..commands.sessions import tail

    raise typer.Exit(tail(session, follow=follow, number=number, json=json))


def abort(session: Session, json: Json = False) -> None:
    """Interrupt the turn that runs."""
    from ..commands.sessions import abort

    raise typer.Exit(abort(session, json=json))


def adopt(session: Session, json: Json = False) -> None:
    """Take over a session of a terminal that is closed: the same conversation, from anywhere."""
    from ..commands.terminal_sessions import adopt

    raise typer.Exit(adopt(session, json=json))


def attach(
    action: Annotated[
        AttachAction | None,
        typer.Argument(help="Switch it for a directory. Default: show it.", show_default=False),
    ] = None,
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Default: where you are.", show_default=False)] = "",
    json: Json = False,
) -> None:
    """Which terminals Tieline reads along, what it reads, and where it does not. `tieline install --attach` begins
    it."""
    from ..commands import terminal_sessions

    if action is None:
        raise typer.Exit(terminal_sessions.show(json=json))
    raise typer.Exit(terminal_sessions.switch_here(directory, on=action is AttachAction.ON, json=json))


def diff(session: Session, json: Json = False) -> None:
    """What changed in its directory since the session began."""
    from ..commands.sessions import diff

    raise typer.Exit(diff(session, json=json))


def open_page(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="Show this one.", show_default=False)] = "",
    terminal: Annotated[
        bool, typer.Option("--terminal", help="Not on the page: go on with it here, in its own harness.")
    ] = False,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the address, or the harness's command; open nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Open the page, signed in: the address lets one browser in, once. With --terminal, go on with a session in its
    own harness (`claude --resume …`)."""
    from ..commands.sessions import open_page
    from ..commands.terminal_sessions import open_in_terminal

    if terminal:
        raise typer.Exit(open_in_terminal(session, print_only=print_only, json=json))
    raise typer.Exit(open_page(session, print_only=print_only, json=json))


EXAMPLES = {
    sessions: """
tieline sessions
tieline sessions --status waiting
tieline sessions --agent codex -q "failing test" --json | jq -r '.[].id'
""",
    send: """
tieline send 1f0c2a "and now the changelog"
tieline send 1f0c2a "not that file" --steer
tieline send --new codex "fix the failing test" --cwd ~/project --wait
git diff | tieline send 1f0c2a -
""",
    tail: """
tieline tail 1f0c2a
tieline tail 1f0c2a --no-follow -n 20
tieline tail 1f0c2a --json | jq -r 'select(.type == "event") | .event.type'
""",
    abort: """
tieline abort 1f0c2a
""",
    adopt: """
tieline adopt 1f0c2a
""",
    attach: """
tieline attach
tieline attach off                       in this directory and below it
tieline attach on ~/project
""",
    diff: """
tieline diff 1f0c2a
tieline diff 1f0c2a | git apply --reverse
""",
    open_page: """
tieline open
tieline open 1f0c2a
tieline open --print                     for another browser on this machine
tieline open 1f0c2a --terminal           go on in its own harness
""",
}


def add(app: typer.Typer) -> None:
    for verb, examples in EXAMPLES.items():
        name = "open" if verb is open_page else verb.__name__
        app.command(name, cls=HelpCommand, epilog=examples, rich_help_panel=SESSIONS_PANEL)(verb)
