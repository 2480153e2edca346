"""The present, held in memory: sessions, asks, prompts, nodes, teams, commands and marks, as the bus's tables
have them.

Every hub on a bus holds the same. Reading costs nothing. A subscriber gets each later change as the frame that clients
get; values that are present at the start are not announced: they are in the snapshot.
"""

from collections.abc import Callable, Iterable

import msgspec

from ...bus.base import Bus
from ...bus.table_cache import TableCache
from ...protocol.stream_frames import (
    AnyHubFrame,
    AskFrame,
    CommandFrame,
    GoneFrame,
    MarkFrame,
    NodeFrame,
    PromptFrame,
    SessionFrame,
    TeamFrame,
)
from ...protocol.teams import TeamRecord
from ...protocol.views import CommandView, NodeView, PromptView, SessionMark, Snapshot, view
from ...sessions.records import ASKS, PROMPTS, SESSIONS, AskRecord, PromptRecord, SessionRecord
from ...teams.records import TEAMS, decode_record

NODES = "nodes"
COMMANDS = "commands"
MARKS = "session_marks"
MAX_TASK_LINE = 300
"""Characters of a team's task that every client is given; `GET teams/{id}` has all of it."""

StateListener = Callable[[AnyHubFrame], None]


class LiveState:
    """`async with LiveState(bus) as state`: inside, all present values are known and kept up to date."""

    def __init__(self, bus: Bus) -> None:
        self.sessions: dict[str, SessionRecord] = {}
        self.asks: dict[str, AskRecord] = {}  # pending
        self.prompts: dict[str, PromptView] = {}  # waiting and running, by `<session>.<id>`
        self.nodes: dict[str, NodeView] = {}
        self.teams: dict[str, TeamRecord] = {}  # with the first line of their tasks
        self.commands: dict[str, CommandView] = {}
        self.marks: dict[str, SessionMark] = {}  # by session
        self._caches = tuple(
            TableCache(bus.table(name), apply)
            for name, apply in (
                (SESSIONS, self._session),
                (ASKS, self._ask),
                (PROMPTS, self._prompt),
                (NODES, self._node),
                (TEAMS, self._team),
                (COMMANDS, self._command),
                (MARKS, self._mark),
            )
        )
        self._listeners: list[StateListener] = []
        self._session_ids: tuple[str, ...] | None = None

    async def __aenter__(self) -> "LiveState":
        for cache in self._caches:
            cache.start()
        try:
            await self.wait_loaded()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for cache in self._caches:
            await cache.stop()

    async def wait_loaded(self) -> None:
        """All values that are present now have been read."""
        for cache in self._caches:
            await cache.wait_loaded()

    @property
    def session_ids(self) -> tuple[str, ...]:
        """Of all sessions that are present now: one value for all who ask, until one comes or goes."""
        if self._session_ids is None:
            self._session_ids = tuple(self.sessions)
        return self._session_ids

    def snapshot(self, sessions: Iterable[SessionRecord] | None = None) -> Snapshot:
        """The present, with all sessions or with these, and their marks."""
        shown = self.sessions if sessions is None else {session.id: session for session in sessions}
        return Snapshot(
            sessions=tuple(shown.values()),
            asks=tuple(sorted(self.asks.values(), key=lambda ask: ask.created_at)),
            prompts=tuple(sorted(self.prompts.values(), key=lambda prompt: prompt.place)),
            nodes=tuple(self.nodes.values()),
            teams=tuple(self.teams.values()),
            marks=tuple(mark for mark in self.marks.values() if mark.id in shown),
        )

    def subscribe(self, callback: StateListener) -> Callable[[], None]:
        """Calls it with every change from now on, in the loop's own thread; it must not wait. Gives the way out."""
        self._listeners.append(callback)

        def unsubscribe() -> None:
            if callback in self._listeners:
                self._listeners.remove(callback)

        return unsubscribe

    # --- one function per table: keep it, and the frame that says so ---

    def _session(self, key: str, value: bytes | None, is_news: bool) -> None:
        if value is None:
            if self.sessions.pop(key, None) is not None:
                self._session_ids = None
                self._notify(GoneFrame(kind="session", id=key), is_news)
            return
        if key not in self.sessions:
            self._session_ids = None
        record = self.sessions[key] = _session(value)
        self._notify(SessionFrame(session=record), is_news)

    def _ask(self, key: str, value: bytes | None, is_news: bool) -> None:
        if value is None:
            if self.asks.pop(key, None) is not None:
                self._notify(GoneFrame(kind="ask", id=key), is_news)
            return
        record = _ask(value)
        if record.status == "pending":
            self.asks[key] = record
        else:
            self.asks.pop(key, None)
        self._notify(AskFrame(ask=record), is_news)

    def _prompt(self, key: str, value: bytes | None, is_news: bool) -> None:
        if value is None:
            if (known := self.prompts.pop(key, None)) is not None:
                self._notify(GoneFrame(kind="prompt", id=known.id), is_news)
            return
        record = _prompt(value)
        shown = view(record)
        if record.over:
            self.prompts.pop(key, None)
        else:
            self.prompts[key] = shown
        self._notify(PromptFrame(prompt=shown), is_news)

    def _node(self, key: str, value: bytes | None, is_news: bool) -> None:
        if value is None:
            if self.nodes.pop(key, None) is not None:
                self._notify(GoneFrame(kind="node", id=key), is_news)
            return
        node = self.nodes[key] = _node(value)
        self._notify(NodeFrame(node=node), is_news)

    def _team(self, key: str, value: bytes | None, is_news: bool) -> None:
        if value is None:
            if self.teams.pop(key, None) is not None:
                self._notify(GoneFrame(kind="team", id=key), is_news)
            return
        record = decode_record(value)
        task = record.task.strip().partition("\n")[0][:MAX_TASK_LINE]
        team = self.teams[key] = msgspec.structs.replace(record, task=task)
        self._notify(TeamFrame(team=team), is_news)

    def _command(self, key: str, value: bytes | None, is_news: bool) -> None:
        if value is None:
            self.commands.pop(key, None)
            return
        command = self.commands[key] = _command(value)
        self._notify(CommandFrame(command=command), is_news)

    def _mark(self, key: str, value: bytes | None, is_news: bool) -> None:
        if value is None:
            self.marks.pop(key, None)  # its session is gone, and a frame said so
            return
        mark = self.marks[key] = decode_mark(value)
        self._notify(MarkFrame(mark=mark), is_news)

    def _notify(self, frame: AnyHubFrame, is_news: bool) -> None:
        if is_news:
            for subscriber in tuple(self._listeners):
                subscriber(frame)


_session = msgspec.json.Decoder(SessionRecord).decode
_ask = msgspec.json.Decoder(AskRecord).decode
_prompt = msgspec.json.Decoder(PromptRecord).decode
_node = msgspec.json.Decoder(NodeView).decode
_command = msgspec.json.Decoder(CommandView).decode
decode_mark = msgspec.json.Decoder(SessionMark).decode
