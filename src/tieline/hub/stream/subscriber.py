"""One client's place in the stream.

A subscriber that keeps up is written to at once, without a task or a queue of its own. One that does not is *behind*:
the log (or the ring buffer) holds its events, so it costs only its cursor, the latest state of what changed, and its
deltas, joined per item. A task catches it up. A client that takes nothing for too long, or falls out of the ring, is
dropped and comes back with its cursor.

A subscriber that gets its sessions in parts is behind until it has them all: parts are sent while no event waits.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from typing import Any, Literal, Protocol

from starlette.types import Send

from ...background_tasks import cancel_and_wait
from ...errors import BusError
from ...protocol.stream_frames import CLOSE_TOO_SLOW
from .delta_buffer import DELTAS, DeltaBuffer, ItemKey, item_key
from .encoded_frames import EncodedFrame, EventSummary
from .snapshot_parts import RemainingSessions

STALL_S = 20.0
"""Without taking a single frame for so long, a client is dropped."""
MAX_INCOMPLETE = 1000
MAX_DELTAS = 256 * 1024
"""Characters of deltas kept for one that is behind. Of what is beyond it waits for the whole item."""

CLOSE_TRY_AGAIN = 1013

OnDropped = Callable[[int, str], None]
StateKey = tuple[str, str]


class EventSource(Protocol):
    """What a subscriber catches up from: the fanout."""

    cursor: int

    def recent_after(self, cursor: int) -> list[EncodedFrame] | None: ...

    def replay(self, cursor: int, sessions: frozenset[str] | None) -> AsyncGenerator[EncodedFrame, None]: ...


class Subscriber:
    """Made for a connection; `Fanout.add` makes it live. `dropped` is called when it shall be closed."""

    def __init__(
        self,
        source: EventSource,
        send: Send,
        dropped: OnDropped,
        *,
        wire: Literal["message", "sse_message"] = "message",
    ) -> None:
        self.visible = False
        self.cursor = 0
        self.closed = False
        self._on_dropped = dropped
        self.idle = False  # nothing was sent since the last look
        self._source = source
        self._send = send
        self._wire = wire
        self._sessions: frozenset[str] | None = None
        self._events = True
        self._deltas = True
        self._behind = False
        self._never_live = True  # it has not been live yet: it may be far behind
        self._task: asyncio.Task[None] | None = None
        self._states: dict[StateKey, EncodedFrame] = {}
        self._unsent_state: tuple[StateKey, EncodedFrame] | None = None  # its write waits for the connection
        self._knows_snapshot = False
        self._remaining: RemainingSessions | None = None
        self._pending_deltas = DeltaBuffer()
        self._incomplete: set[ItemKey] = set()  # of these a delta was left out

    @property
    def behind(self) -> bool:
        """Whether it has yet to get something that was said already."""
        return self._behind

    @property
    def knows_snapshot(self) -> bool:
        """Whether the first frame went out: what changed since was told, or waits here."""
        return self._knows_snapshot

    @property
    def sessions_left(self) -> int:
        return self._remaining.left if self._remaining is not None else 0

    def will_tell(self, kind: str, id: str) -> bool:
        """Whether a state of it waits here to be sent."""
        return (kind, id) in self._states

    def configure(
        self,
        cursor: int,
        sessions: tuple[str, ...] | None,
        *,
        events: bool,
        deltas: bool,
        remaining: RemainingSessions | None = None,
        known: bool = False,
    ) -> None:
        """From here on: these sessions, after this cursor. `known`: the state goes on where it stood; else a snapshot
        comes first, and these remaining sessions follow."""
        self.cursor = cursor
        self._sessions = None if sessions is None else frozenset(sessions)
        self._events = events
        self._deltas = deltas
        self._never_live = True
        if not known:
            self._states.clear()  # the snapshot that comes first has them
            self._knows_snapshot = False
            self._remaining = remaining
        elif self._unsent_state is not None:
            self._states = dict((self._unsent_state,)) | self._states
        self._unsent_state = None
        self._pending_deltas = DeltaBuffer()
        self._incomplete.clear()

    def start(self, first: EncodedFrame) -> None:
        """This frame, then what lies between the cursor and now, then live."""
        self._behind = False
        self._write(first)
        if not self._behind:
            self._knows_snapshot = True
            if self._states or self._remaining or (self._events and self.cursor < self._source.cursor):
                self._fall_behind(None)
            else:
                self._never_live = False

    async def pause(self) -> None:
        """Nothing more is sent, and nothing is half sent, until `start`. State that is told meanwhile is kept."""
        self._behind = True
        task, self._task = self._task, None
        if task is not None:
            await cancel_and_wait(task)

    def drop(self, code: int, why: str) -> None:
        """Code 0: its connection is gone already."""
        if not self.closed:
            self.closed = True
            self._on_dropped(code, why)

    # --- what there is to tell; none of these waits ---

    def event(self, frame: EncodedFrame) -> None:
        if self._behind or not self._events:
            return  # the log has it
        if frame.seq > self.cursor:
            self.cursor = frame.seq
            if self._sessions is None or frame.session in self._sessions:
                self._write(frame)

    def state(self, key: StateKey, frame: EncodedFrame) -> None:
        if self._behind:
            self._states.pop(key, None)
            self._states[key] = frame
        else:
            self._write(frame)
            if self._behind:
                self._unsent_state = key, frame

    def delta(self, summary: EventSummary, frame: EncodedFrame) -> None:
        if not self._deltas or (self._sessions is not None and frame.session not in self._sessions):
            return
        if not self._behind and not self._incomplete:
            self._write(frame)
            return
        item = item_key(frame.session, summary)
        if item in self._incomplete:
            return
        if not self._behind:
            self._write(frame)
        elif summary.type not in DELTAS:
            return  # deltas of an unknown type cannot be joined
        elif self._pending_deltas.size + len(summary.text) > MAX_DELTAS:
            self._pending_deltas.drop(frame.session, item[2])
            if len(self._incomplete) < MAX_INCOMPLETE:
                self._incomplete.add(item)
        else:
            self._pending_deltas.add(frame.session, summary)

    def item_finished(self, session: str, item: str) -> None:
        """The whole item is in the log: its deltas are of no use any more."""
        if self._pending_deltas:
            self._pending_deltas.drop(session, item)
        if self._incomplete:
            self._incomplete -= {(session, kind, item) for kind in DELTAS}

    def beat(self, frame: EncodedFrame) -> None:
        """Sends the beat if nothing was sent since the last one."""
        if self.idle and not self._behind:
            self._write(frame)
        self.idle = True

    # --- writing ---

    def _write(self, frame: EncodedFrame) -> None:
        """Sends at once if the connection takes the frame; else the subscriber falls behind."""
        self.idle = False
        steps = self._send(getattr(frame, self._wire)).__await__()
        try:
            waits = next(steps)
        except StopIteration:
            return
        except Exception as error:  # the connection is gone; its own task learns of it too
            self.drop(0, str(error))
            return
        self._fall_behind(_PendingWrite(steps, waits))

    def _fall_behind(self, rest: "_PendingWrite | None") -> None:
        self._behind = True
        self._task = asyncio.create_task(self._catch_up(rest))

    async def _catch_up(self, rest: "_PendingWrite | None") -> None:
        try:
            if rest is not None:
                async with asyncio.timeout(STALL_S):
                    await rest
                self._unsent_state, self._knows_snapshot = None, True
            while not self.closed:
                for key, frame in tuple(self._states.items()):
                    await self._send_frame(frame)
                    if self._states.get(key) is frame:  # else a newer one came meanwhile
                        del self._states[key]
                if self._events and not await self._send_next_events():
                    continue
                if self._pending_deltas:
                    for _, frame in self._pending_deltas.take():
                        await self._send_frame(frame)
                elif not self._states and not self._remaining:
                    self._behind = self._never_live = False
                    return
                if self._remaining:
                    await self._send_next_sessions(self._remaining)
        except TimeoutError:
            self.drop(CLOSE_TOO_SLOW, "too slow: come back with your cursor")
        except BusError as error:
            self.drop(CLOSE_TRY_AGAIN, error.message)
        except Exception as error:  # the connection is gone
            self.drop(0, str(error))

    async def _send_next_events(self) -> bool:
        """Sends the next events after the cursor. Returns whether there are no more at this moment."""
        recent = self._source.recent_after(self.cursor)
        if recent is None:
            if not self._never_live:
                raise TimeoutError
            upto = self._source.cursor
            async with aclosing(self._source.replay(self.cursor, self._sessions)) as events:
                async for frame in events:
                    await self._send_frame(frame)
                    self.cursor = frame.seq
            self.cursor = max(self.cursor, upto)
            return False
        for frame in recent:
            if self._sessions is None or frame.session in self._sessions:
                await self._send_frame(frame)
            self.cursor = frame.seq
        return not recent

    async def _send_next_sessions(self, remaining: RemainingSessions) -> None:
        """Sends the next part of the sessions, without those with a state that waits: that state is sent after the
        part, and may be older."""
        frame, position = remaining.next_part(self._states)
        await self._send_frame(frame)
        remaining.advance(position)  # only now: a part whose sending was interrupted is made again from the present
        if not remaining:
            self._remaining = None
        await asyncio.sleep(0)  # the others of this process have a turn

    async def _send_frame(self, frame: EncodedFrame) -> None:
        self.idle = False
        async with asyncio.timeout(STALL_S):
            await self._send(getattr(frame, self._wire))


class _PendingWrite:
    """What is left of a write that has to wait: it goes on where it stopped, in whoever awaits it."""

    def __init__(self, steps: Generator[Any, Any, None], waits: Any) -> None:
        self._steps = steps
        self._waits = waits

    def __await__(self) -> Generator[Any, Any, None]:
        waits = self._waits
        while True:
            try:
                try:
                    yield waits
                except BaseException as error:
                    waits = self._steps.throw(error)
                else:
                    waits = next(self._steps)
            except StopIteration:
                return
