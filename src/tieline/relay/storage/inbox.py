"""Inboxes: messages that a person or a program fetches. Reading a message marks it as seen."""

import time

from msgspec.structs import replace

from ...envelopes import Message, MessageReceipt, ReceiptStep, UnknownMessage
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
        return Message(receipt=await self._mark_seen(message), envelope=envelope)

    async def _mark_seen(self, message: InFlight) -> MessageReceipt:
        now = time.time()
        steps = (*message.receipt.steps, ReceiptStep("injected", now), ReceiptStep("seen", now))
        receipt = replace(message.receipt, steps=steps, over=True)
        await self._store.save_receipt(receipt)
        await self._store.unpark(receipt.id)
        message.receipt = receipt
        self._dispatcher.finish(message)
        return receipt

    def _in_flight(self) -> list[InFlight]:
        if not self._dispatcher.mailbox_sizes.get(self.subject):
            return []
        return [message for message in self._dispatcher.in_flight.values() if message.receipt.subject == self.subject]
