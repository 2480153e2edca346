"""Brings stored messages to where they are awaited, and knows which are not over. Only the active relay's works.

A message is *live* until it is over. What waits for a person is parked: durable in a table of its own, because it may
wait for days. All else is found again by reading the log from where everything before is over.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine

from msgspec.structs import replace

from ...envelopes import Envelope, MessageReceipt, ReceiptStep, decode_envelope
from ...errors import BusClosed, BusError
from ..address_matching import Endpoints
from ..settings import Settings
from ..storage.store import OFFERED, RelayStore, receipt_of
from .attempts import Attempts, late
from .endpoint_queue import EndpointQueue, InFlight
from .timer import Timer

KEPT_BODY = 16 * 1024
"""Bytes of an envelope that is kept in memory while it waits; larger ones are read again when their turn comes."""
RECOVER_STEP = 512

Heard = Callable[[MessageReceipt], None]


class Dispatcher:
    def __init__(self, ledger: RelayStore, settings: Settings, *, keep_unread_s: float) -> None:
        self.lanes: Endpoints[EndpointQueue] = Endpoints()
        self.live: dict[str, InFlight] = {}
        self.mailboxes: dict[str, int] = {}  # address → its live messages
        self.heard: list[Heard] = []
        self.last = 0  # the newest place in the log that we know of
        self.attempts: Attempts | None = None
        self._ledger = ledger
        self._settings = settings
        self._keep_unread_s = keep_unread_s
        self._orphans: dict[str, InFlight] = {}  # nobody answers for their address at present
        self._deadlines = Timer(self._expire, self.live.__contains__)
        self._tasks: set[asyncio.Task[None]] = set()
        self._storing: dict[object, int] = {}

    # --- taking ---

    async def recover(self) -> None:
        """Everything that was not over when the last relay ended."""
        low = await self._ledger.low()
        self.last = max(self.last, low)
        parked = await self._ledger.parked()
        read = await self._ledger.receipts(receipt.id for receipt in parked)
        for receipt in parked:
            if receipt.id in read and read[receipt.id].over:
                await self._ledger.unpark(receipt.id)
                continue
            live = InFlight(receipt, None)
            live.parked = True
            self._add(live)
        found: list[MessageReceipt] = []
        async for record in self._ledger.mail_after(low):
            self.last = max(self.last, record.seq)
            found.append(receipt_of(decode_envelope(record.data), record.seq, record.headers.get(OFFERED, "")))
            if len(found) >= RECOVER_STEP:
                await self._recovered(found)
                found = []
        await self._recovered(found)

    async def _recovered(self, found: list[MessageReceipt]) -> None:
        known = await self._ledger.receipts(receipt.id for receipt in found)
        for stored in found:
            receipt = known.get(stored.id) or stored
            if not receipt.over and receipt.id not in self.live:
                self._add(InFlight(receipt, None))

    def take(self, envelope: Envelope, seq: int, size: int, reserved: EndpointQueue | None = None) -> MessageReceipt:
        """A message that was just stored; with a place in a lane, as offered there."""
        self.last = max(self.last, seq)
        if known := self.live.get(envelope.id):
            if reserved is not None:
                reserved.release()
            return known.receipt
        receipt = receipt_of(envelope, seq)
        live = InFlight(receipt, envelope if size <= KEPT_BODY else None)
        if reserved is None:
            self._add(live)
        else:
            self._count(live)
            self._begin(live, reserved)
        return receipt

    def _begin(self, live: InFlight, reserved: EndpointQueue) -> None:
        """It is in the log as offered: that must come true, or be taken back before anything else is done with it."""
        if self.lanes.match(live.receipt.subject) is not reserved:  # another answers for it by now
            reserved.release()
        elif reserved.begin(live):
            self._deadlines.add(self._deadline(live), live.receipt.id)
            return
        self._spawn(self._not_offered(live))

    async def _not_offered(self, live: InFlight) -> None:
        try:
            await self._ledger.keep(live.receipt, "not offered")
        except BusClosed:
            return
        except BusError:
            pass  # then one attempt too many is counted after a crash
        self.place(live)

    def _add(self, live: InFlight) -> None:
        self._count(live)
        self.place(live)

    def _count(self, live: InFlight) -> None:
        receipt = live.receipt
        self.live[receipt.id] = live
        self.mailboxes[receipt.subject] = self.mailboxes.get(receipt.subject, 0) + 1

    def place(self, live: InFlight) -> None:
        """Bring it to its lane, if there is one."""
        lane = self.lanes.match(live.receipt.subject)
        live.lane = lane
        if live.gone:
            return
        if lane is not None and lane.kind == "inbox":
            if not live.parked:
                self._spawn(self._park(live))
        elif lane is None:
            self._orphans[live.receipt.id] = live
        else:
            lane.put(live)
        self._deadlines.add(self._deadline(live), live.receipt.id)

    def later(self, live: InFlight, wait: float) -> None:
        if not live.gone:
            live.timer = asyncio.get_running_loop().call_later(wait, self._due, live)

    def _due(self, live: InFlight) -> None:
        live.timer = None
        self.place(live)

    async def _park(self, live: InFlight) -> None:
        while not live.gone and not live.parked:
            try:
                await self._ledger.park(live.receipt)
                live.parked = True
                if live.gone:  # it was read meanwhile
                    await self._ledger.unpark(live.receipt.id)
            except BusClosed:
                return
            except BusError:
                await asyncio.sleep(self._settings.room_wait_s)

    # --- the log's end that is over ---

    def storing(self) -> object:
        """Something is on its way to the log; until `stored`, nothing after this point counts as over."""
        token = object()
        self._storing[token] = self.last
        return token

    def stored(self, token: object) -> None:
        self._storing.pop(token, None)

    def low(self) -> int:
        """Everything in the log up to here is over, or parked."""
        unsure = [live.receipt.seq - 1 for live in self.live.values() if not live.parked]
        return min([self.last, *unsure, *self._storing.values()])

    def needed(self) -> int:
        """No record from here on may be trimmed."""
        return min([self.last + 1, *(live.receipt.seq for live in self.live.values())])

    # --- lanes ---

    def add_queue(self, lane: EndpointQueue) -> bool:
        if not self.lanes.add(lane.subject, lane, prefix=lane.prefix):
            return False
        for live in list(self._orphans.values()):
            if self.lanes.match(live.receipt.subject) is lane:
                del self._orphans[live.receipt.id]
                self.place(live)
        return True

    def remove_queue(self, lane: EndpointQueue) -> None:
        self.lanes.remove(lane.subject, prefix=lane.prefix)
        for live in lane.empty():
            self.place(live)

    async def halt(self) -> None:
        """Forget everything that is live; the log has it. What runs is made again by the next one."""
        for live in self.live.values():
            live.gone = live.task is None
            if live.timer is not None:
                live.timer.cancel()
        self._deadlines.clear()
        lanes = [lane for _, _, lane in self.lanes.all()]
        await asyncio.gather(*(lane.pause(self._settings.stop_s) for lane in lanes))
        for lane in lanes:
            lane.empty()
        for live in self.live.values():
            live.gone = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.live.clear()
        self.mailboxes.clear()
        self._orphans.clear()
        self._deadlines.clear()

    # --- ends ---

    def forget(self, live: InFlight) -> None:
        """It is over, and that is durable."""
        live.gone = True
        if live.timer is not None:
            live.timer.cancel()
        subject = live.receipt.subject
        if self.live.pop(live.receipt.id, None) is not None:
            left = self.mailboxes[subject] - 1
            if left:
                self.mailboxes[subject] = left
            else:
                del self.mailboxes[subject]
        self._orphans.pop(live.receipt.id, None)
        self.tell(live.receipt)

    def add(self, receipt: MessageReceipt, step: ReceiptStep, **changes: object) -> MessageReceipt:
        """One step more. What repeats itself for long is cut in its middle."""
        steps = (*receipt.steps, step)
        most = self._settings.max_steps
        if len(steps) > most:
            steps = (*steps[: most // 2], *steps[-(most // 2) :])
        return replace(receipt, steps=steps, **changes)

    async def note(self, live: InFlight) -> None:
        """A step in the middle of a delivery."""
        await self._ledger.keep(live.receipt)
        self.tell(live.receipt)

    def tell(self, receipt: MessageReceipt) -> None:
        for heard in list(self.heard):
            heard(receipt)

    def waiting(self, live: InFlight) -> str:
        """What a message waits for just now, as a code."""
        if live.task is not None:
            return ""
        if live.waiting:
            return live.waiting
        why = live.lane.why_waiting() if live.lane is not None else "no_channel"
        # Between two attempts it waits for its time; room it needs only then.
        return why if live.timer is None or why != "max_concurrent_exceeded" else ""

    def _deadline(self, live: InFlight) -> float:
        if live.lane is not None and live.lane.kind == "inbox":
            return live.receipt.steps[0].at + self._keep_unread_s
        return live.receipt.expires_at

    def _expire(self, id: str) -> None:
        live = self.live.get(id)
        if live is None or live.gone or live.task is not None:
            return  # a delivery that runs has its own time limit, and comes back here if it waits again
        if self._deadline(live) > time.time():
            self._deadlines.add(self._deadline(live), id)
            return
        waiting = self.waiting(live)
        live.gone = True
        self._spawn(self._expired(live, waiting))

    async def _expired(self, live: InFlight, waiting: str) -> None:
        assert self.attempts is not None
        try:
            if live.parked:
                await self.attempts.end(live, None, "expired", "unread_too_long")
                await self._ledger.unpark(live.receipt.id)
                return
            envelope = live.envelope or await self._ledger.envelope(live.receipt)
            await self.attempts.end(live, envelope, *late(waiting))
        except BusClosed:
            return
        except BusError:
            live.gone = False
            self._deadlines.add(time.time() + self._settings.room_wait_s, live.receipt.id)

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
