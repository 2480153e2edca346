"""The way in: whatever is wrong with a message is said here, before it is accepted, with a reason code.

Checked in this order: address, reserved subjects, who may send to whom, rate, budget (hops, cycle, time, calls),
endpoint, mailbox, size. What a budget refuses becomes a dead letter as well: nobody may be there to read the refusal.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

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
from .delivery.attempts import reached
from .delivery.attribution import ActiveDeliveries, ActiveDelivery
from .delivery.dispatcher import Dispatcher
from .request_reply import PREFIX as ASK_PREFIX
from .rules import Rules, SendRateLimiter
from .storage.store import RelayStore, derived, receipt_of

SYSTEM = "relay.system"
RESERVED = (SYSTEM, ASK_PREFIX)
"""Nobody's endpoints: the relay's own."""
MAX_KEY = 200
FULL_S = 60.0  # when a mailbox that is full is worth another try
MAX_UNSURE = 1000
"""Messages of which the bus did not say whether it has them; they are stored again, by the same id, until it does.
Their senders were told that it is not known."""
_THREAD = re.compile(r"[A-Za-z0-9_-]{1,64}")


class SendRequest(Struct, frozen=True, kw_only=True):
    """What somebody wants to send."""

    sender: str
    subject: str
    payload: Payload
    reply_to: str = ""
    in_reply_to: str = ""
    thread: str = ""
    limits: Limits | None = None
    key: str = ""
    within: str = ""
    id: str = ""  # one that was made before; the same again is the same message
    again: bool = False  # a dead letter's: by a person's decision, not by the sender's


class Submitter:
    def __init__(
        self,
        config: RelayConfig,
        ledger: RelayStore,
        dispatch: Dispatcher,
        works: ActiveDeliveries,
        check_active: Callable[[], None],
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._dispatch = dispatch
        self._works = works
        self._check_active = check_active
        self._rules = Rules(config.allow, config.deny)
        self._rates = SendRateLimiter(config.rate_per_minute)
        self._unsure: deque[tuple[Envelope, bytes, object]] = deque()
        self._doubt = asyncio.Event()

    async def send(self, letter: SendRequest) -> MessageReceipt:
        self._check_active()
        sender, subject = address(letter.sender), _address(letter.subject)
        reply_to = _address(letter.reply_to) if letter.reply_to else ""
        self._check_way(letter, sender, subject)
        now = time.time()
        original = await self._envelope(letter.in_reply_to) if letter.in_reply_to else None
        work = None if letter.again else self._works.of(sender)
        cause = work.envelope if work else await self._envelope(letter.within) if letter.within else None
        # A person who sends a dead letter again begins anew: also an answer's budget is a fresh one then.
        back = original is not None and original.reply_to == subject and not letter.again
        fresh = "" if letter.id else new_id()
        envelope = Envelope(
            id=letter.id or fresh,
            subject=subject,
            sender=sender,
            payload=letter.payload,
            budget=self._budget(letter, sender, original if back else None, work, cause, now),
            created_at=now,
            thread=_thread(letter.thread) or (original or cause or _NONE).thread,
            reply_to=reply_to,
            in_reply_to=original.id if original else "",
            caused_by=cause.id if cause else "",
            key=letter.key[:MAX_KEY],
        )
        if letter.key and not letter.id:
            envelope = replace(envelope, id=await self._ledger.claim_key(sender, letter.key, envelope.id))
        if envelope.id != fresh and (known := await self.known(envelope.id)):
            return known
        if not envelope.thread:
            envelope = replace(envelope, thread=envelope.id)
        if problem := budgets.problem(envelope.budget, subject, now, back=back, person=self._person(subject)):
            if not letter.again:  # else it is a dead letter already
                await self._ledger.bury(
                    DeadLetter(envelope=envelope, reason=problem[0], detail=problem[1], at=now, state="refused")
                )
            raise Refused(problem[0], f"{subject}: {problem[1]}")
        receipt = await self._accept(envelope, fresh=envelope.id == fresh)
        if work is not None:
            work.calls_left -= 1
        if original is not None:
            await self._answered(original, envelope)
        return receipt

    async def answer(self, envelope: Envelope, text: str) -> tuple[str, str]:
        """The other side's answer, as its channel brought it. Its id, or why there is none."""
        live = self._dispatch.live.get(envelope.id)
        if live is not None and live.receipt.answer:  # it has answered by itself
            return live.receipt.answer, ""
        id = derived(envelope.id, "answer")
        if await self.known(id) is not None:
            return id, ""
        letter = SendRequest(
            id=id,
            sender=envelope.subject,
            subject=envelope.reply_to,
            payload=Payload(text),
            in_reply_to=envelope.id,
            thread=envelope.thread,
        )
        try:
            return (await self.send(letter)).id, ""
        except Refused as refusal:
            return "", refusal.reason

    async def known(self, id: str) -> MessageReceipt | None:
        live = self._dispatch.live.get(id)
        return live.receipt if live else await self._ledger.receipt(id)

    async def settle_unsure(self) -> None:
        """For ever: store again what the bus may not have."""
        while True:
            await self._doubt.wait()
            while self._unsure:
                envelope, data, token = self._unsure[0]
                try:
                    seq = await self._ledger.store(envelope, data)
                    known = await self.known(envelope.id)
                    if known is None and envelope.id not in self._dispatch.live:
                        # The log may have it as offered, which it was not.
                        await self._ledger.keep(receipt_of(envelope, seq), "not offered")
                except BusClosed:
                    return
                except BusError:
                    await asyncio.sleep(1.0)
                    continue
                self._unsure.popleft()
                self._dispatch.stored(token)
                if known is None:
                    self._dispatch.take(envelope, seq, len(data))
            self._doubt.clear()  # only now: the next relay in this process takes up what is left

    def _not_sure(self, envelope: Envelope, data: bytes, token: object) -> None:
        """Until it is known, the log counts as not over from before it."""
        self._unsure.append((envelope, data, token))
        if len(self._unsure) > MAX_UNSURE:
            self._dispatch.stored(self._unsure.popleft()[2])
        self._doubt.set()

    # --- checks ---

    def _check_way(self, letter: SendRequest, sender: str, subject: str) -> None:
        for prefix in RESERVED:
            if under(prefix, subject) and not (prefix == ASK_PREFIX and letter.in_reply_to):
                raise Refused("reserved_subject", f"{subject} is the relay's own: nobody can send there")
        if not self._rules.permit(sender, subject):
            raise Refused("denied", f"{sender} may not send to {subject}", hint="See allow and deny of [relay].")
        if not letter.again and (wait := self._rates.take(sender)):
            raise Refused(
                "rate_limited",
                f"{sender} has sent {self._config.rate_per_minute} messages within a minute",
                hint=f"Try again in {wait:.0f} s.",
                retry_after_s=wait,
            )

    def _budget(
        self,
        letter: SendRequest,
        sender: str,
        answered: Envelope | None,
        work: ActiveDelivery | None,
        cause: Envelope | None,
        now: float,
    ) -> Budget:
        if answered is not None and not self._person(sender, or_chat=True):
            return budgets.returned(answered.budget, address(letter.subject))
        if cause is None:
            return budgets.root(self._config, sender, letter.limits, now)
        return budgets.inherited(
            cause.budget,
            calls_left=work.calls_left if work else cause.budget.calls_left,
            via=work.via if work else (cause.subject,),
            sender=sender,
            limits=letter.limits,
            now=now,
        )

    def _person(self, subject: str, *, or_chat: bool = False) -> bool:
        lane = self._dispatch.lanes.match(subject)
        return lane is not None and (lane.kind == "inbox" or (or_chat and lane.people))

    async def _accept(self, envelope: Envelope, *, fresh: bool) -> MessageReceipt:
        """Store it: as offered where that can be, if its id is fresh. Any other may be in the log already, which then
        says of it what it said before."""
        subject = envelope.subject
        lane = self._dispatch.lanes.match(subject)
        if lane is None:
            raise Refused("no_endpoint", f"nobody answers for {subject}", hint="See the list of endpoints.")
        if self._dispatch.mailboxes.get(subject, 0) >= self._config.mailbox:
            told = f"{self._config.mailbox} messages wait for {subject} already"
            raise Refused("mailbox_full", told, retry_after_s=FULL_S)
        data = encode(envelope)
        if len(data) > MAX_ENVELOPE:
            raise Refused(
                "too_large",
                f"the message has {len(data):,} bytes, the most is {MAX_ENVELOPE:,}",
                hint="Send a reference to it as an attachment.",
            )
        token = self._dispatch.storing()
        reserved = lane if fresh and lane.reserve() else None
        try:
            seq = await self._ledger.store(envelope, data, offered=reserved.id if reserved else "")
            self._check_active()  # another that took over meanwhile may have read the log before this was in it
        except BaseException as error:
            if reserved is not None:
                reserved.release()
            if isinstance(error, BusUnavailable | RelayStandby | asyncio.CancelledError):  # stored or not, who knows
                self._not_sure(envelope, data, token)
            else:
                self._dispatch.stored(token)
            raise
        self._dispatch.stored(token)
        receipt = self._dispatch.take(envelope, seq, len(data), reserved)
        self._dispatch.tell(receipt)
        return receipt

    async def _answered(self, original: Envelope, answer: Envelope) -> None:
        """Note it on the message that it answers; only those who were asked can do that."""
        live = self._dispatch.live.get(original.id)
        receipt = live.receipt if live else await self._ledger.receipt(original.id)
        if receipt is None or reached(receipt, "answered"):
            return
        if answer.sender not in (original.subject, f"relay.agent.{receipt.session}".casefold()):
            return
        if live is not None and live.task is not None and answer.id == derived(original.id, "answer"):
            return  # whoever delivers it writes it down
        receipt = self._dispatch.add(receipt, ReceiptStep("answered", time.time()), answer=answer.id)
        if live is not None:
            live.receipt = receipt
        try:
            await self._ledger.keep(receipt)
        except BusError:
            return  # the answer itself is stored, and says what it answers
        self._dispatch.tell(receipt)

    async def _envelope(self, id: str) -> Envelope | None:
        live = self._dispatch.live.get(id)
        if live is not None and live.envelope is not None:
            return live.envelope
        receipt = live.receipt if live else await self._ledger.receipt(id)
        return await self._ledger.envelope(receipt) if receipt else None


def _address(text: str) -> str:
    try:
        return address(text)
    except BadSubject as error:
        raise Refused("bad_address", error.message) from None


def _thread(text: str) -> str:
    if text and not _THREAD.fullmatch(text):
        raise Refused("bad_thread", f"{text[:80]!r} is not a thread's name", hint="Use letters, digits, - and _.")
    return text


_NONE = Envelope(id="", subject="", sender="", payload=Payload(), budget=Budget(), created_at=0.0)
