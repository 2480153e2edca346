"""The queue of one endpoint (a channel, a handler): holds waiting messages and limits concurrent deliveries.

Addresses take turns, so that one busy address does not keep the others waiting. A *serial* queue runs one delivery per
address at a time. A queue without an endpoint keeps its messages until there is one.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from ...background_tasks import cancel_and_wait
from ...channels.base import ChannelStatus, DeliveryContext, UnknownAddress
from ...envelopes import DeliveryResult, Envelope, MessageReceipt
from .circuit_breaker import CircuitBreaker

Deliver = Callable[[str, Envelope, DeliveryContext], Awaitable[DeliveryResult]]
RunAttempt = Callable[["EndpointQueue", "InFlight"], Awaitable[None]]
FindUnknown = Callable[[str], Awaitable[UnknownAddress | None]]
EndpointKind = Literal["channel", "handler", "inbox", "ask"]


class InFlight:
    """A message whose delivery is not over."""

    __slots__ = (
        "closed",
        "envelope",
        "parked",
        "queue",
        "receipt",
        "stored_as_offered",
        "task",
        "timer",
        "waiting_reason",
    )

    def __init__(self, receipt: MessageReceipt, envelope: Envelope | None) -> None:
        self.receipt = receipt
        self.envelope = envelope  # None: too large to keep, or recovered; the store has it
        self.queue: EndpointQueue | None = None
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None  # for its next attempt, or until it is parked
        self.waiting_reason = receipt.waiting
        self.closed = False
        self.parked = False  # saved among the unread messages
        self.stored_as_offered = False  # there was room when it was stored, so the log says offered


class EndpointQueueView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A channel or another endpoint, as the API shows it."""

    id: str
    kind: EndpointKind
    subject: str
    prefix: bool  # whether it also answers for all addresses below
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
        kind: EndpointKind,
        subject: str,
        run_attempt: RunAttempt,
        *,
        prefix: bool,
        breaker: CircuitBreaker,
        max_concurrent: int,
        serial: bool = False,
        display_name: str = "",
    ) -> None:
        self.id = id
        self.kind: EndpointKind = kind
        self.subject = subject
        self.prefix = prefix
        self.display_name = display_name or id
        self.deliver: Deliver | None = None
        self.status: Callable[[], ChannelStatus] | None = None
        self.unknown_address: FindUnknown | None = None  # of a channel that runs and knows who has its addresses
        self.breaker = breaker
        self.max_concurrent = max_concurrent
        self.serial = serial
        self.people = False  # people answer at its addresses, as the channel says
        self.problem = ""
        self.delivered = self.failed = 0
        self.last_error, self.last_error_at, self.last_delivery_at = "", 0.0, 0.0
        self._run_attempt = run_attempt
        self._queues: dict[str, deque[InFlight]] = {}
        self._turns: deque[str] = deque()  # addresses with a message that may start
        self._waiting = 0
        self._busy: set[str] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._reserved = 0
        self._timer: asyncio.TimerHandle | None = None
        self._paused = True

    # --- waiting messages ---

    def put(self, message: InFlight, *, first: bool = False) -> None:
        message.queue = self
        subject = message.receipt.subject
        queue = self._queues.get(subject)
        if queue is None:
            queue = self._queues[subject] = deque()
        if not queue and not (self.serial and subject in self._busy):
            self._turns.append(subject)
        if first:
            queue.appendleft(message)
        else:
            queue.append(message)
        self._waiting += 1
        self.pump()

    def reserve(self) -> bool:
        """Reserve room for a message before it is stored, so that it is stored as offered; refused while others wait.
        The caller then calls `start_reserved` or `release`."""
        if self._turns or not self._accepts_direct() or not self._has_room():
            return False
        self._reserved += 1
        return True

    def release(self) -> None:
        """Give reserved room back: the message was not stored, or has another endpoint now."""
        self._reserved -= 1
        self.pump()

    def start_reserved(self, message: InFlight) -> bool:
        """Start the delivery in the reserved room. False: the endpoint cannot take it any longer."""
        if not self._accepts_direct():
            self.release()
            return False
        self._reserved -= 1
        message.queue, message.stored_as_offered = self, True
        self._start(message)
        return True

    def _accepts_direct(self) -> bool:
        """Whether a message may be offered without waiting; never in a serial queue."""
        return not (self.serial or self._paused or self.deliver is None or self.breaker.open)

    def pump(self) -> None:
        """Start deliveries while there is room."""
        while self._turns and not self._paused and self.deliver and self._has_room():
            wait = self.breaker.wait_s()
            if wait is None:
                return
            if wait > 0:
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(wait, self._on_breaker_timer)
                return
            if message := self._next():
                self._start(message)

    def _has_room(self) -> bool:
        return len(self._running) + self._reserved < self.max_concurrent

    def _start(self, message: InFlight) -> None:
        message.task = task = asyncio.ensure_future(self._deliver(message, is_trial=self.breaker.begin()))
        self._running.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_breaker_timer(self) -> None:
        self._timer = None
        self.pump()

    def _next(self) -> InFlight | None:
        subject = self._turns.popleft()
        queue = self._queues[subject]
        message: InFlight | None = None
        while queue and message is None:
            message = queue.popleft()
            self._waiting -= 1
            if message.closed:
                message = None
        if message is not None and self.serial:
            self._busy.add(subject)
        elif queue:
            self._turns.append(subject)
        if not queue:
            del self._queues[subject]
        return message

    async def _deliver(self, message: InFlight, *, is_trial: bool) -> None:
        cancelled = False
        try:
            await self._run_attempt(self, message)
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:
            message.task = None
            if is_trial:  # in `finally`: otherwise the queue could wait for ever
                self.breaker.trial_ended()
            subject = message.receipt.subject
            if subject in self._busy:
                self._busy.discard(subject)
                if subject in self._queues:
                    self._turns.append(subject)
            if cancelled and not message.closed:  # the next endpoint repeats it, before all others
                self.put(message, first=True)

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.problem = f"{type(error).__name__}: {error}"[:500]  # a bug of the relay, not of the channel: show it
        self.pump()

    def waiting_reason(self) -> str:
        """What the next message waits for, as a code."""
        if self.deliver is None:
            return "no_channel"
        if self.breaker.open:
            return "circuit_open"
        return "max_concurrent_exceeded" if self._busy or not self._has_room() else ""

    # --- the endpoint ---

    def resume(self, deliver: Deliver | None = None) -> None:
        if deliver is not None:
            self.deliver = deliver
        self._paused = False
        self.pump()

    async def pause(self, grace_s: float) -> None:
        """Start nothing more and wait for running deliveries; after `grace_s` they are cancelled, to be repeated."""
        self._paused = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._running:
            _, left = await asyncio.wait(set(self._running), timeout=grace_s)
            await cancel_and_wait(*left)

    def drain(self) -> list[InFlight]:
        """Remove and return all waiting messages."""
        messages = [message for queue in self._queues.values() for message in queue if not message.closed]
        self._queues.clear()
        self._turns.clear()
        self._waiting = 0
        for message in messages:
            message.queue = None
        return messages

    # --- results ---

    def record_success(self) -> None:
        self.delivered += 1
        self.last_delivery_at = time.time()
        self.breaker.succeeded()

    def record_failure(self, problem: str) -> None:
        self.failed += 1
        self.record_error(problem)
        self.breaker.failed()

    def record_error(self, problem: str) -> None:
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
