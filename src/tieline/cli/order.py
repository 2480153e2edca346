"""Deltas and events of a session, put back into the order in which the agent said them.

Events are told when they are on the disk, deltas at once: a quick agent's deltas overtake what came before them. Here
a delta waits for what it follows: the turn's beginning, the call whose output it is, the item before its own. One that
comes after its whole item is of no use. So a view never has to go back.
"""

from collections import deque

from ..events import Done, Event, Text, TextDelta, Thinking, ThinkingDelta, ToolOutput, ToolResult, ToolUse, TurnStarted

MAX_HELD = 1000
"""Deltas that wait, at most; the oldest go first."""


class Order:
    def __init__(self, *, open: bool = False) -> None:
        """`open`: a turn is going on already."""
        self._begun = open
        self._calls: set[str] = set()
        self._whole: set[str] = set()
        self._open: dict[str, str] = {}  # whose words (an agent's or a subagent's) → the item that is being said
        self._held: deque[Event] = deque(maxlen=MAX_HELD)

    def event(self, event: Event) -> list[Event]:
        """A durable event, and the deltas that waited for it."""
        match event:
            case TurnStarted():
                self._begun = False
                self._calls.clear()
                self._open.clear()
                return [event]
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
        self._begun = not isinstance(event, Done)
        return [event, *self._released()]

    def delta(self, event: Event) -> list[Event]:
        """A delta, if its time has come; else it waits."""
        if self._late(event):
            return []
        if self._held or not self._fits(event):
            self._held.append(event)
            return self._released()
        self._note(event)
        return [event]

    def _released(self) -> list[Event]:
        """Those that no longer wait. None overtakes another: among themselves they are in order."""
        out: list[Event] = []
        while self._held and (self._late(self._held[0]) or self._fits(self._held[0])):
            event = self._held.popleft()
            if not self._late(event):
                self._note(event)
                out.append(event)
        return out

    def _late(self, event: Event) -> bool:
        return _item(event) in self._whole

    def _fits(self, event: Event) -> bool:
        if not self._begun:
            return False
        if isinstance(event, ToolOutput):
            return event.id in self._calls
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


def _item(event: Event) -> str:
    return event.id if isinstance(event, ToolOutput) else getattr(event, "item", "")
