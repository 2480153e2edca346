"""Hands unread messages over to members, each once, by whichever way is first: a tool call, a hook, a push.

`offer` lends messages out for a short time, so that no other way hands them over meanwhile. `confirm` says that they
really arrived (`injected`); `release`, or no word within the time, makes them unread again. They are `seen` when the
member shows that it went on with them: by its next call, hook or turn. What a harness had only in its memory when its
session ended is unread again.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable

import msgspec
from msgspec.structs import replace

from ..envelopes import MAX_ENVELOPE, Envelope, Message, MessageReceipt, UnknownMessage
from ..errors import TielineError
from ..protocol.mesh import MAX_FETCH
from ..relay import Relay

LEASE_S = 60.0
"""How long a way may take to hand messages over."""
WORKING_S = 600.0
"""A member works on a message for so long at most, unless it says earlier that it is idle: what it sends meanwhile
inherits the message's budget."""
MAX_FETCH_BYTES = MAX_ENVELOPE
"""Bytes of the texts, as JSON, that are handed over at once; but always one message."""
MAX_HANDED = 200
"""Messages per member that were handed over and not seen yet."""


def size_of(text: str) -> int:
    """Bytes of a text as JSON."""
    return len(msgspec.json.encode(text))


class _Work:
    """A member works on a message until its timer ends it. Its identity is the context of the delivery."""

    def __init__(self, timer: asyncio.TimerHandle, message: str, sender: str) -> None:
        self.timer = timer
        self.message = message
        self.sender = sender


class Mailbox:
    """`with Mailbox(relay) as mailbox`."""

    def __init__(self, relay: Relay, *, lease_s: float = LEASE_S, working_s: float = WORKING_S) -> None:
        self._relay = relay
        self._lease_s = lease_s
        self._working_s = working_s
        self._leases: dict[str, asyncio.TimerHandle] = {}  # message id → until when it is lent out
        self._handed: dict[str, dict[str, bool]] = {}  # address → ids not seen yet → whether only in a harness's memory
        self._doubtful: dict[str, set[str]] = {}  # address → unread ids that its harness may have all the same
        self._recalled: set[str] = set()  # addresses whose messages from before our start are in `_handed`
        self._work: dict[str, _Work] = {}
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}
        self._listeners: dict[str, list[Callable[[], None]]] = {}
        self._on_returned: list[Callable[[str], None]] = []
        self._awaited = Counter[str]()  # address → calls of its agent that wait
        self._unsubscribe: Callable[[], None] = lambda: None

    def __enter__(self) -> "Mailbox":
        self._unsubscribe = self._relay.subscribe(self._on_receipt)
        return self

    def __exit__(self, *_: object) -> None:
        self._unsubscribe()
        for id in list(self._leases):
            self._end_lease(id)
        for address in list(self._work):
            self.end_work(address)

    # --- unread ---

    def unread(self, address: str) -> int:
        """Also those that are being handed over just now."""
        return len(self._relay.dispatcher.mailboxes.get(address, ()))

    def available(self, address: str) -> list[MessageReceipt]:
        """Unread messages that nobody is handing over, oldest first."""
        return [receipt for receipt in self._relay.inbox(address).unread() if receipt.id not in self._leases]

    async def wait(self, address: str, timeout: float) -> bool:
        """Whether there is something to hand over. Returns at once if there is, and after the timeout if not."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while not self.available(address):
            if deadline <= loop.time():
                return False
            waiter = loop.create_future()
            self._waiters.setdefault(address, set()).add(waiter)
            try:
                await asyncio.wait((waiter,), timeout=deadline - loop.time())
            finally:
                waiter.cancel()
                self._waiters[address].discard(waiter)
                if not self._waiters[address]:
                    del self._waiters[address]
        return True

    @contextlib.contextmanager
    def awaited(self, address: str) -> Generator[None]:
        """A call of its agent waits for messages. They are left to it: brought another way, the agent would have them
        only when the call is over, and the call would go on waiting."""
        self._awaited[address] += 1
        try:
            yield
        finally:
            self._awaited[address] -= 1
            if not self.is_awaited(address):
                del self._awaited[address]
                if self.available(address):
                    self._tell_returned(address)

    def is_awaited(self, address: str) -> bool:
        """Whether a call of its agent waits for messages."""
        return self._awaited[address] > 0

    def on_message(self, address: str, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` for each message that arrives at the address. Returns a function that ends it."""
        self._listeners.setdefault(address, []).append(listener)

        def end() -> None:
            left = self._listeners.get(address, [])
            if listener in left:
                left.remove(listener)
            if not left:
                self._listeners.pop(address, None)

        return end

    def on_returned(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Calls `listener` with the address of messages that were lent out and are unread again, or that no call waits
        for any more. Returns a function that ends it."""
        self._on_returned.append(listener)
        return lambda: self._on_returned.remove(listener)

    # --- handing over ---

    async def offer(self, address: str, limit: int = MAX_FETCH, *, only: Iterable[str] = ()) -> list[Message]:
        """Lends the oldest unread messages out (or those of `only`), for LEASE_S. What is too much at once stays
        unread."""
        wanted = set(only)
        receipts = [receipt for receipt in self.available(address) if not wanted or receipt.id in wanted]
        chosen = receipts[: max(0, min(limit, MAX_FETCH))]
        loop = asyncio.get_running_loop()
        for receipt in chosen:
            self._leases[receipt.id] = loop.call_later(self._lease_s, self.release, address, (receipt.id,))
        inbox = self._relay.inbox(address)
        offered: list[Message] = []
        room = MAX_FETCH_BYTES
        try:
            for receipt in chosen:
                envelope = await inbox.envelope(receipt)
                room -= size_of(envelope.payload.as_text()) if envelope else 0
                if offered and room < 0:
                    break
                offered.append(Message(receipt=receipt, envelope=envelope))
        except BaseException:
            self.release(address, (receipt.id for receipt in chosen))
            raise
        if rest := chosen[len(offered) :]:
            self.release(address, (receipt.id for receipt in rest))
        return offered

    async def confirm(
        self, address: str, ids: Iterable[str], *, seen: bool = False, in_memory: bool = False
    ) -> list[MessageReceipt]:
        """They arrived: they are no longer unread. With `seen`, the member went on with them as well; with `in_memory`,
        the harness loses them if the session ends before that."""
        inbox = self._relay.inbox(address)
        receipts: list[MessageReceipt] = []
        for id in ids:
            message = self._relay.dispatcher.mailboxes.get(address, {}).get(id)
            envelope = await inbox.envelope(message.receipt) if message is not None else None
            try:
                receipt = await inbox.hand_over(id, seen=seen)
            finally:
                self._end_lease(id)
            self._doubtful.get(address, set()).discard(id)
            if receipt is None:
                continue
            receipts.append(receipt)
            if not seen:
                handed = self._handed.setdefault(address, {})
                handed[id] = in_memory
                if len(handed) > MAX_HANDED:
                    del handed[next(iter(handed))]
            if envelope is not None:
                self._begin_work(address, envelope)
        return receipts

    def doubtful(self, address: str, ids: Iterable[str]) -> set[str]:
        """Those that its harness may have, though nobody confirmed it."""
        return self._doubtful.get(address, set()).intersection(ids)

    def release(self, address: str, ids: Iterable[str], *, doubtful: bool = False) -> None:
        """Handing them over failed: they are unread again. `doubtful`: they may have arrived all the same."""
        ids = list(ids)
        if doubtful:
            self._doubt(address, ids)
        if [id for id in ids if self._end_lease(id)]:
            self._wake(address)
            self._tell_returned(address)

    async def took_up(self, address: str) -> None:
        """The member gave a sign that it went on with what it was handed."""
        await self._recall(address)
        for id, in_memory in self._handed.pop(address, {}).items():
            with contextlib.suppress(UnknownMessage):
                try:
                    await self._relay.progress(id, "seen")
                except TielineError:
                    self._handed.setdefault(address, {})[id] = in_memory  # told again with its next sign
                    raise

    async def session_over(self, address: str) -> None:
        """It gives no more signs. What its harness had only in memory is unread again."""
        self._recalled.add(address)
        for id, in_memory in self._handed.pop(address, {}).items():
            if in_memory:
                self._doubt(address, [id])  # the harness may have written it down just before
                await self._relay.inbox(address).take_back(id)

    def _doubt(self, address: str, ids: list[str]) -> None:
        doubtful = self._doubtful.setdefault(address, set())
        doubtful.update(ids[: max(0, MAX_HANDED - len(doubtful))])

    async def _recall(self, address: str) -> None:
        """What was handed over just before the hub was started anew."""
        if address in self._recalled:
            return
        self._recalled.add(address)
        since = time.time() - self._working_s
        for message in await self._relay.inbox(address).messages(limit=MAX_FETCH):
            last = message.receipt.steps[-1]
            if last.state == "injected" and last.at > since:
                self._handed.setdefault(address, {}).setdefault(message.receipt.id, False)

    # --- what a member works on ---

    def working_on(self, address: str) -> tuple[str, str]:
        """The message that it was handed last in this turn, and whose it is; empty without one."""
        work = self._work.get(address)
        return (work.message, work.sender) if work else ("", "")

    def end_work(self, address: str) -> None:
        """Its turn is over: what it sends from now on has a budget of its own."""
        if work := self._work.pop(address, None):
            work.timer.cancel()
            self._relay.active_deliveries.end(work)

    def _begin_work(self, address: str, envelope: Envelope) -> None:
        self.end_work(address)
        timer = asyncio.get_running_loop().call_later(self._working_s, self.end_work, address)
        work = self._work[address] = _Work(timer, envelope.id, envelope.sender)
        # It may have waited in the inbox for days; its hops and calls bound what comes of it.
        expires_at = max(envelope.budget.expires_at, time.time() + self._working_s)
        envelope = replace(envelope, budget=replace(envelope.budget, expires_at=expires_at))
        self._relay.active_deliveries.begin(work, envelope, address)

    # --- inside ---

    def _tell_returned(self, address: str) -> None:
        for listener in tuple(self._on_returned):
            listener(address)

    def _end_lease(self, id: str) -> bool:
        """Whether it was lent out."""
        if (timer := self._leases.pop(id, None)) is None:
            return False
        timer.cancel()
        return True

    def _on_receipt(self, receipt: MessageReceipt) -> None:
        if receipt.over:
            self._end_lease(receipt.id)
            return
        if receipt.subject in self._waiters:
            self._wake(receipt.subject)
        if receipt.state == "stored":
            for listener in tuple(self._listeners.get(receipt.subject, ())):
                listener()

    def _wake(self, address: str) -> None:
        for waiter in self._waiters.get(address, ()):
            if not waiter.done():
                waiter.set_result(None)
