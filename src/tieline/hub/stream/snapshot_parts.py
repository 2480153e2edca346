"""A snapshot's sessions in parts: those that matter first, and the others."""

from collections.abc import Collection, Container, Iterable
from heapq import nlargest

from ...protocol.stream_frames import SessionsFrame
from ...protocol.views import SessionMark
from ...sessions.records import AT_WORK, SessionRecord
from ..state.live_state import LiveState
from .encoded_frames import EncodedFrame, encode_frame

FIRST = 200
"""Sessions of the first part: those last active. Several screens of a list."""
PART = 200
"""Sessions of each part after it: on a slow line, what happens meanwhile waits for no more than that."""


def first_sessions(state: LiveState, also: Iterable[str] = ()) -> list[SessionRecord]:
    """The sessions that were active last; all that are pinned or in which something runs or waits; and `also`."""
    recent = nlargest(FIRST, state.sessions.values(), key=_activity)
    ids = dict.fromkeys(record.id for record in recent)
    ids.update(dict.fromkeys(record.id for record in state.sessions.values() if record.status in AT_WORK))
    ids.update(dict.fromkeys(ask.session for ask in state.asks.values()))
    ids.update(dict.fromkeys(prompt.session for prompt in state.prompts.values()))
    ids.update(dict.fromkeys(mark.id for mark in state.marks.values() if mark.pinned))
    ids.update(dict.fromkeys(also))
    return [record for id in ids if (record := state.sessions.get(id)) is not None]


def _activity(session: SessionRecord) -> tuple[bool, float]:
    return not session.archived, session.active_at or session.created_at


class RemainingSessions:
    """True while there are some. Each part is taken from the present when it is sent, so that what changed meanwhile is
    as new as can be and what is gone is not in it. Until then it costs a place in a list that all clients share."""

    def __init__(self, state: LiveState, first: Collection[SessionRecord]) -> None:
        self._present = state.sessions
        self._marks = state.marks
        self._first = frozenset(record.id for record in first)
        self._ids = state.session_ids
        self._position = 0
        self.left = len(self._ids) - len(self._first)

    def __bool__(self) -> bool:
        return self.left > 0

    def next_part(self, leave_out: Container[tuple[str, str]]) -> tuple[EncodedFrame, tuple[int, int]]:
        """The next frame, without what `leave_out` names (`session` or `mark`, and an id), and the position to pass to
        `advance` once the frame was sent."""
        position, left = self._position, self.left
        part: list[SessionRecord] = []
        marks: list[SessionMark] = []
        while left and len(part) < PART:
            id = self._ids[position]
            position += 1
            if id not in self._first:
                left -= 1
                if (record := self._present.get(id)) is not None and ("session", id) not in leave_out:
                    part.append(record)
                if (mark := self._marks.get(id)) is not None and ("mark", id) not in leave_out:
                    marks.append(mark)
        return encode_frame(SessionsFrame(sessions=tuple(part), marks=tuple(marks), left=left)), (position, left)

    def advance(self, to: tuple[int, int]) -> None:
        self._position, self.left = to
