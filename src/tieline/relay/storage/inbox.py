"""Mail that a person or a program fetches. To read a message marks it as seen."""

import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...envelopes import Message, MessageReceipt, ReceiptStep, UnknownMessage

if TYPE_CHECKING:
    from ..delivery.dispatcher import Dispatcher
    from ..delivery.endpoint_queue import InFlight
    from .store import RelayStore

MOST = 1000


class MessageInbox:
    """Made by `Relay.inbox`."""

    def __init__(self, subject: str, dispatch: "Dispatcher", ledger: "RelayStore") -> None:
        self.subject = subject
        self._dispatch = dispatch
        self._ledger = ledger

    def unread(self) -> list[MessageReceipt]:
        """What waits here, oldest first."""
        return sorted((live.receipt for live in self._lives()), key=lambda receipt: receipt.seq)

    async def messages(self, *, limit: int = 100) -> list[Message]:
        """The newest messages, read or not, newest first. Looking at the list reads nothing."""
        mail = await self._ledger.mail_of(self.subject, min(limit, MOST))
        kept = await self._ledger.receipts(envelope.id for envelope, _ in mail)
        found: list[Message] = []
        for envelope, _ in mail:
            live = self._dispatch.live.get(envelope.id)
            receipt = live.receipt if live else kept.get(envelope.id)
            if receipt is not None:
                found.append(Message(receipt=receipt, envelope=envelope))
        return found

    async def read(self, id: str) -> Message:
        """The message; from here on it is seen. Reading it again is harmless."""
        live = self._dispatch.live.get(id)
        if live is None or live.lane is None or live.lane.kind != "inbox":
            receipt = await self._ledger.receipt(id)
            if receipt is None or receipt.subject != self.subject:
                raise UnknownMessage(id)
            return await self._ledger.message(receipt)
        if live.receipt.subject != self.subject:
            raise UnknownMessage(id)
        message = await self._ledger.message(live.receipt)
        return Message(receipt=await self._seen(live), envelope=message.envelope)

    async def _seen(self, live: "InFlight") -> MessageReceipt:
        now = time.time()
        receipt = replace(
            live.receipt, steps=(*live.receipt.steps, ReceiptStep("injected", now), ReceiptStep("seen", now)), over=True
        )
        await self._ledger.keep(receipt)
        await self._ledger.unpark(receipt.id)
        live.receipt = receipt
        self._dispatch.forget(live)
        return receipt

    def _lives(self) -> list["InFlight"]:
        if not self._dispatch.mailboxes.get(self.subject):
            return []
        return [live for live in self._dispatch.live.values() if live.receipt.subject == self.subject]
