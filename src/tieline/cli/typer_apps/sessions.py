"""The verbs about sessions at a hub: sessions, send, tail, abort, retry, rename, archive, fork, adopt, attach, diff,
open."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from .. import completion_values
from ..help import HelpCommand
from .options import AGENT, POLICY, SESSIONS_PANEL, Branch, InWorktree, Json, Session, opens_an_agent, run_options


class AttachAction(StrEnum):
    ON = "on"
    OFF = "off"


Sessions = Annotated[
    list[str],
    typer.Argument(
        metavar="SESSION…",
        help="Their ids, or enough of the beginning or end.",
        show_default=False,
        autocompletion=completion_values.sessions,
    ),
]


def sessions(
    every: Annotated[bool, typer.Option("--all", help="Show archived ones too.")] = False,
    agent: Annotated[
        str, typer.Option(metavar="NAME", help="Only of this agent.", autocompletion=completion_values.agents)
    ] = "",
    node: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Only on this machine: its name or id.", autocompletion=completion_values.nodes
        ),
    ] = "",
    status: Annotated[
        str, typer.Option(metavar="STATUS", help="Only idle, working, waiting, stuck, failed or closed ones.")
    ] = "",
    query: Annotated[
        str, typer.Option("-q", "--query", metavar="TEXT", help="Only those that mention this text.")
    ] = "",
    limit: Annotated[int | None, typer.Option(metavar="N", help="Show at most this many. Default: 500.", min=1)] = None,
    json: Json = False,
) -> None:
    """List the sessions at the hub, the last active first."""
    from ..commands.sessions import list_sessions

    raise typer.Exit(
        list_sessions(every=every, agent=agent, node=node, status=status, query=query, limit=limit, json=json)
    )


@opens_an_agent(after="wait")
def send(
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION",
            help="Its id, or enough of it; none with --new.",
            show_default=False,
            autocompletion=completion_values.sessions,
        ),
    ] = "",
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What it should do; `-` reads it from standard input.")
    ] = "",
    new: Annotated[
        str,
        typer.Option(
            "--new", metavar="AGENT", help="Start a session with this agent.", autocompletion=completion_values.agents
        ),
    ] = "",
    node: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="With --new: the machine to run on. Default: the hub's own.",
            autocompletion=completion_values.nodes,
        ),
    ] = "",
    title: Annotated[str, typer.Option(metavar="TEXT", help="With --new: its title. Default: its first prompt.")] = "",
    steer: Annotated[bool, typer.Option("--steer", help="Add it to the turn that is running now.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Show the turn on stdout. Ctrl-C leaves; the turn goes on.")
    ] = False,
    on_ask: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="With --wait, who decides what the turn asks: prompt (you, at the terminal), allow or deny. Default: "
            "nobody here; it waits on the page and in `tieline asks`.",
            rich_help_panel=POLICY,
        ),
    ] = "",
    cwd: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="Where it works. Default: here; with --node, the home directory there.",
            rich_help_panel=AGENT,
        ),
    ] = "",
    worktree: InWorktree = False,
    branch: Branch = "",
    json: Json = False,
    **opening: Any,
) -> None:
    """Send a prompt to a session, or start one. It runs at the hub, whether you stay or not.

    How the agent is opened (policy, agent, conversation, limits) goes with --new, except files and the time limit."""
    if new and session and not text:
        session, text = "", session
    given = {**locals(), **opening, "agent": new, "prompt": text}
    from ..commands.sessions import PromptMessage, send

    options = run_options(given)
    raise typer.Exit(
        send(PromptMessage(options=options, session=session, node=node, title=title, steer=steer, wait=wait))
    )


def tail(
    session: Session,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Keep following it.")] = True,
    number: Annotated[int, typer.Option("-n", "--number", metavar="N", help="Show the last N events.")] = 200,
    at: Annotated[
        int | None,
        typer.Option(
            metavar="SEQ", min=1, help="Show the log up to this place, as `tieline search` gives it, and exit."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One event per line, with its place in the log.")] = False,
) -> None:
    """Show what a session said and did lately, and follow it. On a terminal one key answers its asks.
    Ctrl-C leaves; the session goes on.

    Into a pipe, all of it goes to stdout."""
    from ..commands.tail import tail

    raise typer.Exit(tail(session, follow=follow, number=number, json=json, at=at))


def abort(session: Session, json: Json = False) -> None:
    """Interrupt the running turn."""
    from ..commands.sessions import abort

    raise typer.Exit(abort(session, json=json))


def retry(
    session: Session,
    prompt: Annotated[
        str,
        typer.Argument(
            metavar="PROMPT", help="Its id, or enough of it. Default: the last one, if it failed.", show_default=False
        ),
    ] = "",
    json: Json = False,
) -> None:
    """Send a prompt again that failed or whose outcome is unknown. Each is sent again once, however often you ask."""
    from ..commands.session_actions import retry

    raise typer.Exit(retry(session, prompt, json=json))


def rename(
    session: Session,
    title: Annotated[str, typer.Argument(metavar="TITLE", help="What the list shows.", show_default=False)],
    json: Json = False,
) -> None:
    """Give a session another title."""
    from ..commands.session_actions import rename

    raise typer.Exit(rename(session, title, json=json))


def archive(sessions: Sessions, json: Json = False) -> None:
    """Hide sessions from lists; `tieline sessions --all` shows them. Nothing is deleted."""
    from ..commands.session_actions import archive

    raise typer.Exit(archive(sessions, archived=True, json=json))


def unarchive(sessions: Sessions, json: Json = False) -> None:
    """List archived sessions again."""
    from ..commands.session_actions import archive

    raise typer.Exit(archive(sessions, archived=False, json=json))


def fork(
    session: Session,
    prompt: Annotated[
        str,
        typer.Argument(
            metavar="PROMPT", help="What the copy should do; `-` reads it from standard input.", show_default=False
        ),
    ] = "",
    title: Annotated[str, typer.Option(metavar="TEXT", help="The title of the copy.")] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Show the turn on stdout. Ctrl-C leaves; the turn goes on.")
    ] = False,
    json: Json = False,
) -> None:
    """Continue in a copy of a session's conversation. The session itself does not change."""
    from ..commands.session_actions import fork

    raise typer.Exit(fork(session, prompt, title=title, wait=wait, json=json))


def adopt(session: Session, json: Json = False) -> None:
    """Continue here the conversation of a terminal that was closed."""
    from ..commands.terminal_sessions import adopt

    raise typer.Exit(adopt(session, json=json))


def attach(
    action: Annotated[
        AttachAction | None,
        typer.Argument(help="Switch it on or off for a directory. Default: show the state.", show_default=False),
    ] = None,
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="The directory. Default: the current one.", show_default=False)
    ] = "",
    json: Json = False,
) -> None:
    """Show which of your terminals Tieline follows, what it reads, and where it does not. `tieline install
    --attach` switches it on."""
    from ..commands import terminal_sessions

    if action is None:
        raise typer.Exit(terminal_sessions.show(json=json))
    raise typer.Exit(terminal_sessions.switch_here(directory, on=action is AttachAction.ON, json=json))


def diff(
    session: Session,
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Show what changed since the last commit instead.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what changed in a session's directory since it began."""
    from ..commands.sessions import diff

    raise typer.Exit(diff(session, uncommitted=uncommitted, json=json))


def open_page(
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION", help="Show this one.", show_default=False, autocompletion=completion_values.sessions
        ),
    ] = "",
    terminal: Annotated[
        bool, typer.Option("--terminal", help="Continue it here, in its own harness, instead of on the page.")
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
tieline send --new claude-code "tidy the docs" --policy edits --deny network
tieline send --new codex "try SQLite instead" --branch sqlite
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
    retry: """
tieline retry 1f0c2a                     its last prompt, which failed
tieline retry 1f0c2a 7be04f
""",
    rename: """
tieline rename 1f0c2a "the failing test"
""",
    archive: """
tieline archive 1f0c2a 9ad310
""",
    unarchive: """
tieline unarchive 1f0c2a
""",
    fork: """
tieline fork 1f0c2a
tieline fork 1f0c2a "try it with SQLite instead" --title "with SQLite"
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
tieline diff 1f0c2a --uncommitted
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
