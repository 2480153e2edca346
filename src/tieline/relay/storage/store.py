"""Everything that the relay stores on the bus.

    mail.<address>      a record per message: the envelope. That it is there is `accepted` and `stored`; one that could
                        be offered at once says so in its header: three steps in one write
    relay_receipts      message id → its receipt, from the first attempt on that is not in the log
    relay_unread        message id → the receipt of what waits for a person, however long that takes
    relay_threads       <thread>.<message id> → of every message but a thread's first
    relay_dead          message id → its dead dead_letter
    relay_keys          digest of sender and idempotency key → message id
    relay_channels      <channel>.<key> → what a channel keeps for itself
    relay               the lease of the active relay, and how far everything before is over

`probe` is called around every write: tests end the process there and look at the recovery.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing

from ...bus.base import Bus, Record
from ...bus.subjects import check_key
from ...envelopes import (
    DeadLetter,
    Envelope,
    Message,
    MessageReceipt,
    ReceiptStep,
    decode_dead,
    decode_envelope,
    decode_receipt,
    encode,
)
from ...errors import BadSubject, Conflict

MESSAGE_LOG = "mail"
OFFERED_HEADER = "offered"
"""Header with the endpoint to which the message was offered when it was stored."""
MAX_PARALLEL_READS = 64
"""Table look-ups at a time."""
_HOUR = 3600


def derived_id(id: str, purpose: str) -> str:
    """The id of a message that follows from another: always the same."""
    return id[:12] + hashlib.sha256(f"{purpose}.{id}".encode()).hexdigest()[:16]


def new_receipt(envelope: Envelope, seq: int, offered: str = "") -> MessageReceipt:
    at = envelope.created_at
    first = (ReceiptStep("offered", at, 1, channel=offered),) if offered else ()
    return MessageReceipt(
        id=envelope.id,
        subject=envelope.subject,
        sender=envelope.sender,
        thread=envelope.thread,
        seq=seq,
        steps=(ReceiptStep("accepted", at), ReceiptStep("stored", at), *first),
        attempts=len(first),
        caused_by=envelope.caused_by,
        expires_at=envelope.budget.expires_at,
    )


class RelayStore:
    def __init__(self, bus: Bus, *, keep_s: float, keep_unread_s: float, keep_dead_s: float, keep_keys_s: int) -> None:
        self.probe: Callable[[str], None] | None = None
        self._bus = bus
        self._receipts = bus.table("relay_receipts")
        self._unread = bus.table("relay_unread")
        self._threads = bus.table("relay_threads")
        self._dead = bus.table("relay_dead")
        self._keys = bus.table("relay_keys")
        self._channels = bus.table("relay_channels")
        self._state = bus.table("relay")
        self._keep = max(1, round(keep_s))
        self._keep_unread = max(1, round(keep_unread_s)) + 86400  # a backstop: the relay itself ends it, and says so
        self._keep_thread = self._keep_unread + self._keep  # longer than the receipt: see `keep`
        self._keep_dead = max(1, round(keep_dead_s))
        self._keep_keys = keep_keys_s

    # --- messages ---

    async def append_message(self, envelope: Envelope, data: bytes, *, offered: str = "") -> int:
        """Its place in the log, and in the same write that it is offered to an endpoint. The same id again is the same
        record."""
        self._probe("before", "stored")
        await self._add_to_thread(envelope.thread, envelope.id)
        headers = {OFFERED_HEADER: offered} if offered else None
        seq = await self._bus.publish(f"{MESSAGE_LOG}.{envelope.subject}", data, id=envelope.id, headers=headers)
        self._probe("after", "stored")
        return seq

    async def _add_to_thread(self, thread: str, id: str) -> None:
        if thread != id:
            await self._threads.put(f"{thread}.{id}", b"1", ttl=self._keep_thread)

    async def claim_key(self, sender: str, key: str, id: str) -> str:
        """The id of the message with this key: the one given, or that of an earlier one."""
        digest = hashlib.sha256(f"{sender}\n{key}".encode()).hexdigest()[:40]
        try:
            await self._keys.put(digest, id.encode(), expect=0, ttl=self._keep_keys)
        except Conflict:
            entry = await self._keys.get(digest)
            return entry.value.decode() if entry else id
        return id

    async def envelope(self, receipt: MessageReceipt) -> Envelope | None:
        """The envelope of a receipt; None when its record was trimmed."""
        async with aclosing(
            self._bus.read(f"{MESSAGE_LOG}.{receipt.subject}", after=receipt.seq - 1, follow=False)
        ) as records:
            async for record in records:
                envelope = decode_envelope(record.data)
                return envelope if envelope.id == receipt.id else None
        return None

    async def messages_to(
        self, subject: str, limit: int, *, before: int = 0, sender: str = ""
    ) -> list[tuple[Envelope, int]]:
        """The newest messages to an address with their positions in the log, newest first. `before`: only messages
        before that position; `sender`: only this sender's. Order them by position: the id of an answer begins with the
        time of its question."""
        messages: list[tuple[Envelope, int]] = []
        async with aclosing(self._bus.read(f"{MESSAGE_LOG}.{subject}", follow=False)) as records:
            async for record in records:
                envelope = decode_envelope(record.data)
                if (before and record.seq >= before) or (sender and envelope.sender != sender):
                    continue
                messages.append((envelope, record.seq))
                if len(messages) > 2 * limit:
                    del messages[:limit]
        return messages[-limit:][::-1]

    def records_after(self, cursor: int) -> AsyncGenerator[Record, None]:
        return self._bus.read(f"{MESSAGE_LOG}.>", after=cursor, follow=False)

    # --- receipts ---

    async def save_receipt(self, receipt: MessageReceipt, moment: str = "") -> None:
        """A receipt never outlives its place in the thread. That place is kept long enough for what ends in its time:
        only what was there for longer (nobody relayed, or its answer came late) has it renewed."""
        moment = moment or receipt.steps[-1].state
        self._probe("before", moment)
        if receipt.over and time.time() > receipt.steps[0].at + self._keep_unread:
            await self._add_to_thread(receipt.thread, receipt.id)
        await self._receipts.put(receipt.id, encode(receipt), ttl=self._keep if receipt.over else None)
        self._probe("after", moment)

    async def receipt(self, id: str) -> MessageReceipt | None:
        try:
            check_key(id)
        except BadSubject:  # whatever a caller takes for an id: no message has it
            return None
        entry = await self._receipts.get(id)
        return decode_receipt(entry.value) if entry else None

    async def receipts(self, ids: Iterable[str]) -> dict[str, MessageReceipt]:
        receipts: dict[str, MessageReceipt] = {}
        wanted = list(ids)
        for start in range(0, len(wanted), MAX_PARALLEL_READS):
            for receipt in await asyncio.gather(*map(self.receipt, wanted[start : start + MAX_PARALLEL_READS])):
                if receipt is not None:
                    receipts[receipt.id] = receipt
        return receipts

    async def newest_ids(self, limit: int) -> list[str]:
        """Ids begin with their time."""
        return (await self._receipts.keys())[-limit:]

    async def thread_ids(self, id: str) -> list[str]:
        return [id, *(key.partition(".")[2] for key in await self._threads.keys(f"{id}.*"))]

    async def message(self, receipt: MessageReceipt) -> Message:
        return Message(receipt=receipt, envelope=await self.envelope(receipt))

    # --- unread messages ---

    async def park(self, receipt: MessageReceipt) -> None:
        self._probe("before", "parked")
        await self._unread.put(receipt.id, encode(receipt), ttl=self._keep_unread)
        self._probe("after", "parked")

    async def unpark(self, id: str) -> None:
        await self._unread.delete(id)

    async def parked(self) -> list[MessageReceipt]:
        return [decode_receipt(entry.value) for entry in await self._unread.entries()]

    # --- dead letters ---

    async def save_dead_letter(self, dead_letter: DeadLetter) -> None:
        self._probe("before", "buried")
        await self._dead.put(dead_letter.envelope.id, encode(dead_letter), ttl=self._keep_dead)
        self._probe("after", "buried")

    async def dead_letter(self, id: str) -> DeadLetter | None:
        entry = await self._dead.get(id)
        return decode_dead(entry.value) if entry else None

    async def dead_letters(self) -> list[DeadLetter]:
        return [decode_dead(entry.value) for entry in await self._dead.entries()]

    async def delete_dead_letter(self, id: str) -> None:
        await self._dead.delete(id)

    # --- values of channels ---

    async def save_channel_value(self, key: str, value: bytes, ttl_s: int) -> None:
        await self._channels.put(key, value, ttl=ttl_s)

    async def channel_value(self, key: str) -> bytes | None:
        entry = await self._channels.get(key)
        return entry.value if entry else None

    # --- low-water mark ---

    async def low_water_mark(self) -> int:
        entry = await self._state.get("low")
        return int(entry.value) if entry else 0

    async def save_low_water_mark(self, seq: int) -> None:
        await self._state.put("low", str(seq).encode())

    async def trim(self, seq: int, needed: int) -> int:
        """Save the log's position, and remove records that are too old and not needed. Returns how many."""
        now = time.time()
        await self._state.put(f"mark.{int(now // _HOUR)}", str(seq).encode(), ttl=2 * self._keep + 2 * _HOUR)
        oldest = int((now - self._keep) // _HOUR)
        old = [
            (int(entry.key[5:]), int(entry.value))
            for entry in await self._state.entries("mark.*")
            if int(entry.key[5:]) < oldest
        ]
        before = min(max((seq for _, seq in old), default=0), needed)
        return await self._bus.trim(f"{MESSAGE_LOG}.>", before=before) if before > 1 else 0

    def _probe(self, when: str, moment: str) -> None:
        if self.probe is not None:
            self.probe(f"{when} {moment}")
