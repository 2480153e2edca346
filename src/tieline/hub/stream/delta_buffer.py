"""Deltas that wait to be sent, joined per item: concatenated they are the same."""

from collections.abc import Iterable

from ...events import TextDelta, ThinkingDelta, ToolOutput
from ...protocol.stream_frames import DeltaFrame
from .encoded_frames import EncodedFrame, EventSummary, encode_frame

DELTAS = frozenset({"text_delta", "thinking_delta", "tool_output"})

ItemKey = tuple[str, str, str]
"""The session, the delta's type, the item's id."""


def item_key(session: str, summary: EventSummary) -> ItemKey:
    return session, summary.type, summary.item or summary.id


class DeltaBuffer:
    """Deltas per item, in order; `size` in characters."""

    def __init__(self) -> None:
        self.size = 0
        self._sessions: dict[str, dict[ItemKey, tuple[EventSummary, list[str]]]] = {}

    def __bool__(self) -> bool:
        return bool(self._sessions)

    def add(self, session: str, summary: EventSummary) -> None:
        of_session = self._sessions.setdefault(session, {})
        of_session.setdefault(item_key(session, summary), (summary, []))[1].append(summary.text)
        self.size += len(summary.text)

    def drop(self, session: str, item: str) -> None:
        """Forget the item's deltas: the item is complete, or its deltas are too many."""
        of_session = self._sessions.get(session)
        if of_session is not None:
            for kind in DELTAS:
                _, texts = of_session.pop((session, kind, item), (None, ()))
                self.size -= sum(map(len, texts))
            if not of_session:
                del self._sessions[session]

    def take(self, session: str | None = None) -> list[tuple[EventSummary, EncodedFrame]]:
        """All deltas that wait, or those of one session."""
        if not self._sessions:
            return []
        if session is None:
            taken, self._sessions, self.size = list(self._sessions.values()), {}, 0
        else:
            taken = [self._sessions.pop(session, {})]
            self.size -= sum(len(text) for _, texts in taken[0].values() for text in texts)
        return [
            (joined, encode_frame(DeltaFrame(session=item[0], event=_event(joined)), session=item[0]))
            for of_session in taken
            for item, (first, texts) in of_session.items()
            for joined in [_joined(first, texts)]
        ]


def _joined(first: EventSummary, texts: Iterable[str]) -> EventSummary:
    return EventSummary(first.type, first.item, first.id, "".join(texts), first.parent)


def _event(summary: EventSummary) -> TextDelta | ThinkingDelta | ToolOutput:
    match summary.type:
        case "text_delta":
            return TextDelta(summary.text, summary.item, summary.parent)
        case "thinking_delta":
            return ThinkingDelta(summary.text, summary.item, summary.parent)
        case _:
            return ToolOutput(summary.id, summary.text)
