"""Inboxes: messages that a person or a program fetches. Reading a message marks it as seen."""

import time

from msgspec.structs import replace

from ...envelopes import Envelope, Message, MessageReceipt, ReceiptStep, UnknownMessage
from ..delivery.dispatcher import Dispatcher
from ..delivery.endpoint_queue import InFlight
from .store import RelayStore

MAX_MESSAGES = 1000


class MessageInbox:
    """Made by `Relay.inbox`."""

    def __init__(self, subject: str, dispatcher: Dispatcher, store: RelayStore) -> None:
        self.subject = subject
        self._dispatcher = dispatcher
        self._store = store

    def unread(self) -> list[MessageReceipt]:
        """Receipts of the unread messages, oldest first."""
        return sorted((message.receipt for message in self._in_flight()), key=lambda receipt: receipt.seq)

    async def messages(self, *, limit: int = 100) -> list[Message]:
        """The newest messages, read or not, newest first. Does not mark them as seen."""
        records = await self._store.messages_to(self.subject, min(limit, MAX_MESSAGES))
        kept = await self._store.receipts(envelope.id for envelope, _ in records)
        messages: list[Message] = []
        for envelope, _ in records:
            message = self._dispatcher.in_flight.get(envelope.id)
            receipt = message.receipt if message else kept.get(envelope.id)
            if receipt is not None:
                messages.append(Message(receipt=receipt, envelope=envelope))
        return messages

    async def read(self, id: str) -> Message:
        """The message, which is then marked as seen. Reading it again is harmless."""
        message = self._dispatcher.in_flight.get(id)
        if message is None or message.queue is None or message.queue.kind != "inbox":
            receipt = await self._store.receipt(id)
            if receipt is None or receipt.subject != self.subject:
                raise UnknownMessage(id)
            return await self._store.message(receipt)
        if message.receipt.subject != self.subject:
            raise UnknownMessage(id)
        envelope = await self._store.envelope(message.receipt)
        return Message(receipt=await self._hand_over(message), envelope=envelope)

    async def envelope(self, receipt: MessageReceipt) -> Envelope | None:
        """Does not mark the message as seen."""
        message = self._dispatcher.in_flight.get(receipt.id)
        return (message and message.envelope) or await self._store.envelope(receipt)

    async def hand_over(self, id: str, *, seen: bool = False) -> MessageReceipt | None:
        """The message reached its reader, who has `seen` it or has yet to show that. None: it was not unread."""
        message = self._dispatcher.mailboxes.get(self.subject, {}).get(id)
        return None if message is None or message.closed else await self._hand_over(message, seen=seen)

    async def take_back(self, id: str) -> MessageReceipt | None:
        """What was handed over did not reach its reader: it is unread again. None: it was seen, or is not ours."""
        receipt = await self._store.receipt(id)
        if receipt is None or receipt.subject != self.subject or receipt.state != "injected":
            return None
        steps = tuple(step for step in receipt.steps if step.state != "injected")
        step = ReceiptStep("stored", time.time(), detail="the session ended before it took the message")
        receipt = replace(receipt, steps=(*steps, step), over=False)
        await self._store.park(receipt)
        await self._store.save_receipt(receipt)
        self._dispatcher.reopen(receipt)
        return receipt

    async def _hand_over(self, message: InFlight, *, seen: bool = True) -> MessageReceipt:
        now = time.time()
        steps = (*message.receipt.steps, ReceiptStep("injected", now))
        if seen:
            steps = (*steps, ReceiptStep("seen", now))
        receipt = replace(message.receipt, steps=steps, over=True)
        await self._store.save_receipt(receipt)
        if message.parked:
            await self._store.unpark(receipt.id)
        message.receipt = receipt
        self._dispatcher.finish(message)
        return receipt

    def _in_flight(self) -> list[InFlight]:
        return list(self._dispatcher.mailboxes.get(self.subject, {}).values())
