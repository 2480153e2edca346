"""A lane leads to one endpoint: a channel, a handler. It holds what waits for it and bounds what runs at a time.

Addresses take turns, so that one with much mail does not keep the others waiting. A *serial* lane has one delivery per
address at a time. A lane without anybody at its end keeps what comes until somebody is there.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from ...channels.base import ChannelStatus, DeliveryContext
from ...envelopes import DeliveryResult, Envelope, MessageReceipt
from ..rules import Breaker

Deliver = Callable[[str, Envelope, DeliveryContext], Awaitable[DeliveryResult]]
Kind = Literal["channel", "handler", "inbox", "ask"]


class InFlight:
    """A message that is not over."""

    __slots__ = ("envelope", "gone", "lane", "noted", "parked", "receipt", "task", "timer", "waiting")

    def __init__(self, receipt: MessageReceipt, envelope: Envelope | None) -> None:
        self.receipt = receipt
        self.envelope = envelope  # None: it is large, or was read back; the ledger has it
        self.lane: EndpointQueue | None = None
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None  # until its next attempt
        self.waiting = receipt.waiting
        self.gone = False
        self.parked = False  # durable among what waits for people
        self.noted = False  # the log has it as offered already: there was room when it was stored


class EndpointQueueView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A channel or another endpoint, for people."""

    id: str
    kind: Kind
    subject: str
    prefix: bool  # whether it answers for everything below, too
    display_name: str = ""
    state: str = "running"  # starting, running, failing, stopped
    problem: str = ""
    circuit: Literal["closed", "open"] = "closed"
    waiting: int = 0
    running: int = 0
    delivered: int = 0
    failed: int = 0
    last_error: str = ""
    last_error_at: float = 0.0
    last_delivery_at: float = 0.0


class EndpointQueue:
    def __init__(
        self,
        id: str,
        kind: Kind,
        subject: str,
        run: "Callable[[EndpointQueue, InFlight], Awaitable[None]]",
        *,
        prefix: bool,
        breaker: Breaker,
        max_concurrent: int,
        serial: bool = False,
        display_name: str = "",
    ) -> None:
        self.id = id
        self.kind: Kind = kind
        self.subject = subject
        self.prefix = prefix
        self.display_name = display_name or id
        self.deliver: Deliver | None = None
        self.status: Callable[[], ChannelStatus] | None = None
        self.breaker = breaker
        self.max_concurrent = max_concurrent
        self.serial = serial
        self.people = False  # who answers at its addresses are people: a channel says so
        self.problem = ""
        self.delivered = self.failed = 0
        self.last_error, self.last_error_at, self.last_delivery_at = "", 0.0, 0.0
        self._run = run
        self._queues: dict[str, deque[InFlight]] = {}
        self._ring: deque[str] = deque()  # addresses whose turn may come
        self._waiting = 0
        self._busy: set[str] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._reserved = 0
        self._timer: asyncio.TimerHandle | None = None
        self._halted = True

    # --- what waits ---

    def put(self, live: InFlight, *, first: bool = False) -> None:
        live.lane = self
        subject = live.receipt.subject
        queue = self._queues.get(subject)
        if queue is None:
            queue = self._queues[subject] = deque()
        if not queue and not (self.serial and subject in self._busy):
            self._ring.append(subject)
        if first:
            queue.appendleft(live)
        else:
            queue.append(live)
        self._waiting += 1
        self.pump()

    def reserve(self) -> bool:
        """A place for a message that is about to be stored, so that it can be stored as offered. Not while others wait.
        Whoever gets one gives it back: by `begin`, or by `release`."""
        if self._ring or not self._direct() or not self._room():
            return False
        self._reserved += 1
        return True

    def release(self) -> None:
        """It was not stored, or another answers for it by now."""
        self._reserved -= 1
        self.pump()

    def begin(self, live: InFlight) -> bool:
        """Begin its delivery, in the place that was reserved for it. False: meanwhile that cannot be."""
        if not self._direct():
            self.release()
            return False
        self._reserved -= 1
        live.lane, live.noted = self, True
        self._start(live)
        return True

    def _direct(self) -> bool:
        """Whether a message may be offered that has not waited: never where those of an address wait for each other."""
        return not (self.serial or self._halted or self.deliver is None or self.breaker.open)

    def pump(self) -> None:
        """Begin what may begin."""
        while self._ring and not self._halted and self.deliver and self._room():
            wait = self.breaker.wait_s()
            if wait is None:
                return
            if wait > 0:
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(wait, self._again)
                return
            if live := self._next():
                self._start(live)

    def _room(self) -> bool:
        return len(self._running) + self._reserved < self.max_concurrent

    def _start(self, live: InFlight) -> None:
        live.task = task = asyncio.ensure_future(self._work(live, tries=self.breaker.begin()))
        self._running.add(task)
        task.add_done_callback(self._worked)

    def _again(self) -> None:
        self._timer = None
        self.pump()

    def _next(self) -> InFlight | None:
        subject = self._ring.popleft()
        queue = self._queues[subject]
        live: InFlight | None = None
        while queue and live is None:
            live = queue.popleft()
            self._waiting -= 1
            if live.gone:
                live = None
        if live is not None and self.serial:
            self._busy.add(subject)
        elif queue:
            self._ring.append(subject)
        if not queue:
            del self._queues[subject]
        return live

    async def _work(self, live: InFlight, *, tries: bool) -> None:
        cut_off = False
        try:
            await self._run(self, live)
        except asyncio.CancelledError:
            cut_off = True
            raise
        finally:
            live.task = None
            if tries:  # here, where no way out leads past it: else the lane would wait for ever
                self.breaker.tried()
            subject = live.receipt.subject
            if subject in self._busy:
                self._busy.discard(subject)
                if subject in self._queues:
                    self._ring.append(subject)
            if cut_off and not live.gone:  # whoever delivers here next makes it again, before all others
                self.put(live, first=True)

    def _worked(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.problem = f"{type(error).__name__}: {error}"[:500]  # ours, not the channel's: it must be seen
        self.pump()

    def why_waiting(self) -> str:
        """What keeps the next one waiting, as a code."""
        if self.deliver is None:
            return "no_channel"
        if self.breaker.open:
            return "circuit_open"
        return "max_concurrent_exceeded" if self._busy or not self._room() else ""

    # --- its end ---

    def resume(self, deliver: Deliver | None = None) -> None:
        if deliver is not None:
            self.deliver = deliver
        self._halted = False
        self.pump()

    async def pause(self, grace_s: float) -> None:
        """Begin nothing more, and let what runs come to its end; what does not in time is made again later."""
        self._halted = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._running:
            _, left = await asyncio.wait(set(self._running), timeout=grace_s)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def empty(self) -> list[InFlight]:
        """Take everything out that waits."""
        found = [live for queue in self._queues.values() for live in queue if not live.gone]
        self._queues.clear()
        self._ring.clear()
        self._waiting = 0
        for live in found:
            live.lane = None
        return found

    # --- what became of it ---

    def succeeded(self) -> None:
        self.delivered += 1
        self.last_delivery_at = time.time()
        self.breaker.succeeded()

    def went_wrong(self, problem: str) -> None:
        self.failed += 1
        self.note(problem)
        self.breaker.failed()

    def note(self, problem: str) -> None:
        self.last_error, self.last_error_at = problem[:500], time.time()

    def view(self) -> EndpointQueueView:
        status = self.status() if self.status is not None else ChannelStatus(state="running")
        state = "stopped" if self.deliver is None else status.state
        return EndpointQueueView(
            id=self.id,
            kind=self.kind,
            subject=self.subject,
            prefix=self.prefix,
            display_name=self.display_name,
            state="failing" if state == "running" and (self.problem or self.breaker.open) else state,
            problem=self.problem or status.problem,
            circuit="open" if self.breaker.open else "closed",
            waiting=self._waiting,
            running=len(self._running),
            delivered=self.delivered,
            failed=self.failed,
            last_error=self.last_error,
            last_error_at=self.last_error_at,
            last_delivery_at=self.last_delivery_at,
        )
