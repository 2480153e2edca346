"""From the log to every client: one reader of all events and one listener of all deltas per hub.

Each frame is encoded once and handed to every subscriber that wants it. The latest events stay in a ring buffer, so a
client that reconnects within moments is caught up from memory; one that was away longer is caught up from the log.
Either way it gets one stream, without a gap or a duplicate.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any, Literal

from ...background_tasks import background, cancel_and_wait
from ...bus.base import Bus, Record
from ...errors import BusClosed, BusError
from ...protocol.stream_frames import HEARTBEAT_S, AnyHubFrame, Beat, GoneFrame, PromptFrame
from ...sessions.event_log import EventAssembler, LogEvent, subject
from ..state.live_state import LiveState
from .delta_buffer import DELTAS, DeltaBuffer
from .encoded_frames import (
    EncodedFrame,
    EventSummary,
    encode_delta,
    encode_event,
    encode_frame,
    summarize,
)
from .retention import Retention
from .ring_buffer import RingBuffer
from .subscriber import StateKey, Subscriber

PRELOAD_EVENTS = 1000
"""How far back the ring is filled at the start: clients of the hub before come back all at once."""
SLICE_S = 0.005
"""After so long the reader lets the others of this process have a turn."""
FLUSH_S = 0.005
"""Deltas and state are gathered for so long: what is overtaken meanwhile is not sent, and events are not held up."""
RETRY_S = 1.0
FINISHED = 64
"""Items per session, of those finished last, whose late deltas are left out."""
MAX_SESSIONS = 1000

log = logging.getLogger("tieline.hub")

EventListener = Callable[[LogEvent, EventSummary], None]
CursorState = Literal["ok", "gap", "reset"]


class Fanout:
    """`async with Fanout(bus, state) as fanout`: inside, it reads."""

    def __init__(self, bus: Bus, state: LiveState, *, keep_events_days: float = 30.0) -> None:
        self.epoch = ""  # which log this is
        self.cursor = 0  # the last event that was handed out
        self.subscribers: set[Subscriber] = set()
        self._bus = bus
        self._state = state
        self.retention = Retention(bus, keep_events_days)
        self._assembler = EventAssembler(bus)
        self._ring = RingBuffer(0)
        self._finished: dict[str, deque[str]] = {}
        self._states: dict[StateKey, AnyHubFrame] = {}
        self._deltas = DeltaBuffer()
        self._flush_timer: asyncio.TimerHandle | None = None
        self._listeners: list[EventListener] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._live = False
        self._visibility_event = asyncio.Event()
        self._unsubscribe: Callable[[], None] = lambda: None

    async def __aenter__(self) -> "Fanout":
        self.epoch = await self.retention.epoch()
        await self._warm_up()
        self._unsubscribe = self._state.subscribe(self._on_state_changed)
        work: tuple[Coroutine[Any, Any, None], ...] = (
            self._read(),
            self._listen(),
            self._heartbeat(),
            self.retention.run(),
        )
        self._tasks = [background(coroutine, f"fanout-{coroutine.__name__}") for coroutine in work]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._unsubscribe()
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        for subscriber in tuple(self.subscribers):
            subscriber.drop(1012, "the hub ends")
            await subscriber.pause()
        await cancel_and_wait(*self._tasks)

    # --- for subscribers ---

    async def locate(self, after: int, epoch: str) -> tuple[CursorState, int]:
        """What to tell a client with this cursor, and where it begins."""
        if epoch != self.epoch:
            return "reset", self.cursor
        if self._ring.floor <= after <= self.cursor:
            return "ok", after
        trimmed = await self.retention.trimmed()
        if after > self.cursor:  # another hub of this bus may be ahead of us; a log that ends before it is another log
            known = after <= max(await self._bus.last("events.>"), trimmed)
            return ("ok", after) if known else ("reset", self.cursor)
        first = await self._bus.first("events.>")
        gap = after < trimmed or (0 < after < first and after != trimmed)
        return ("gap" if gap else "ok"), after

    def add(self, subscriber: Subscriber, first: EncodedFrame) -> None:
        self.subscribers.add(subscriber)
        self._visibility_event.set()
        subscriber.start(first)

    async def remove(self, subscriber: Subscriber) -> None:
        self.subscribers.discard(subscriber)
        self._visibility_event.set()
        await subscriber.pause()

    def recent_after(self, cursor: int) -> list[EncodedFrame] | None:
        """The next events after a cursor, from memory; None when they do not go back that far."""
        return self._ring.after(cursor)

    async def replay(self, cursor: int, sessions: frozenset[str] | None) -> AsyncGenerator[EncodedFrame, None]:
        """The events after a cursor, from the log, up to what is there now."""
        only = next(iter(sessions)) if sessions is not None and len(sessions) == 1 else None
        assembler = EventAssembler(self._bus)
        records = self._bus.read(subject(only) if only else "events.>", after=cursor, follow=False)
        async with aclosing(records):
            async for record in records:
                whole = await assembler.join(record)
                if whole is None or (sessions is not None and whole.session not in sessions):
                    continue
                if (made := encode_event(whole)) is not None:
                    yield made[0]

    @property
    def visible(self) -> int:
        """Clients that a person looks at."""
        return sum(subscriber.visible for subscriber in self.subscribers)

    def visibility_changed(self) -> None:
        """Somebody looks, or no longer."""
        self._visibility_event.set()

    async def wait_visibility_change(self, seconds: float) -> None:
        """Until who looks has changed; or so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._visibility_event.wait()
        except TimeoutError:
            return
        self._visibility_event.clear()

    def on_event(self, callback: EventListener) -> Callable[[], None]:
        """Calls it with every new event, never with an old one; it must not wait. Gives the way out."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback) if callback in self._listeners else None

    # --- the one reader and the one listener ---

    async def _warm_up(self) -> None:
        """Fills the ring. What comes from here on is news."""
        last = await self._bus.last("events.>")
        self.cursor = max(0, last - PRELOAD_EVENTS)
        self._ring = RingBuffer(self.cursor)
        async with aclosing(self._bus.read("events.>", after=self.cursor, follow=False)) as records:
            async for record in records:
                await self._process(record)
        self.cursor = max(self.cursor, last)
        self._live = True

    async def _process(self, record: Record) -> None:
        whole = await self._assembler.join(record)
        if whole is not None:
            self._publish_event(whole)
        self.cursor = record.seq

    async def _read(self) -> None:
        while True:
            try:
                async with aclosing(self._bus.read("events.>", after=self.cursor)) as records:
                    slice_ends = time.monotonic() + SLICE_S
                    async for record in records:
                        await self._process(record)
                        if time.monotonic() >= slice_ends:
                            await asyncio.sleep(0)
                            slice_ends = time.monotonic() + SLICE_S
            except BusClosed:
                raise
            except BusError as error:
                log.warning("the log is out of reach: %s", error)
                await asyncio.sleep(RETRY_S)

    def _publish_event(self, whole: LogEvent) -> None:
        made = encode_event(whole)
        if made is None:
            return
        frame, about = made
        self._ring.append(frame)
        item = about.item if about.type in ("text", "thinking") else about.id if about.type == "tool_result" else ""
        if item:
            self._mark_finished(whole.session, item)
            self._deltas.drop(whole.session, item)
        self._send_deltas(self._deltas.take(whole.session))  # deltas that came before the event are sent before it
        for subscriber in tuple(self.subscribers):
            if item:
                subscriber.item_finished(whole.session, item)
            subscriber.event(frame)
        if self._live:
            for tap in tuple(self._listeners):
                tap(whole, about)

    async def _listen(self) -> None:
        while True:
            try:
                async with aclosing(self._bus.listen("deltas.>")) as announcements:
                    async for announcement in announcements:
                        if self.subscribers:
                            self._add_delta(announcement.subject.partition(".")[2], announcement.data)
            except BusClosed:
                raise
            except BusError as error:
                log.warning("deltas are out of reach: %s", error)
                await asyncio.sleep(RETRY_S)

    def _add_delta(self, session: str, data: bytes) -> None:
        with suppress(ValueError):  # a delta that is no JSON is dropped
            summary = summarize(data)
            if (summary.item or summary.id) in self._finished.get(session, ()):
                return  # it was overtaken by its item
            if summary.type in DELTAS:
                self._deltas.add(session, summary)
                self._schedule_flush()
            else:
                self._send_deltas([(summary, encode_delta(session, data))])

    def _mark_finished(self, session: str, item: str) -> None:
        known = self._finished.pop(session, None)
        if known is None:
            known = deque[str](maxlen=FINISHED)
            while len(self._finished) >= MAX_SESSIONS:
                del self._finished[next(iter(self._finished))]
        known.append(item)
        self._finished[session] = known

    def _on_state_changed(self, frame: AnyHubFrame) -> None:
        if self.subscribers:
            key = _key(frame)
            self._states.pop(key, None)
            self._states[key] = frame
            self._schedule_flush()

    def _schedule_flush(self) -> None:
        if self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(FLUSH_S, self._flush)

    def _flush(self) -> None:
        self._flush_timer = None
        states, self._states = self._states, {}
        for key, frame in states.items():
            encoded = encode_frame(frame)
            for subscriber in tuple(self.subscribers):
                subscriber.state(key, encoded)
        self._send_deltas(self._deltas.take())

    def _send_deltas(self, deltas: list[tuple[EventSummary, EncodedFrame]]) -> None:
        for summary, frame in deltas:
            for subscriber in tuple(self.subscribers):
                subscriber.delta(summary, frame)

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S / 2)
            frame = encode_frame(Beat(at=time.time()))
            for subscriber in tuple(self.subscribers):
                subscriber.beat(frame)


def _key(frame: AnyHubFrame) -> StateKey:
    match frame:
        case GoneFrame(kind=kind, id=id):
            return kind, id
        case PromptFrame(prompt=prompt):
            return "prompt", f"{prompt.session}.{prompt.id}"  # their ids are the clients' own
        case _:
            return frame.type, getattr(frame, frame.type).id
