"""How others send: as one address, which the relay stamps."""

from typing import TYPE_CHECKING

from ..channels.base import Progress
from ..envelopes import Envelope, Limits, MessageReceipt, Payload, address, under
from ..errors import UsageError

if TYPE_CHECKING:
    from .delivery.endpoint_queue import EndpointQueue
    from .relay import Relay


class AddressSender:
    """Sends as one address (`channels.base.Sender`). Made by `Relay.sender` for those who may."""

    def __init__(self, relay: "Relay", subject: str) -> None:
        self.subject = address(subject)
        self._relay = relay

    async def send(
        self,
        subject: str,
        payload: Payload | str,
        *,
        reply_to: str = "",
        in_reply_to: str = "",
        thread: str = "",
        limits: Limits | None = None,
        key: str = "",
        within: str = "",
    ) -> MessageReceipt:
        return await self._relay.send(
            subject,
            payload,
            sender=self.subject,
            reply_to=reply_to,
            in_reply_to=in_reply_to,
            thread=thread,
            limits=limits,
            key=key,
            within=within,
        )

    async def ask(
        self,
        subject: str,
        payload: Payload | str,
        *,
        timeout: float = 60.0,
        limits: Limits | None = None,
        key: str = "",
        within: str = "",
    ) -> Envelope:
        return await self._relay.ask(
            subject, payload, sender=self.subject, timeout=timeout, limits=limits, key=key, within=within
        )


class ChannelRelay:
    """The relay, as far as one channel may use it (`channels.base.Outlet`)."""

    def __init__(self, relay: "Relay", lane: "EndpointQueue") -> None:
        self._relay = relay
        self._lane = lane

    def sender(self, subject: str) -> AddressSender:
        if not under(self._lane.subject, address(subject)):
            raise UsageError(
                f"the channel {self._lane.id} cannot send as {subject}",
                field="subject",
                hint=f"Its addresses are {self._lane.subject} and what lies below.",
            )
        return self._relay.sender(subject)

    async def progress(self, id: str, state: Progress) -> None:
        receipt = await self._relay.status(id)
        if under(self._lane.subject, receipt.subject):  # a channel speaks of its own mail alone
            await self._relay.progress(id, state)

    async def status(self, id: str) -> MessageReceipt:
        return await self._relay.status(id)

    async def remember(self, key: str, value: bytes, *, ttl_s: int) -> None:
        await self._relay.ledger.remember(f"{self._lane.id}.{key}", value, ttl_s)

    async def recall(self, key: str) -> bytes | None:
        return await self._relay.ledger.recall(f"{self._lane.id}.{key}")

    def report(self, problem: str) -> None:
        self._lane.note(problem)
