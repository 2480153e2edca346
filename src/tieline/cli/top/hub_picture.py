"""What the hub has right now, kept from its stream: machines, sessions, asks, prompts; and what is shown of them."""

from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct

from ...ids import short_id
from ...protocol.stream_frames import AnyHubFrame, AskFrame, GoneFrame, NodeFrame, PromptFrame, Ready, SessionFrame
from ...protocol.views import NodeView, PromptView
from ...sessions.records import AskRecord, SessionRecord
from ..terminal.formatting import short_path, time_ago
from ..terminal.sanitize import one_line, plain_line

MAX_ROWS = 500
"""Sessions on the screen; the others are found by `/find`."""
FIRST = ("waiting", "stuck", "working", "failed")
"""Sessions that a person may be needed for come first, then those that work; then the last active ones."""
WHAT, WHERE = 200, 4096
"""Characters of what a session is about, and of its directory, before a screen's width cuts them."""
T = TypeVar("T")
COLUMNS = ("id", "agent", "status", "what", "queue", "active", "cost", "machine", "where")


class MachineRow(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    online: bool
    sessions: int
    working: int
    asks: int


class SessionRow(Struct, frozen=True, kw_only=True):
    """As `tieline top --json` tells it."""

    id: str
    agent: str
    status: str
    asks: int
    queue: int
    machine: str
    online: bool
    active_at: float
    cost_usd: float | None
    cwd: str
    what: str
    terminal: bool = False

    def cells(self, now: float) -> tuple[str, ...]:
        return (
            short_id(self.id),
            one_line(self.agent, 20) + (" (terminal)" if self.terminal else ""),
            self.status if self.online else f"{self.status} (offline)",
            one_line(self.what, WHAT),
            str(self.queue or ""),
            time_ago(self.active_at, now),
            "" if self.cost_usd is None else f"${self.cost_usd:.2f}",
            one_line(self.machine, 16),
            one_line(short_path(self.cwd), WHERE),
        )


class Totals(Struct, frozen=True, kw_only=True):
    sessions: int
    working: int
    asks: int
    queue: int
    cost_usd: float | None


class Overview(Struct, frozen=True, kw_only=True):
    machines: tuple[MachineRow, ...]
    sessions: tuple[SessionRow, ...]
    totals: Totals


class HubPicture:
    def __init__(self) -> None:
        self.sessions: dict[str, SessionRecord] = {}
        self.asks: dict[str, AskRecord] = {}
        self.prompts: dict[str, PromptView] = {}
        self.nodes: dict[str, NodeView] = {}

    def apply(self, frame: AnyHubFrame) -> bool:
        """Whether it says something about the present."""
        match frame:
            case Ready(snapshot=now):
                self.sessions = {each.id: each for each in now.sessions}
                self.asks = {each.id: each for each in now.asks}
                self.prompts = {each.id: each for each in now.prompts}
                self.nodes = {each.id: each for each in now.nodes}
            case SessionFrame(session=session):
                self.sessions[session.id] = session
            case AskFrame(ask=ask):
                _keep(self.asks, ask.id, ask if ask.status == "pending" else None)
            case PromptFrame(prompt=prompt):
                open = prompt.status in ("received", "queued", "running")
                _keep(self.prompts, prompt.id, prompt if open else None)
            case NodeFrame(node=node):
                self.nodes[node.id] = node
            case GoneFrame(kind=kind, id=id):
                tables = {"session": self.sessions, "ask": self.asks, "prompt": self.prompts, "node": self.nodes}
                if kind in tables:
                    tables[kind].pop(id, None)
            case _:
                return False
        return True

    def asks_of(self, session: str) -> list[AskRecord]:
        """That wait for a decision, the oldest first."""
        return sorted((each for each in self.asks.values() if each.session == session), key=lambda ask: ask.created_at)

    def queue_of(self, session: str) -> list[PromptView]:
        """That wait for their turn, in their order."""
        return sorted(self._waiting(session), key=lambda prompt: (prompt.place, prompt.created_at))

    def overview(self, find: str = "", limit: int = MAX_ROWS) -> Overview:
        """The sessions whose title, words, agent, directory or machine have what is looked for."""
        shown = [each for each in self.sessions.values() if not each.archived and _has(each, find, self._machine(each))]
        shown.sort(key=lambda each: (self._rank(each), -each.active_at, each.id))
        costs = [each.tokens.cost_usd for each in shown if each.tokens.cost_usd is not None]
        return Overview(
            machines=tuple(self._machine_row(node) for node in sorted(self.nodes.values(), key=lambda node: node.name)),
            sessions=tuple(map(self._row, shown[:limit])),
            totals=Totals(
                sessions=len(shown),
                working=sum(each.status == "working" for each in shown),
                asks=len(self.asks),
                queue=sum(prompt.status != "running" for prompt in self.prompts.values()),
                cost_usd=sum(costs) if costs else None,
            ),
        )

    def _rank(self, record: SessionRecord) -> int:
        return FIRST.index(record.status) if record.status in FIRST else len(FIRST)

    def _machine(self, record: SessionRecord) -> str:
        node = self.nodes.get(record.node)
        return (node.name or node.id) if node else record.node

    def _waiting(self, session: str) -> Iterable[PromptView]:
        return (each for each in self.prompts.values() if each.session == session and each.status != "running")

    def _row(self, record: SessionRecord) -> SessionRow:
        node = self.nodes.get(record.node)
        latest = one_line(record.problem, 120) if record.status == "failed" else plain_line(record.last_line, 120)
        return SessionRow(
            id=record.id,
            agent=record.agent,
            status=record.status,
            asks=len(self.asks_of(record.id)),
            queue=sum(1 for _ in self._waiting(record.id)),
            machine=self._machine(record),
            online=node is None or node.online,
            active_at=record.active_at,
            cost_usd=record.tokens.cost_usd,
            cwd=record.cwd,
            what=" · ".join(part for part in (one_line(record.title, 60), latest) if part),
            terminal=record.kind == "attached",
        )

    def _machine_row(self, node: NodeView) -> MachineRow:
        here = [each for each in self.sessions.values() if each.node == node.id and not each.archived]
        ids = {each.id for each in here}
        return MachineRow(
            id=node.id,
            name=node.name or node.id,
            online=node.online,
            sessions=len(here),
            working=sum(each.status == "working" for each in here),
            asks=sum(ask.session in ids for ask in self.asks.values()),
        )


def _keep(table: dict[str, T], id: str, value: T | None) -> None:
    if value is None:
        table.pop(id, None)
    else:
        table[id] = value


def _has(record: SessionRecord, find: str, machine: str) -> bool:
    text = " ".join((record.title, record.last_line, record.agent, record.cwd, machine, record.id)).casefold()
    return all(word in text for word in find.casefold().split())
