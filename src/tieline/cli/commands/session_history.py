"""The last events of a session's log, page by page."""

from ...client.client import Client
from ...events import Done, TurnStarted
from ...protocol.stream_frames import EventFrame

MAX_PAGES = 20
"""Of a turn, looked through for its prompt; a longer one is shown without."""


async def last_events(
    client: Client, session: str, number: int, *, upto: int | None = None, prompt: bool = False
) -> list[EventFrame]:
    """The last events of the log, as it was up to a cursor; the oldest first. `prompt`: and the beginning of the turn
    that the first of them is in."""
    events: list[EventFrame] = []
    before = None if upto is None else upto + 1
    while len(events) < number:
        page = await client.events(session, before=before, limit=min(number - len(events), 1000))
        events[:0] = page.events
        if not page.more or not page.events:
            break
        before = events[0].seq
    if prompt and events and not isinstance(events[0].event, TurnStarted):
        events[:0] = await _beginning(client, session, events[0].seq)
    return events


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
