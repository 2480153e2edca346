"""`tieline tail`: what a session said and did, and what it does now."""

import sys
from contextlib import aclosing

from ...client.client import Client
from ...errors import UsageError
from ...protocol.stream_frames import DeltaFrame, EventFrame, Ready
from ...sessions.records import SessionRecord
from .. import hub_connection
from ..terminal.formatting import on_terminal
from ..terminal.session_view import SessionView, ticking
from .session_history import last_events


def tail(given: str, *, follow: bool, number: int, json: bool, at: int | None = None) -> int:
    if number < 0:
        raise UsageError(f"-n is {number}", field="number", hint="It must not be negative.")

    async def work(client: Client) -> int:
        record = await hub_connection.find_session(client, given)
        if at is None and follow and not json and on_terminal() and sys.stdin.isatty():
            from .answering_tail import AnsweringTail

            await AnsweringTail(client, record).follow(number)
            return 0
        watch = SessionView(record, json=json)
        try:
            if at is None and follow:
                await _follow(client, record, watch, number, prompt=not json)
            else:
                for frame in await last_events(client, record.id, number, upto=at, prompt=not json):
                    watch.show(frame)
            return 0
        finally:
            watch.close()

    return hub_connection.run_with_client(work)


async def _follow(client: Client, record: SessionRecord, watch: SessionView, number: int, *, prompt: bool) -> None:
    begun = False
    async with aclosing(ticking(client.stream(sessions=[record.id], visible=True, by="sse"), watch)) as frames:
        async for frame in frames:
            if isinstance(frame, Ready) and not begun:  # what comes is after its cursor; this was before
                begun = True
                for earlier in await last_events(client, record.id, number, upto=frame.cursor, prompt=prompt):
                    watch.show(earlier)
            elif isinstance(frame, EventFrame | DeltaFrame):
                watch.show(frame)
