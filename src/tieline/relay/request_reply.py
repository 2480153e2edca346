"""Questions that somebody waits for the answer of. An answer goes to an address of its own, `relay.ask.<id>`."""

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..channels.base import DeliveryContext, dead, delivered
from ..envelopes import DeliveryResult, Envelope, Limits, MessageReceipt, Unanswered, address
from ..ids import new_id

if TYPE_CHECKING:
    from .delivery.dispatcher import Dispatcher
    from .storage.store import RelayStore
    from .submit import SendRequest, Submitter

PREFIX = "relay.ask"

SILENT = ("idle_without_answer", "died_without_answer", "interrupted", "timeout", "indeterminate", "calls_exceeded")
"""Delivered, and it is known that no answer will come."""

WORDS = {
    "idle_without_answer": "the other side went idle without answering",
    "died_without_answer": "the other side failed without answering",
    "interrupted": "the other side was interrupted before it answered",
    "calls_exceeded": "the other side used up its calls before it answered",
    "indeterminate": "the other side stopped; it may have worked on it in part",
}


class RequestReply:
    def __init__(self, ledger: "RelayStore", dispatch: "Dispatcher", sending: "Submitter") -> None:
        self._ledger = ledger
        self._dispatch = dispatch
        self._sending = sending
        self._waiting: dict[str, set[asyncio.Future[Envelope]]] = {}  # several who ask with one key are at one address

    async def ask(self, letter: "SendRequest", timeout: float) -> Envelope:
        """Send it, and wait for its answer. Raises Refused, or Unanswered with the reason."""
        loop = asyncio.get_running_loop()
        own = new_id()
        id = await self._ledger.claim_key(address(letter.sender), letter.key, own) if letter.key else own
        least = min(timeout, (letter.limits and letter.limits.ttl_s) or timeout)
        limits = replace(letter.limits or Limits(), ttl_s=least)
        at = f"{PREFIX}.{id}"
        answered: asyncio.Future[Envelope] = loop.create_future()
        told: asyncio.Future[str] = loop.create_future()  # an answer that came before we waited; empty: none will come

        def heard(receipt: MessageReceipt) -> None:
            if told.done():
                return
            if receipt.subject == at and receipt.over:
                told.set_result(receipt.id)
            elif receipt.id == id and receipt.answer and receipt.answer not in self._dispatch.live:
                told.set_result(receipt.answer)
            elif receipt.id == id and silence(receipt):
                told.set_result("")

        self._waiting.setdefault(at, set()).add(answered)
        self._dispatch.heard.append(heard)
        try:
            receipt = await self._sending.known(id) if id != own else None
            if receipt is None:
                await self._sending.send(replace(letter, reply_to=at, limits=limits, id=id))
            else:
                heard(receipt)
            await asyncio.wait({answered, told}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if answered.done():
                return answered.result()
            if told.done() and (answer := await self._answer(told.result())):
                return answer
            receipt = await self._sending.known(id)
            assert receipt is not None
            reason = silence(receipt) or "timeout"
            raise Unanswered(reason, WORDS.get(reason, f"no answer from {letter.subject}: {reason}"), receipt)
        finally:
            self._dispatch.heard.remove(heard)
            self._waiting[at].discard(answered)
            if not self._waiting[at]:
                del self._waiting[at]
            told.cancel()

    async def _answer(self, id: str) -> Envelope | None:
        receipt = await self._sending.known(id) if id else None
        return await self._ledger.envelope(receipt) if receipt else None

    async def deliver(self, subject: str, envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        waiting = self._waiting.get(subject)
        if waiting is None:
            return dead("asker_gone", "whoever asked does not wait any longer")
        for future in waiting:
            if not future.done():
                future.set_result(envelope)
        return delivered()


def silence(receipt: MessageReceipt) -> str:
    """Why no answer will come; empty while one may."""
    if receipt.answer or not receipt.over:
        return ""
    if receipt.state in ("expired", "dead"):
        return receipt.reason or receipt.state
    return next((step.reason for step in reversed(receipt.steps) if step.reason in SILENT), "")
