"""Puts deltas and events back into the order in which the agents produced them.

Events are told when they are on the disk, deltas at once: a quick agent's deltas overtake what came before them. Here
a delta waits for what it follows: the turn's beginning, the call whose output it is, the item before its own. One that
comes after its whole item is of no use. So whoever shows them never has to go back.
"""

from collections import deque
from collections.abc import Sequence
from typing import cast

from ..events import (
    AnyEvent,
    Done,
    Event,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolOutput,
    ToolResult,
    ToolUse,
    TurnStarted,
)
from ..protocol.stream_frames import AnyHubFrame, DeltaFrame, EventFrame, GoneFrame, Ready
from ..sessions.records import AT_WORK

MAX_HELD = 1000
"""Deltas of a session that wait, at most; the oldest go first."""
MAX_SESSIONS = 1000
"""Sessions whose order is known, at most; those that were quiet for longest go first."""


class EventReorderer:
    """The frames of a stream, those of each session in order."""

    def __init__(self) -> None:
        self._sessions: dict[str, SessionOrder] = {}  # the last active last
        self._before: dict[str, tuple[bool, bool]] = {}  # of those not heard of yet: does a turn run, were there any

    def reorder(self, frame: AnyHubFrame) -> Sequence[AnyHubFrame]:
        """What is to be told now."""
        match frame:
            case EventFrame(session=session, event=event):
                _, *deltas = self._order_of(session).event(event)
                return [frame, *_frames(session, deltas)]
            case DeltaFrame(session=session, event=event):
                return _frames(session, self._order_of(session).delta(event))
            case Ready():
                self._begin(frame)
            case GoneFrame(kind="session", id=id):
                self._sessions.pop(id, None)
            case _:
                pass
        return [frame]

    def _begin(self, ready: Ready) -> None:
        if ready.state == "reset":
            self._sessions.clear()
        self._before = {
            session.id: (session.status in AT_WORK, session.turns > 0) for session in ready.snapshot.sessions
        }

    def _order_of(self, session: str) -> "SessionOrder":
        order = self._sessions.pop(session, None)
        if order is None:
            running, known = self._before.pop(session, (False, False))
            order = SessionOrder(open=running, known=known)
            while len(self._sessions) >= MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
        self._sessions[session] = order
        return order


class SessionOrder:
    """Of one session."""

    def __init__(self, *, open: bool = False, known: bool = False) -> None:
        """`open`: a turn is going on already, whose beginning was not seen. `known`: there were turns before; the very
        first one begins with who the agent is."""
        self._begun = self._joined = open
        self._known = known or open
        self._calls: set[str] = set()
        self._whole: set[str] = set()
        self._open: dict[str, str] = {}  # whose words (an agent's or a subagent's) → the item that is being said
        self._held: deque[Event] = deque(maxlen=MAX_HELD)

    def event(self, event: Event) -> list[Event]:
        """A durable event, and the deltas that waited for it."""
        match event:
            case TurnStarted():
                self._joined = False
                self._calls.clear()
                self._whole.clear()
                self._open.clear()
            case ToolUse(id=id):
                self._calls.add(id)
            case Text(item=item, parent=parent) | Thinking(item=item, parent=parent):
                self._finish(item, parent)
            case ToolResult(id=id):
                self._whole.add(id)
                self._calls.discard(id)
            case Done():
                self._held.clear()
            case _:
                pass
        if not isinstance(event, TurnStarted):
            self._known = True
        self._begun = self._known and not isinstance(event, Done)
        return [event, *self._released()]

    def delta(self, event: Event) -> list[Event]:
        """A delta, if its time has come; else it waits."""
        if self._is_late(event):
            return []
        if self._held or not self._is_due(event):
            self._held.append(event)
            return self._released()
        self._note(event)
        return [event]

    def _released(self) -> list[Event]:
        """Those that no longer wait. None overtakes another: among themselves they are in order."""
        out: list[Event] = []
        while self._held and (self._is_late(self._held[0]) or self._is_due(self._held[0])):
            event = self._held.popleft()
            if not self._is_late(event):
                self._note(event)
                out.append(event)
        return out

    def _is_late(self, event: Event) -> bool:
        return _item(event) in self._whole

    def _is_due(self, event: Event) -> bool:
        if not self._begun:
            return False
        if isinstance(event, ToolOutput):
            return self._joined or event.id in self._calls
        if isinstance(event, TextDelta | ThinkingDelta):
            return self._open.get(event.parent, event.item) == event.item
        return True

    def _note(self, event: Event) -> None:
        if isinstance(event, TextDelta | ThinkingDelta):
            self._open[event.parent] = event.item

    def _finish(self, item: str, parent: str) -> None:
        if item:
            self._whole.add(item)
        if self._open.get(parent, item) == item:
            self._open.pop(parent, None)


def _frames(session: str, deltas: list[Event]) -> list[DeltaFrame]:
    return [DeltaFrame(session=session, event=cast(AnyEvent, delta)) for delta in deltas]


def _item(event: Event) -> str:
    return event.id if isinstance(event, ToolOutput) else getattr(event, "item", "")
