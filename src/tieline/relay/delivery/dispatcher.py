"""Routes stored messages to endpoint queues and tracks those in flight. Only the active relay dispatches.

A message is in flight until its receipt is over. A message in an inbox is soon parked in a table of its own, because it
may wait for days. All others are recovered by reading the log from the low-water mark.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine

from msgspec.structs import replace

from ...background_tasks import cancel_and_wait
from ...envelopes import DeadLetter, Envelope, MessageReceipt, ReceiptStep, State, decode_envelope
from ...errors import BusClosed, BusError
from ..longest_prefix_trie import LongestPrefixTrie
from ..settings import Settings
from ..storage.store import OFFERED_HEADER, RelayStore, new_receipt
from .endpoint_queue import EndpointQueue, InFlight
from .timer import Timer

MAX_CACHED_BODY = 16 * 1024
"""Largest envelope, in bytes, that is kept in memory while it waits; larger ones are read again for their delivery."""
RECOVER_BATCH = 512
MAX_DETAIL = 500

Listener = Callable[[MessageReceipt], None]


class Dispatcher:
    def __init__(self, store: RelayStore, settings: Settings, *, keep_unread_s: float) -> None:
        self.queues: LongestPrefixTrie[EndpointQueue] = LongestPrefixTrie()
        self.in_flight: dict[str, InFlight] = {}
        self.mailboxes: dict[str, dict[str, InFlight]] = {}  # address → its messages in flight, by id
        self.listeners: list[Listener] = []
        self.last_seq = 0  # the newest known record of the log
        self._store = store
        self._settings = settings
        self._keep_unread_s = keep_unread_s
        self._unrouted: dict[str, InFlight] = {}  # no endpoint for their address
        self._deadlines = Timer(self._on_deadline, self.in_flight.__contains__)
        self._tasks: set[asyncio.Task[None]] = set()
        self._open_writes: dict[object, int] = {}

    # --- accepting ---

    async def recover(self) -> None:
        """Load every message that was in flight when the last relay stopped."""
        low = await self._store.low_water_mark()
        self.last_seq = max(self.last_seq, low)
        parked = await self._store.parked()
        saved = await self._store.receipts(receipt.id for receipt in parked)
        for receipt in parked:
            if receipt.id in saved and saved[receipt.id].over:
                await self._store.unpark(receipt.id)
                continue
            message = InFlight(receipt, None)
            message.parked = True
            self._track_and_route(message)
        batch: list[MessageReceipt] = []
        async for record in self._store.records_after(low):
            self.last_seq = max(self.last_seq, record.seq)
            batch.append(new_receipt(decode_envelope(record.data), record.seq, record.headers.get(OFFERED_HEADER, "")))
            if len(batch) >= RECOVER_BATCH:
                await self._recover_batch(batch)
                batch = []
        await self._recover_batch(batch)

    async def _recover_batch(self, batch: list[MessageReceipt]) -> None:
        saved = await self._store.receipts(receipt.id for receipt in batch)
        for initial in batch:
            receipt = saved.get(initial.id) or initial
            if not receipt.over and receipt.id not in self.in_flight:
                self._track_and_route(InFlight(receipt, None))

    def accept(self, envelope: Envelope, seq: int, size: int, reserved: EndpointQueue | None = None) -> MessageReceipt:
        """Track a message that was just stored; with `reserved`, one that was stored as offered to that queue."""
        self.last_seq = max(self.last_seq, seq)
        if known := self.in_flight.get(envelope.id):
            if reserved is not None:
                reserved.release()
            return known.receipt
        receipt = new_receipt(envelope, seq)
        message = InFlight(receipt, envelope if size <= MAX_CACHED_BODY else None)
        if reserved is None:
            self._track_and_route(message)
        else:
            self._track(message)
            self._start_reserved(message, reserved)
        return receipt

    def _start_reserved(self, message: InFlight, reserved: EndpointQueue) -> None:
        """The log has the message as offered: start its delivery, or revoke the offer before anything else."""
        if self.queues.match(message.receipt.subject) is not reserved:  # another endpoint has the address now
            reserved.release()
        elif reserved.start_reserved(message):
            self._deadlines.add(self._deadline(message), message.receipt.id)
            return
        self._spawn(self._revoke_offer(message))

    async def _revoke_offer(self, message: InFlight) -> None:
        try:
            await self._store.save_receipt(message.receipt, "not offered")
        except BusClosed:
            return
        except BusError:
            pass  # after a crash, one attempt too many is counted
        self.route(message)

    def reopen(self, receipt: MessageReceipt) -> None:
        """Track a message again that was handed over and came back; it is saved among the unread ones."""
        message = InFlight(receipt, None)
        message.parked = True
        self._track_and_route(message)
        self.notify(receipt)

    def _track_and_route(self, message: InFlight) -> None:
        self._track(message)
        self.route(message)

    def _track(self, message: InFlight) -> None:
        receipt = message.receipt
        self.in_flight[receipt.id] = message
        self.mailboxes.setdefault(receipt.subject, {})[receipt.id] = message

    def route(self, message: InFlight) -> None:
        """Put the message into the queue of its address, if there is one."""
        queue = self.queues.match(message.receipt.subject)
        message.queue = queue
        if message.closed:
            return
        if self._in_inbox(message):
            if not message.parked and message.timer is None:  # most are read at once: they cost no write
                loop = asyncio.get_running_loop()
                message.timer = loop.call_later(self._settings.park_after_s, self._start_parking, message)
        elif queue is None:
            self._unrouted[message.receipt.id] = message
        else:
            queue.put(message)
        self._deadlines.add(self._deadline(message), message.receipt.id)

    def retry_later(self, message: InFlight, wait: float) -> None:
        if not message.closed:
            message.timer = asyncio.get_running_loop().call_later(wait, self._retry, message)

    def _retry(self, message: InFlight) -> None:
        message.timer = None
        self.route(message)

    def _start_parking(self, message: InFlight) -> None:
        message.timer = None
        self._spawn(self._park(message))

    async def _park(self, message: InFlight) -> None:
        while not message.closed and not message.parked:
            try:
                await self._store.park(message.receipt)
                message.parked = True
                if message.closed:  # read meanwhile
                    await self._store.unpark(message.receipt.id)
            except BusClosed:
                return
            except BusError:
                await asyncio.sleep(self._settings.room_wait_s)

    # --- low-water mark of the log ---

    def begin_write(self) -> object:
        """A write to the log begins; until `end_write`, the low-water mark stays at or below this point."""
        token = object()
        self._open_writes[token] = self.last_seq
        return token

    def end_write(self, token: object) -> None:
        self._open_writes.pop(token, None)

    def low_water_mark(self) -> int:
        """Every message in the log up to here is over, or parked."""
        open_seqs = [message.receipt.seq - 1 for message in self.in_flight.values() if not message.parked]
        return min([self.last_seq, *open_seqs, *self._open_writes.values()])

    def oldest_needed(self) -> int:
        """Records from here on must not be trimmed."""
        return min([self.last_seq + 1, *(message.receipt.seq for message in self.in_flight.values())])

    # --- queues ---

    def add_queue(self, queue: EndpointQueue) -> bool:
        if not self.queues.add(queue.subject, queue, prefix=queue.prefix):
            return False
        for message in list(self._unrouted.values()):
            if self.queues.match(message.receipt.subject) is queue:
                del self._unrouted[message.receipt.id]
                self.route(message)
        return True

    def remove_queue(self, queue: EndpointQueue) -> None:
        self.queues.remove(queue.subject, prefix=queue.prefix)
        for message in queue.drain():
            self.route(message)

    async def stop(self) -> None:
        """Cancel deliveries and drop all messages; the next active relay recovers them from the log."""
        for message in self.in_flight.values():
            message.closed = message.task is None
            if message.timer is not None:
                message.timer.cancel()
        self._deadlines.clear()
        queues = [queue for _, _, queue in self.queues.all()]
        await asyncio.gather(*(queue.pause(self._settings.stop_s) for queue in queues))
        for queue in queues:
            queue.drain()
        for message in self.in_flight.values():
            message.closed = True
        await cancel_and_wait(*self._tasks)
        self.in_flight.clear()
        self.mailboxes.clear()
        self._unrouted.clear()
        self._deadlines.clear()

    # --- receipts ---

    def finish(self, message: InFlight) -> None:
        """Drop a message whose final receipt is durable."""
        message.closed = True
        if message.timer is not None:
            message.timer.cancel()
        subject = message.receipt.subject
        if self.in_flight.pop(message.receipt.id, None) is not None:
            mailbox = self.mailboxes[subject]
            del mailbox[message.receipt.id]
            if not mailbox:
                del self.mailboxes[subject]
        self._unrouted.pop(message.receipt.id, None)
        self.notify(message.receipt)

    def add_step(self, receipt: MessageReceipt, step: ReceiptStep, **changes: object) -> MessageReceipt:
        """The receipt with one more step. Beyond `max_steps`, steps in the middle are dropped."""
        steps = (*receipt.steps, step)
        most = self._settings.max_steps
        if len(steps) > most:
            steps = (*steps[: most // 2], *steps[-(most // 2) :])
        return replace(receipt, steps=steps, **changes)

    async def end(
        self, message: InFlight, envelope: Envelope | None, state: State, reason: str, detail: str = ""
    ) -> None:
        """End a message as dead or expired. Saves the dead letter first: nobody looks at a receipt that is over."""
        now, receipt = time.time(), message.receipt
        if envelope is not None:
            dead_letter = DeadLetter(
                envelope=envelope,
                reason=reason,
                detail=detail[:MAX_DETAIL],
                attempts=receipt.attempts,
                at=now,
                state="expired" if state == "expired" else "dead",
            )
            await self._store.save_dead_letter(dead_letter)
        step = ReceiptStep(state, now, receipt.attempts, reason, detail[:MAX_DETAIL])
        receipt = self.add_step(receipt, step, over=True, waiting="")
        await self._store.save_receipt(receipt)
        message.receipt = receipt
        self.finish(message)

    async def save_progress(self, message: InFlight) -> None:
        """Save a step that was added during a delivery."""
        await self._store.save_receipt(message.receipt)
        self.notify(message.receipt)

    def notify(self, receipt: MessageReceipt) -> None:
        for listener in list(self.listeners):
            listener(receipt)

    def waiting_reason(self, message: InFlight) -> str:
        """What a message waits for, as a code."""
        if message.task is not None:
            return ""
        if message.waiting_reason:
            return message.waiting_reason
        if self._in_inbox(message):
            return "unread"
        why = message.queue.waiting_reason() if message.queue is not None else "no_channel"
        # Between two attempts the message waits for its timer, not for room.
        return why if message.timer is None or why != "max_concurrent_exceeded" else ""

    def _deadline(self, message: InFlight) -> float:
        if self._in_inbox(message):
            return message.receipt.steps[0].at + self._keep_unread_s
        return message.receipt.expires_at

    def _in_inbox(self, message: InFlight) -> bool:
        return message.queue is not None and message.queue.kind == "inbox"

    def _on_deadline(self, id: str) -> None:
        message = self.in_flight.get(id)
        if message is None or message.closed or message.task is not None:
            return  # a running delivery has its own timeout, and adds a deadline if it waits again
        if self._deadline(message) > time.time():
            self._deadlines.add(self._deadline(message), id)
            return
        waiting = self.waiting_reason(message)
        message.closed = True
        self._spawn(self._expire(message, waiting))

    async def _expire(self, message: InFlight, waiting: str) -> None:
        try:
            if message.parked or self._in_inbox(message):
                await self.end(message, None, "expired", "unread_too_long")
                if message.parked:
                    await self._store.unpark(message.receipt.id)
                return
            envelope = message.envelope or await self._store.envelope(message.receipt)
            await self.end(message, envelope, *expiry_outcome(waiting))
        except BusClosed:
            return
        except BusError:
            message.closed = False
            self._deadlines.add(time.time() + self._settings.room_wait_s, message.receipt.id)

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def expiry_outcome(waiting_reason: str) -> tuple[State, str]:
    """How an expired message ends, by what it waited for."""
    if waiting_reason == "max_concurrent_exceeded":
        return "dead", waiting_reason
    return "expired", waiting_reason or "ttl_expired"
