"""Follows a team's conversation at the hub: its log, what its members' agents do meanwhile, and what they ask."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Protocol

from ...background_tasks import cancel_and_wait
from ...backoff import Backoff
from ...client.client import Client
from ...client.errors import HubError, HubFailed, HubUnreachable
from ...client.stream import Connection
from ...errors import UsageError
from ...events import AnyEvent, TurnStarted
from ...protocol import teams as p
from ...protocol.stream_frames import AnyHubFrame, AskFrame, DeltaFrame, EventFrame, GoneFrame, Ready, SessionFrame
from ...sessions.records import AskRecord

WAIT_S = 20.0
PAGE = 200
BACKOFF = Backoff(0.2, 3.0)


class TeamListener(Protocol):
    def entries_added(self, entries: Sequence[p.TeamEntry], view: p.TeamView) -> None:
        """What was added to the log, and how the conversation stands."""
        ...

    def session_event(self, session: str, event: AnyEvent) -> None:
        """What a member's agent does, deltas too."""
        ...

    def turn_joined(self, session: str) -> None:
        """A turn of it has begun before: what was streamed of its present words is not told."""
        ...

    def asks_changed(self, asks: Sequence[AskRecord]) -> None:
        """All that wait for a decision, the oldest first."""
        ...

    def connection_changed(self, problem: str) -> None:
        """Empty: the hub is there."""
        ...


class TeamFollower:
    """`run` goes on for ever, also while the hub is away. Raises what coming back would not help with."""

    def __init__(self, client: Client, id: str, listener: TeamListener) -> None:
        self.directories: dict[str, str] = {}  # by session
        self._client = client
        self._id = id
        self._listener = listener
        self._asks: dict[str, AskRecord] = {}
        self._sessions: tuple[str, ...] = ()

    async def run(self) -> None:
        stream: asyncio.Task[None] | None = None
        after = failures = 0
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    page = await self._client.team_entries(self._id, after=after, limit=PAGE, wait_s=WAIT_S)
                    view = await self._client.team(self._id) if page.entries else None
                    failures = 0
                except (HubUnreachable, HubFailed) as error:
                    if isinstance(error, HubFailed) and 400 <= error.status < 500:
                        raise
                    failures += 1
                    self._listener.connection_changed(error.message)
                    await asyncio.sleep(BACKOFF.delay(failures))
                    continue
                if view is None:
                    continue
                after = page.entries[-1].seq
                self._listener.entries_added(page.entries, view)
                sessions = tuple(member.session for member in view.who if member.session)
                if sessions != self._sessions:
                    self._sessions = sessions
                    if stream is not None:
                        await cancel_and_wait(stream)
                    stream = group.create_task(self._follow_sessions())

    async def _follow_sessions(self) -> None:
        caught_up = False
        frames = self._client.stream(
            sessions=self._sessions, visible=True, by="sse", on_connection=self._on_stream_connection
        )
        async with aclosing(frames):
            async for frame in frames:
                if isinstance(frame, Ready):
                    if not caught_up or frame.state != "ok":
                        await self._catch_up(frame.cursor)
                        caught_up = True
                    self._on_ready(frame)
                else:
                    self._on_frame(frame)

    def _on_ready(self, frame: Ready) -> None:
        self.directories = {each.id: each.cwd for each in frame.snapshot.sessions if each.id in self._sessions}
        self._asks = {each.id: each for each in frame.snapshot.asks if each.session in self._sessions}
        self._listener.connection_changed("")
        self._tell_asks()

    def _on_frame(self, frame: AnyHubFrame) -> None:
        match frame:
            case EventFrame(session=session, event=event) | DeltaFrame(session=session, event=event):
                self._listener.session_event(session, event)
            case AskFrame(ask=ask) if ask.session in self._sessions:
                if ask.status == "pending":
                    self._asks[ask.id] = ask
                else:
                    self._asks.pop(ask.id, None)
                self._tell_asks()
            case GoneFrame(kind="ask", id=id) if self._asks.pop(id, None):
                self._tell_asks()
            case SessionFrame(session=session) if session.id in self._sessions:
                self.directories[session.id] = session.cwd
            case _:
                pass

    async def _catch_up(self, cursor: int) -> None:
        """What running turns did before the stream began."""
        for session in self._sessions:
            try:
                page = await self._client.events(session, limit=PAGE)
            except (UsageError, HubError):  # it does not exist before its first turn
                continue
            events = [frame.event for frame in page.events if frame.seq <= cursor]
            begin = max((n for n, event in enumerate(events) if isinstance(event, TurnStarted)), default=0)
            for event in events[begin:]:
                self._listener.session_event(session, event)
            self._listener.turn_joined(session)

    def _tell_asks(self) -> None:
        self._listener.asks_changed(sorted(self._asks.values(), key=lambda ask: (ask.created_at, ask.id)))

    def _on_stream_connection(self, connection: Connection) -> None:
        if connection.state == "lost":
            self._listener.connection_changed(connection.problem)
