"""`tieline tail`: what a session said and did, and what it does now."""

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing

from ...client.client import Client
from ...client.read_marks import ReadTurns
from ...config import Config
from ...environment import inherited
from ...errors import invalid_value
from ...protocol.request_bodies import MarkChange
from ...protocol.stream_frames import AnyHubFrame, DeltaFrame, EventFrame, Ready, SessionFrame
from ...sessions.records import SessionRecord
from .. import hub_connection
from ..run.run_options import RunOptions
from ..terminal.formatting import on_terminal
from ..terminal.session_view import SessionView, ticking
from .session_history import last_events


def tail(given: str, *, follow: bool, number: int, json: bool, at: int | None = None) -> int:
    if number < 0:
        raise invalid_value("-n", number, field="number", hint="It must not be negative.")

    async def work(client: Client) -> int:
        record = await hub_connection.find_session(client, given)
        person = not json and on_terminal()
        answers = person and at is None and follow and sys.stdin.isatty()
        watch = SessionView(record, json=json, tell_how_to_answer=not answers)
        try:
            if answers:
                from ..run.terminal_io import TerminalIO
                from .answering_stream import answering

                options = RunOptions(agent=record.agent, prompt="", on_ask="prompt")
                with answering(client, record, watch, TerminalIO(options, Config(environ=inherited()))) as frames:
                    await _follow(client, record, watch, number, frames, person=True, prompt=True)
            elif at is None and follow:
                frames = client.stream(sessions=[record.id], visible=True, by="sse")
                await _follow(client, record, watch, number, frames, person=person, prompt=not json)
            else:
                watch.show_history(await last_events(client, record.id, number, upto=at, prompt=not json))
                if person and at is None:
                    await client.mark_session(record.id, MarkChange(seen_turns=record.turns))
            return 0
        finally:
            watch.close()

    return hub_connection.run_with_client(work)


async def _follow(
    client: Client,
    record: SessionRecord,
    watch: SessionView,
    number: int,
    stream: AsyncGenerator[AnyHubFrame, None],
    *,
    person: bool,
    prompt: bool,
) -> None:
    """`person`: somebody reads it."""
    begun = False
    read = ReadTurns(client, record.id)
    async with aclosing(ticking(stream, watch)) as frames:
        async for frame in frames:
            read.on_frame(frame)
            if isinstance(frame, Ready) and not begun:  # what comes is after its cursor; this was before
                begun = True
                watch.show_history(await last_events(client, record.id, number, upto=frame.cursor, prompt=prompt))
            elif isinstance(frame, EventFrame | DeltaFrame):
                watch.show(frame)
            if person and isinstance(frame, Ready | SessionFrame):
                await read.mark_all()
