"""`tieline sessions|send|tail|abort|diff|open`: the sessions at the hub."""

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

from ... import paths
from ...background_tasks import cancel_and_wait
from ...client.client import Client
from ...drivers.base import Attachment
from ...environment import inherited
from ...errors import UsageError
from ...events import Done, TurnStarted
from ...ids import new_id
from ...protocol.request_bodies import NewPrompt, NewSession, Pairing
from ...protocol.stream_frames import AnyHubFrame, DeltaFrame, EventFrame, PromptFrame, Ready
from ...protocol.views import CommandView, NodeView
from ...sessions.records import SessionRecord
from .. import hub_connection
from ..errors import FAILED, print_error
from ..run.run_options import attachment
from ..run.turn_runner import EXIT_STATUS, TICK_S
from ..terminal.formatting import on_terminal, print_json, short_id, short_path, time_ago
from ..terminal.sanitize import clean, one_line
from ..terminal.session_view import SessionView
from ..terminal.tables import Cell, print_rows

STATUSES = ("idle", "working", "waiting", "stuck", "failed", "closed")
STYLES = {"working": "green", "waiting": "bold yellow", "stuck": "red", "failed": "red", "closed": "dim"}
TITLES = ("id", "agent", "status", "machine", "active", "where", "what")
TITLE = 80
MAX_PAGES = 20
"""Of a turn, looked through for its prompt; a longer one is shown without."""


def list_sessions(*, every: bool, agent: str, node: str, status: str, query: str, limit: int | None, json: bool) -> int:
    if status and status not in STATUSES:
        raise UsageError(f"--status is {status!r}", field="status", hint=f"It must be one of {', '.join(STATUSES)}.")

    async def work(client: Client) -> int:
        machine = (await hub_connection.find_node(client, node)).id if node else ""
        found = await client.sessions(archived=every, agent=agent, node=machine, status=status, q=query, limit=limit)
        if json:
            print_json(found)
            return 0
        nodes = {one.id: one for one in await client.nodes()}
        rows = [_row(one, nodes) for one in found]
        print_rows(
            TITLES, [_styled(row) for row in rows], 'No sessions. Start one: tieline send --new codex "your task"'
        )
        return 0

    return hub_connection.run_with_client(work)


def _row(record: SessionRecord, nodes: dict[str, NodeView]) -> tuple[str, ...]:
    machine = nodes.get(record.node)
    name = machine.name or machine.id if machine else record.node
    said = record.problem if record.status == "failed" else record.last_line
    what = " · ".join(part for part in (one_line(record.title, 60), one_line(said, 60)) if part)
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
    """What `tieline send` was asked to do."""

    text: str
    session: str = ""
    new: str = ""
    cwd: str = ""
    node: str = ""
    policy: str = ""
    model: str = ""
    title: str = ""
    attach: tuple[str, ...] = ()
    steer: bool = False
    wait: bool = False
    json: bool = False


def send(message: PromptMessage) -> int:
    _check(message)
    text = hub_connection.read_text(message.text)
    files = tuple(_content(path) for path in message.attach)

    async def work(client: Client) -> int:
        if message.new:
            record = await _create(client, message, text)
            if record is None:
                return 0
        else:
            record = await hub_connection.find_session(client, message.session)
        if message.steer:
            if isinstance(told := await client.steer(record.id, text), CommandView):
                hub_connection.print_pending(told)
            return 0
        prompt = NewPrompt(text=text, attachments=files)
        if message.wait:
            return await _wait(client, record, prompt, json=message.json)
        told = await client.prompt(record.id, prompt)
        if message.json:
            print_json(told)
        elif isinstance(told, CommandView):
            hub_connection.print_pending(told)
        else:
            print(f"{record.id}  {record.agent}: {told.status}")
        return 0

    return hub_connection.run_with_client(work)


def _check(message: PromptMessage) -> None:
    only_new = [name for name in ("cwd", "node", "policy", "model", "title") if getattr(message, name)]
    if message.new and message.session:
        raise UsageError("give a session or --new, not both", field="session", hint="See `tieline send --help`.")
    if not message.new and only_new:
        raise UsageError(f"--{only_new[0]} needs --new", field=only_new[0])
    if message.steer and (message.new or message.attach or message.wait):
        raise UsageError(
            "--steer cannot be combined with other options", field="steer", hint="It adds to the turn that is running."
        )
    if not message.text or (not message.new and not message.session):
        raise UsageError(
            "a session and a text are needed",
            field="text",
            hint='tieline send SESSION "…", or tieline send --new AGENT "…"',
        )


async def _create(client: Client, message: PromptMessage, text: str) -> SessionRecord | None:
    node = (await hub_connection.find_node(client, message.node)).id if message.node else ""
    # Without a machine's name the agent is meant to work where the person is.
    cwd = message.cwd if message.node else hub_connection.absolute_path(message.cwd or ".")
    made = await client.create_session(
        NewSession(
            agent=message.new,
            node=node,
            cwd=cwd,
            policy=message.policy or None,
            model=message.model,
            title=message.title or one_line(text, TITLE),
        )
    )
    if isinstance(made, CommandView):
        hub_connection.print_pending(made)
        await client.prompt(made.session, text)
        return None
    return made


def _content(path: str) -> Attachment:
    found = attachment(path)
    return replace(found, data=Path(found.path).read_bytes(), path="")


async def _wait(client: Client, record: SessionRecord, prompt: NewPrompt, *, json: bool) -> int:
    """Send it and show what happens until it is over; the exit status is the turn's."""
    prompt = replace(prompt, id=new_id())
    watch = SessionView(record, json=json)
    stream = client.stream(sessions=[record.id], visible=True, by="sse")
    sent = ours = False
    try:
        async with aclosing(_ticking(stream, watch)) as frames:
            async for frame in frames:
                match frame:
                    case Ready() if not sent:  # from here on nothing of it is missed
                        sent = True
                        await client.prompt(record.id, prompt)
                    case EventFrame(event=event):
                        watch.show(frame)
                        ours = ours or (isinstance(event, TurnStarted) and event.id == prompt.id)
                        if ours and isinstance(event, Done):
                            return EXIT_STATUS[event.status]
                    case DeltaFrame():
                        watch.show(frame)
                    case PromptFrame(prompt=view) if view.id == prompt.id and view.status == "cancelled":
                        watch.note("the prompt was cancelled before it ran")
                        return FAILED
                    case _:
                        pass
    finally:
        watch.close()
    return FAILED


async def _ticking(frames: AsyncGenerator[AnyHubFrame, None], watch: SessionView) -> AsyncGenerator[AnyHubFrame, None]:
    """The frames, while the view's clock goes on."""

    async def tick() -> None:
        while True:
            await asyncio.sleep(TICK_S)
            watch.tick()

    clock = asyncio.create_task(tick())
    try:
        async with aclosing(frames):
            async for frame in frames:
                yield frame
    finally:
        await cancel_and_wait(clock)


def tail(given: str, *, follow: bool, number: int, json: bool) -> int:
    if number < 0:
        raise UsageError(f"-n is {number}", field="number", hint="It must not be negative.")

    async def work(client: Client) -> int:
        record = await hub_connection.find_session(client, given)
        watch = SessionView(record, json=json)
        try:
            if not follow:
                for frame in await _last(client, record.id, number, prompt=not json):
                    watch.show(frame)
                return 0
            begun = False
            async with aclosing(_ticking(client.stream(sessions=[record.id], visible=True, by="sse"), watch)) as frames:
                async for frame in frames:
                    if isinstance(frame, Ready) and not begun:  # what comes is after its cursor; this was before
                        begun = True
                        for earlier in await _last(client, record.id, number, upto=frame.cursor, prompt=not json):
                            watch.show(earlier)
                    elif isinstance(frame, EventFrame | DeltaFrame):
                        watch.show(frame)
            return 0
        finally:
            watch.close()

    return hub_connection.run_with_client(work)


async def _last(
    client: Client, session: str, number: int, *, upto: int | None = None, prompt: bool = False
) -> list[EventFrame]:
    """The last events of the log, as it was up to a cursor; the oldest first. `prompt`: and the beginning of the turn
    that the first of them is in."""
    found: list[EventFrame] = []
    before = None if upto is None else upto + 1
    while len(found) < number:
        page = await client.events(session, before=before, limit=min(number - len(found), 1000))
        found[:0] = page.events
        if not page.more or not page.events:
            break
        before = found[0].seq
    if prompt and found and not isinstance(found[0].event, TurnStarted):
        found[:0] = await _beginning(client, session, found[0].seq)
    return found


async def _beginning(client: Client, session: str, before: int) -> list[EventFrame]:
    for _ in range(MAX_PAGES):
        page = await client.events(session, before=before, limit=1000)
        for frame in reversed(page.events):
            if isinstance(frame.event, TurnStarted):
                return [frame]
            if isinstance(frame.event, Done):  # the log was trimmed
                return []
        if not page.more or not page.events:
            break
        before = page.events[0].seq
    return []


def abort(given: str, *, json: bool) -> int:
    async def work(client: Client) -> int:
        record = await hub_connection.find_session(client, given)
        told = await client.abort(record.id)
        if json:
            print_json(told)
        elif isinstance(told, CommandView):
            hub_connection.print_pending(told)
        else:
            print("interrupted" if told else "no turn was running")
        return 0

    return hub_connection.run_with_client(work)


def diff(given: str, *, json: bool) -> int:
    async def work(client: Client) -> int:
        record = await hub_connection.find_session(client, given)
        changes = await client.diff(record.id)
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
        return 0

    return hub_connection.run_with_client(work)


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
