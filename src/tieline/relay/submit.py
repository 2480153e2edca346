"""Checks and stores a message that somebody sends. What is not accepted is refused here with a reason code.

Checked in this order: address, reserved subjects, who may send to whom, rate, budget (hops, cycle, time, calls),
endpoint, mailbox, size. A message refused for its budget also becomes a dead letter: its sender may not see the error.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable

from msgspec import Struct

from ..config import RelayConfig
from ..envelopes import (
    MAX_ENVELOPE,
    Budget,
    DeadLetter,
    Envelope,
    Limits,
    MessageReceipt,
    Payload,
    ReceiptStep,
    Refused,
    RelayStandby,
    address,
    encode,
    under,
)
from ..errors import BadSubject, BusClosed, BusError, BusUnavailable
from ..ids import new_id
from . import budget as budgets
from .delivery.attempts import has_state
from .delivery.attribution import ActiveDeliveries, ActiveDelivery
from .delivery.dispatcher import Dispatcher
from .send_limits import SendRateLimiter, SendRules
from .storage.store import RelayStore, derived_id, new_receipt

SYSTEM_PREFIX = "relay.system"
REPLY_PREFIX = "relay.ask"
"""Below it, every request that waits for an answer has an address."""
SHOW_ADDRESSES = "`tieline members` and `tieline channels` show who can be written to."
RESERVED = (SYSTEM_PREFIX, REPLY_PREFIX)
"""Addresses of the relay itself."""
MAX_KEY = 200
MAILBOX_FULL_RETRY_S = 60.0
MAX_UNCERTAIN = 1000
"""Most messages of which it is uncertain whether the bus has them. They are stored again, by the same id, until the bus
confirms. Their senders got an error that says so."""
LOOK_S = 2.0
"""How long a channel may take to say whether somebody has an address. After that the message is accepted."""
MAX_NEAREST = 3
"""Addresses that are named when nobody has the one that was given."""
RETRY_S = 1.0
"""Between two attempts to store them, while the bus is out of reach."""
_THREAD = re.compile(r"[A-Za-z0-9_-]{1,64}")


class SendRequest(Struct, frozen=True, kw_only=True):
    """A message that somebody wants to send."""

    sender: str
    subject: str
    payload: Payload
    reply_to: str = ""
    in_reply_to: str = ""
    thread: str = ""
    limits: Limits | None = None
    key: str = ""
    within: str = ""
    id: str = ""  # chosen before; the same id again is the same message
    resend: bool = False  # a person sends a dead letter again


def as_payload(payload: Payload | str) -> Payload:
    return Payload(payload) if isinstance(payload, str) else payload


class Submitter:
    def __init__(
        self,
        config: RelayConfig,
        store: RelayStore,
        dispatcher: Dispatcher,
        active_deliveries: ActiveDeliveries,
        check_active: Callable[[], None],
        wait_while_late: Callable[[], Awaitable[None]],
    ) -> None:
        self._config = config
        self._store = store
        self._dispatcher = dispatcher
        self._active_deliveries = active_deliveries
        self.check_active = check_active
        self._wait_while_late = wait_while_late
        self._rules = SendRules(config.allow, config.deny)
        self._rate_limiter = SendRateLimiter(config.rate_per_minute)
        self._uncertain: deque[tuple[Envelope, bytes, object]] = deque()
        self._has_uncertain = asyncio.Event()

    async def send(self, request: SendRequest) -> MessageReceipt:
        await self._wait_while_late()
        self.check_active()
        sender, subject = address(request.sender), _address(request.subject)
        reply_to = _address(request.reply_to) if request.reply_to else ""
        self._check_allowed(request, sender, subject)
        now = time.time()
        original = await self._envelope(request.in_reply_to) if request.in_reply_to else None
        delivery = None if request.resend else self._active_deliveries.for_address(sender)
        cause = delivery.envelope if delivery else await self._envelope(request.within) if request.within else None
        # A dead letter that is sent again gets a fresh budget, an answer, too.
        is_answer = original is not None and original.reply_to == subject and not request.resend
        budget = self._budget(request, sender, original if is_answer else None, delivery, cause, now)
        thread = _thread(request.thread) or (original or cause or _NO_ENVELOPE).thread
        fresh_id = "" if request.id else new_id()
        id = request.id or fresh_id
        if request.key and not request.id:
            id = await self._store.claim_key(sender, request.key, id)
        if id != fresh_id and (known := await self.receipt(id)):
            return known
        envelope = Envelope(
            id=id,
            subject=subject,
            sender=sender,
            payload=request.payload,
            budget=budget,
            created_at=now,
            thread=thread or id,
            reply_to=reply_to,
            in_reply_to=original.id if original else "",
            caused_by=cause.id if cause else "",
            key=request.key[:MAX_KEY],
        )
        if problem := budgets.violation(envelope.budget, subject, now, back=is_answer, person=self._is_person(subject)):
            if not request.resend:  # otherwise it is a dead letter already
                await self._store.save_dead_letter(
                    DeadLetter(envelope=envelope, reason=problem[0], detail=problem[1], at=now, state="refused")
                )
            raise Refused(problem[0], f"{subject}: {problem[1]}")
        if not is_answer:  # an answer is kept as a dead letter, since its text would be lost
            await self._check_address(subject)
        receipt = await self._accept(envelope, fresh=id == fresh_id)
        if delivery is not None:
            delivery.calls_left -= 1
        if original is not None:
            await self._record_answer(original, envelope)
        return receipt

    async def send_answer(self, envelope: Envelope, text: str) -> tuple[str, str]:
        """Send the answer that a delivery brought. Returns its id, or the reason why there is none."""
        message = self._dispatcher.in_flight.get(envelope.id)
        if message is not None and message.receipt.answer:  # the other side sent an answer itself
            return message.receipt.answer, ""
        id = derived_id(envelope.id, "answer")
        if await self.receipt(id) is not None:
            return id, ""
        request = SendRequest(
            id=id,
            sender=envelope.subject,
            subject=envelope.reply_to,
            payload=Payload(text),
            in_reply_to=envelope.id,
            thread=envelope.thread,
        )
        try:
            return (await self.send(request)).id, ""
        except Refused as refusal:
            return "", refusal.reason

    async def receipt(self, id: str) -> MessageReceipt | None:
        message = self._dispatcher.in_flight.get(id)
        return message.receipt if message else await self._store.receipt(id)

    async def retry_uncertain_writes(self) -> None:
        """Runs until cancelled: store again the messages that the bus may not have."""
        while True:
            await self._has_uncertain.wait()
            while self._uncertain:
                envelope, data, token = self._uncertain[0]
                try:
                    seq = await self._store.append_message(envelope, data)
                    known = await self.receipt(envelope.id)
                    if known is None and envelope.id not in self._dispatcher.in_flight:
                        # The log may say offered, but the message was not.
                        await self._store.save_receipt(new_receipt(envelope, seq), "not offered")
                except BusClosed:
                    return
                except BusError:
                    await asyncio.sleep(RETRY_S)
                    continue
                self._uncertain.popleft()
                self._dispatcher.end_write(token)
                if known is None:
                    self._dispatcher.notify(self._dispatcher.accept(envelope, seq, len(data)))
            self._has_uncertain.clear()  # only now: the next relay in this process continues with the rest

    def _keep_uncertain(self, envelope: Envelope, data: bytes, token: object) -> None:
        """Until the write is confirmed, the low-water mark stays before it."""
        self._uncertain.append((envelope, data, token))
        if len(self._uncertain) > MAX_UNCERTAIN:
            self._dispatcher.end_write(self._uncertain.popleft()[2])
        self._has_uncertain.set()

    # --- checks ---

    def _check_allowed(self, request: SendRequest, sender: str, subject: str) -> None:
        for prefix in RESERVED:
            if under(prefix, subject) and not (prefix == REPLY_PREFIX and request.in_reply_to):
                raise Refused("reserved_subject", f"{subject} is reserved for the relay")
        if not self._rules.allows(sender, subject):
            raise Refused(
                "denied", f"{sender} is not allowed to send to {subject}", hint="See allow and deny in [relay]."
            )
        if not request.resend and (wait := self._rate_limiter.take(sender)):
            raise Refused(
                "rate_limited",
                f"{sender} sent more than {self._config.rate_per_minute} messages within a minute",
                hint=f"Try again in {wait:.0f} s.",
                retry_after_s=wait,
            )

    def _budget(
        self,
        request: SendRequest,
        sender: str,
        answered: Envelope | None,
        delivery: ActiveDelivery | None,
        cause: Envelope | None,
        now: float,
    ) -> Budget:
        if answered is not None and not self._is_person(sender, or_chat=True):
            return budgets.returned(answered.budget, address(request.subject))
        if cause is None:
            return budgets.root(self._config, sender, request.limits, now)
        return budgets.inherited(
            cause.budget,
            calls_left=delivery.calls_left if delivery else cause.budget.calls_left,
            via=delivery.via if delivery else (cause.subject,),
            sender=sender,
            limits=request.limits,
            now=now,
        )

    def _is_person(self, subject: str, *, or_chat: bool = False) -> bool:
        queue = self._dispatcher.queues.match(subject)
        return queue is not None and (queue.kind == "inbox" or (or_chat and queue.people))

    async def _check_address(self, subject: str) -> None:
        """Refuse an address of a channel that knows that nobody has it."""
        queue = self._dispatcher.queues.match(subject)
        if queue is None or queue.unknown_address is None:
            return
        try:
            async with asyncio.timeout(LOOK_S):
                unknown = await queue.unknown_address(subject)
        except Exception as error:  # a channel that cannot tell must not hold up its mail
            queue.record_error(f"unknown_address failed: {type(error).__name__}: {error}"[:500])
            return
        if unknown is not None:
            nearest = " or ".join(unknown.nearest[:MAX_NEAREST])
            hint = f"Did you mean {nearest}? " if nearest else ""
            raise Refused("no_endpoint", f"{subject}: {unknown.problem}", hint=hint + SHOW_ADDRESSES)

    async def _accept(self, envelope: Envelope, *, fresh: bool) -> MessageReceipt:
        """Store the message, as offered if its queue has room. Only with a fresh id: another may be in the log already,
        with the header of its first write."""
        subject = envelope.subject
        queue = self._dispatcher.queues.match(subject)
        if queue is None:
            raise Refused(
                "no_endpoint",
                f"no endpoint answers for {subject}",
                hint=SHOW_ADDRESSES,
            )
        if len(self._dispatcher.mailboxes.get(subject, ())) >= self._config.mailbox:
            text = f"{self._config.mailbox} messages already wait for {subject}"
            raise Refused("mailbox_full", text, retry_after_s=MAILBOX_FULL_RETRY_S)
        data = encode(envelope)
        if len(data) > MAX_ENVELOPE:
            raise Refused(
                "too_large",
                f"the message has {len(data):,} bytes, the limit is {MAX_ENVELOPE:,}",
                hint="Send the content as an attachment by reference.",
            )
        token = self._dispatcher.begin_write()
        reserved = queue if fresh and queue.reserve() else None
        try:
            seq = await self._store.append_message(envelope, data, offered=reserved.id if reserved else "")
            self.check_active()  # a relay that took over meanwhile may have read the log before this write
        except BaseException as error:
            if reserved is not None:
                reserved.release()
            if isinstance(error, BusUnavailable | RelayStandby | asyncio.CancelledError):  # stored or not is unknown
                self._keep_uncertain(envelope, data, token)
            else:
                self._dispatcher.end_write(token)
            raise
        self._dispatcher.end_write(token)
        receipt = self._dispatcher.accept(envelope, seq, len(data), reserved)
        self._dispatcher.notify(receipt)
        return receipt

    async def _record_answer(self, original: Envelope, answer: Envelope) -> None:
        """Record the answer on the receipt of the original; only the addressee of the original can answer."""
        message = self._dispatcher.in_flight.get(original.id)
        receipt = message.receipt if message else await self._store.receipt(original.id)
        if receipt is None or has_state(receipt, "answered"):
            return
        if answer.sender not in (original.subject, f"relay.agent.{receipt.session}".casefold()):
            return
        if message is not None and message.task is not None and answer.id == derived_id(original.id, "answer"):
            return  # the running attempt records it
        receipt = self._dispatcher.add_step(receipt, ReceiptStep("answered", time.time()), answer=answer.id)
        if message is not None:
            message.receipt = receipt
        try:
            await self._store.save_receipt(receipt)
        except BusError:
            return  # the answer is stored, with its in_reply_to
        self._dispatcher.notify(receipt)

    async def _envelope(self, id: str) -> Envelope | None:
        message = self._dispatcher.in_flight.get(id)
        if message is not None and message.envelope is not None:
            return message.envelope
        receipt = message.receipt if message else await self._store.receipt(id)
        return await self._store.envelope(receipt) if receipt else None


def _address(text: str) -> str:
    try:
        return address(text)
    except BadSubject as error:
        raise Refused("bad_address", error.message) from None


def _thread(text: str) -> str:
    if text and not _THREAD.fullmatch(text):
        raise Refused("bad_thread", f"{text[:80]!r} is not a valid thread name", hint="Use letters, digits, - and _.")
    return text


_NO_ENVELOPE = Envelope(id="", subject="", sender="", payload=Payload(), budget=Budget(), created_at=0.0)
