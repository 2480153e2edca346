"""`tieline sessions|send|abort|diff|open`: the sessions at the hub."""

import asyncio
import html
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct
from msgspec.structs import replace

from ... import config as configuration
from ... import paths
from ...client.client import Client
from ...client.read_marks import COUNTED_S, ReadTurns
from ...config import Config
from ...environment import inherited
from ...errors import UsageError, invalid_value
from ...events import Done, TurnStarted
from ...ids import new_id, short_id
from ...protocol.request_bodies import NewPrompt, NewSession, Pairing
from ...protocol.stream_frames import AnyHubFrame, DeltaFrame, EventFrame, PromptFrame, Ready
from ...protocol.views import CommandView, NodeView, SessionMark
from ...sessions.records import SessionRecord
from .. import hub_connection
from ..errors import FAILED, print_error
from ..run.run_options import RunOptions, check_options, prompt_of, session_options, with_content
from ..run.terminal_io import TerminalIO
from ..run.turn_runner import EXIT_STATUS
from ..terminal.formatting import on_terminal, print_json, short_path, time_ago
from ..terminal.sanitize import clean, one_line, plain_line
from ..terminal.session_view import SessionView, ticking
from ..terminal.tables import Cell, print_rows

STATUSES = ("idle", "working", "waiting", "stuck", "failed", "closed")
STYLES = {"working": "green", "waiting": "bold yellow", "stuck": "red", "failed": "red", "closed": "dim"}
TITLES = ("id", "agent", "status", "machine", "active", "where", "what")
TITLE = 80


def list_sessions(*, every: bool, agent: str, node: str, status: str, query: str, limit: int | None, json: bool) -> int:
    if status and status not in STATUSES:
        raise invalid_value("--status", status, accepted=STATUSES)

    async def work(client: Client) -> int:
        machine = (await hub_connection.find_node(client, node)).id if node else ""
        records = await client.sessions(archived=every, agent=agent, node=machine, status=status, q=query, limit=limit)
        if json:
            print_json(records)
            return 0
        nodes = {view.id: view for view in await client.nodes()}
        marks = {mark.id: mark for mark in await client.session_marks()}
        rows = [_row(record, nodes, marks.get(record.id)) for record in records]
        print_rows(
            TITLES,
            [_styled(row) for row in rows],
            'No sessions. Start one: tieline send --new codex "your task"',
            optional=("machine", "where"),
        )
        return 0

    return hub_connection.run_with_client(work)


def _row(record: SessionRecord, nodes: dict[str, NodeView], mark: SessionMark | None) -> tuple[str, ...]:
    machine = nodes.get(record.node)
    name = machine.name or machine.id if machine else record.node
    latest = one_line(record.problem, 60) if record.status == "failed" else plain_line(record.last_line, 60)
    unread = record.turns - (mark.seen_turns if mark else 0)
    marked = ("pinned" if mark and mark.pinned else "", f"{unread} unread" if unread > 0 else "")
    what = " · ".join(part for part in (*marked, one_line(record.title, 60), latest) if part)
    return (
        short_id(record.id),
        one_line(record.agent, 20) + (" (terminal)" if record.kind == "attached" else ""),
        record.status if machine is None or machine.online else f"{record.status} (offline)",
        one_line(name, 20),
        time_ago(record.active_at),
        one_line(short_path(record.cwd), 40),
        what,
    )


def _styled(row: tuple[str, ...]) -> list[Cell]:
    id, agent, status, *rest = row
    beside = [(cell, "dim") for cell in rest[:-1]]
    return [(id, "bold"), agent, (status, STYLES.get(status.split()[0], "")), *beside, rest[-1]]


class PromptMessage(Struct, frozen=True, kw_only=True):
    """What `tieline send` was asked to do. `options` has the prompt, and with --new the agent and how it is opened."""

    options: RunOptions
    session: str = ""
    node: str = ""
    title: str = ""
    steer: bool = False
    wait: bool = False


def send(message: PromptMessage) -> int:
    _check(message)
    options = message.options
    content = with_content(prompt_of(options))
    prompt = NewPrompt(text=content.text, attachments=content.attachments, timeout_s=options.timeout)
    terminal = TerminalIO(options, Config(environ=inherited())) if options.on_ask else None

    async def work(client: Client) -> int:
        if options.agent:
            record = await _create(client, message, prompt)
            if record is None:
                return 0
        else:
            record = await hub_connection.find_session(client, message.session)
        if message.steer:
            if isinstance(result := await client.steer(record.id, prompt.text), CommandView):
                hub_connection.print_pending(result)
            return 0
        if message.wait:
            return await send_and_wait(client, record, prompt, json=options.json, terminal=terminal)
        result = await client.prompt(record.id, prompt)
        return hub_connection.print_outcome(
            result, lambda sent: f"{record.id}  {record.agent}: {sent.status}", json=options.json
        )

    return hub_connection.run_with_client(work)


ANY_SESSION = ("agent", "prompt", "cwd", "json", "attach", "timeout", "on_ask")
"""What of the options goes with a session that there is already; `cwd` is looked at by itself."""


def _check(message: PromptMessage) -> None:
    options = message.options
    check_options(replace(options, cwd="."))  # the directory may be another machine's
    defaults = RunOptions(agent="", prompt="")
    changed = [name for name in RunOptions.__struct_fields__ if getattr(options, name) != getattr(defaults, name)]
    only_new = [name for name in changed if name not in ANY_SESSION]
    only_new += [
        name for name, value in (("cwd", options.cwd), ("node", message.node), ("title", message.title)) if value
    ]
    if options.agent.startswith("-"):
        raise UsageError("--new needs an agent", field="new", hint='Such as `tieline send --new codex "fix the test"`.')
    if options.agent and message.session:
        raise UsageError("give a session or --new, not both", field="session", hint="See `tieline send --help`.")
    if not options.agent and only_new:
        raise UsageError(f"--{only_new[0].replace('_', '-')} needs --new", field=only_new[0])
    if options.on_ask and not message.wait:
        raise UsageError(
            "--on-ask needs --wait",
            field="on_ask",
            hint="Else the asks wait for you on the page, or for `tieline asks`.",
        )
    if message.steer and (options.agent or options.attach or message.wait or options.timeout):
        raise UsageError(
            "--steer cannot be combined with other options", field="steer", hint="It adds to the turn that is running."
        )
    if not options.prompt or (not options.agent and not message.session):
        raise UsageError(
            "a session and a text are needed",
            field="text",
            hint='tieline send SESSION "…", or tieline send --new AGENT "…"',
        )


async def _create(client: Client, message: PromptMessage, prompt: NewPrompt) -> SessionRecord | None:
    options = message.options
    node = (await hub_connection.find_node(client, message.node)).id if message.node else ""
    # Without a machine's name the agent is meant to work where the person is.
    cwd = options.cwd if message.node else hub_connection.absolute_path(options.cwd or ".")
    if options.resume and not options.fork:
        await _check_resume(client, options)
    config = configuration.load()
    if options.model and not node:
        from .agents_models import warn_of_model

        warn_of_model(options.agent, options.model, config)
    values = session_options(options, config.policy)
    values["cwd"] = cwd
    if not (options.policy or options.allow or options.ask or options.deny):
        del values["policy"]  # the hub's own default counts
    made = await client.create_session(
        NewSession(agent=options.agent, node=node, title=message.title or one_line(prompt.text, TITLE), **values)
    )
    if isinstance(made, CommandView):
        hub_connection.print_pending(made)
        await client.prompt(made.session, prompt)
        return None
    return made


async def _check_resume(client: Client, options: RunOptions) -> None:
    """Raises UsageError when a session has the conversation already: two must not go on with the same one."""
    for session in await client.sessions(archived=True, agent=options.agent, limit=hub_connection.MAX_SESSIONS):
        if session.native_id == options.resume:
            raise UsageError(
                f"session {short_id(session.id)} has this conversation",
                field="resume",
                hint=f'Go on there: tieline send {short_id(session.id)} "…", or in a copy: --fork.',
            )


async def send_and_wait(
    client: Client, record: SessionRecord, prompt: NewPrompt, *, json: bool, terminal: TerminalIO | None = None
) -> int:
    """Send it and show what happens until it is over; the exit status is the turn's. `terminal` decides what the turn
    asks; without it that is for others."""
    prompt = replace(prompt, id=new_id())
    watch = SessionView(record, json=json, tell_how_to_answer=terminal is None)
    if terminal is None:
        stream = client.stream(sessions=[record.id], visible=True, by="sse")
        return await _wait(client, record, prompt, watch, stream, json=json)
    from .answering_stream import answering

    with answering(client, record, watch, terminal, turn=prompt.id) as stream:
        return await _wait(client, record, prompt, watch, stream, json=json)


async def _wait(
    client: Client,
    record: SessionRecord,
    prompt: NewPrompt,
    watch: SessionView,
    stream: AsyncGenerator[AnyHubFrame, None],
    *,
    json: bool,
) -> int:
    sent = ours = False
    read = ReadTurns(client, record.id)
    ended: Done | None = None
    try:
        async with asyncio.timeout(None) as limit, aclosing(ticking(stream, watch)) as frames:
            async for frame in frames:
                read.on_frame(frame)
                match frame:
                    case Ready() if not sent:  # from here on nothing of it is missed
                        sent = True
                        await client.prompt(record.id, prompt)
                    case EventFrame(event=event):
                        if ended is None:
                            watch.show(frame)
                        if isinstance(event, TurnStarted) and event.id == prompt.id:
                            ours = True
                            read.turn_started()
                        if ours and isinstance(event, Done):
                            ended = event
                            limit.reschedule(asyncio.get_running_loop().time() + COUNTED_S)
                    case DeltaFrame() if ended is None:
                        watch.show(frame)
                    case PromptFrame(prompt=view) if view.id == prompt.id and view.status == "cancelled":
                        watch.note("the prompt was cancelled before it ran")
                        return FAILED
                    case _:
                        pass
                if ended is not None and (read.counted or json or not on_terminal()):
                    break
        if not json and on_terminal():  # a person has read it
            await read.mark_turn()
    except TimeoutError:
        pass  # it stays unread
    finally:
        watch.close()
    return FAILED if ended is None else EXIT_STATUS[ended.status]


def abort(given: str, *, json: bool) -> int:
    async def work(client: Client) -> int:
        record = await hub_connection.find_session(client, given)
        return hub_connection.print_outcome(
            await client.abort(record.id),
            lambda aborted: "interrupted" if aborted else "no turn was running",
            json=json,
        )

    return hub_connection.run_with_client(work)


def diff(given: str, *, uncommitted: bool, json: bool) -> int:
    async def work(client: Client) -> int:
        record = await hub_connection.find_session(client, given)
        changes = await client.diff(record.id, since="commit" if uncommitted else "session")
        print_diff(record, changes, json=json)
        return 0

    return hub_connection.run_with_client(work)


def print_diff(record: SessionRecord, changes: str, *, json: bool) -> None:
    if json:
        print_json({"session": record.id, "diff": changes})
    elif not on_terminal():
        sys.stdout.write(changes)
    elif changes.strip():
        from rich.console import Console

        from ..terminal.diff_view import coloured

        Console(markup=False, emoji=False, highlight=False).print(coloured(changes, cwd=record.cwd))
    else:
        print_error("tieline: nothing has changed")


def open_page(given: str, *, print_only: bool, json: bool) -> int:
    async def work(client: Client) -> int:
        path = f"/s/{(await hub_connection.find_session(client, given)).id}" if given else ""
        offer = await client.pairing(Pairing(kind="page"))
        parts = urlsplit(offer.url)
        url = urlunsplit(parts._replace(path=parts.path.rstrip("/") + path if path else parts.path))
        if json:
            print_json({"url": url, "expires_at": offer.expires_at})
            return 0
        print(clean(url))
        if not print_only and sys.stdout.isatty():
            browse(url)
        return 0

    return hub_connection.run_with_client(work)


READ_S = 5.0
"""For the browser to read the file that leads it to the page."""


def browse(url: str, *, read_s: float = READ_S) -> None:
    """In the person's browser, if there is one; its words stay off our terminal. The address has a secret in it, and
    whatever is on a command line is seen by every process: the browser gets a file that leads there."""
    import webbrowser

    folder = paths.state(inherited())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix="open-", suffix=".html", dir=folder)  # 0600
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            link = html.escape(url, quote=True)
            file.write('<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">')
            file.write(f'<meta http-equiv="refresh" content="0;url={link}"><a href="{link}">Tieline</a>\n')
        if not webbrowser.open(path.as_uri()):
            print_error("tieline: no browser found; open the address yourself, soon: it works for one browser, once.")
        else:
            time.sleep(read_s)
    finally:
        path.unlink(missing_ok=True)
