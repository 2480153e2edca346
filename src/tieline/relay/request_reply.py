"""Request and reply: send a message and wait for its answer, which goes to the address `relay.ask.<id>`."""

import asyncio

from msgspec.structs import replace

from ..channels.base import DeliveryContext, dead, delivered
from ..envelopes import DeliveryResult, Envelope, Limits, MessageReceipt, Unanswered, address
from ..ids import new_id
from .delivery.dispatcher import Dispatcher
from .storage.store import RelayStore
from .submit import REPLY_PREFIX, SendRequest, Submitter

NO_ANSWER_REASONS = (
    "idle_without_answer",
    "died_without_answer",
    "interrupted",
    "timeout",
    "indeterminate",
    "calls_exceeded",
)
"""Reasons of delivered messages to which no answer will come."""

NO_ANSWER_TEXTS = {
    "idle_without_answer": "the other side went idle without answering",
    "died_without_answer": "the other side failed without answering",
    "interrupted": "the other side was interrupted before it answered",
    "calls_exceeded": "the other side used up its calls before it answered",
    "indeterminate": "the other side stopped; it may have done part of the work",
}


class RequestReply:
    def __init__(self, store: RelayStore, dispatcher: Dispatcher, submitter: Submitter) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._submitter = submitter
        self._waiting: dict[
            str, set[asyncio.Future[Envelope]]
        ] = {}  # callers with the same key wait at the same address

    async def ask(self, request: SendRequest, timeout: float) -> Envelope:
        """Send the request and wait for its answer. Raises Refused, or Unanswered with the reason."""
        self._submitter.check_active()
        loop = asyncio.get_running_loop()
        fresh_id = new_id()
        id = await self._store.claim_key(address(request.sender), request.key, fresh_id) if request.key else fresh_id
        ttl_s = min(timeout, (request.limits and request.limits.ttl_s) or timeout)
        limits = replace(request.limits or Limits(), ttl_s=ttl_s)
        reply_address = f"{REPLY_PREFIX}.{id}"
        answered: asyncio.Future[Envelope] = loop.create_future()
        answer_id: asyncio.Future[str] = loop.create_future()  # of an answer that came earlier; empty: none will come

        def on_receipt(receipt: MessageReceipt) -> None:
            if answer_id.done():
                return
            if receipt.subject == reply_address and receipt.over:
                answer_id.set_result(receipt.id)
            elif receipt.id == id and receipt.answer and receipt.answer not in self._dispatcher.in_flight:
                answer_id.set_result(receipt.answer)
            elif receipt.id == id and no_answer_reason(receipt):
                answer_id.set_result("")

        self._waiting.setdefault(reply_address, set()).add(answered)
        self._dispatcher.listeners.append(on_receipt)
        try:
            receipt = await self._submitter.receipt(id) if id != fresh_id else None
            if receipt is None:
                await self._submitter.send(replace(request, reply_to=reply_address, limits=limits, id=id))
            else:
                on_receipt(receipt)
            await asyncio.wait({answered, answer_id}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if answered.done():
                return answered.result()
            if answer_id.done() and (answer := await self._answer(answer_id.result())):
                return answer
            receipt = await self._submitter.receipt(id)
            assert receipt is not None
            reason = no_answer_reason(receipt) or "timeout"
            raise Unanswered(
                reason, NO_ANSWER_TEXTS.get(reason, f"no answer from {request.subject}: {reason}"), receipt
            )
        finally:
            self._dispatcher.listeners.remove(on_receipt)
            self._waiting[reply_address].discard(answered)
            if not self._waiting[reply_address]:
                del self._waiting[reply_address]
            answer_id.cancel()

    async def _answer(self, id: str) -> Envelope | None:
        receipt = await self._submitter.receipt(id) if id else None
        return await self._store.envelope(receipt) if receipt else None

    async def deliver(self, subject: str, envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        waiting = self._waiting.get(subject)
        if waiting is None:
            return dead("asker_gone", "the caller no longer waits for the answer")
        for future in waiting:
            if not future.done():
                future.set_result(envelope)
        return delivered()


def no_answer_reason(receipt: MessageReceipt) -> str:
    """Why no answer will come; empty while one may."""
    if receipt.answer or not receipt.over:
        return ""
    if receipt.state in ("expired", "dead"):
        return receipt.reason or receipt.state
    return next((step.reason for step in reversed(receipt.steps) if step.reason in NO_ANSWER_REASONS), "")
