"""What a channel may do with the relay: send as its own addresses, report progress, store small values."""

from collections.abc import Awaitable, Callable

from ..channels.base import Progress
from ..envelopes import MessageReceipt, address, under
from ..errors import UsageError
from .address_sender import AddressSender
from .delivery.endpoint_queue import EndpointQueue
from .storage.store import RelayStore


class ChannelRelay:
    """The part of the relay that a channel may use (`channels.base.RelayAccess`)."""

    def __init__(
        self,
        queue: EndpointQueue,
        store: RelayStore,
        *,
        sender: Callable[[str], AddressSender],
        status: Callable[[str], Awaitable[MessageReceipt]],
        progress: Callable[[str, Progress], Awaitable[None]],
    ) -> None:
        self._queue = queue
        self._store = store
        self._sender = sender
        self._status = status
        self._progress = progress

    def sender(self, subject: str) -> AddressSender:
        if not under(self._queue.subject, address(subject)):
            raise UsageError(
                f"the channel {self._queue.id} cannot send as {subject}",
                field="subject",
                hint=f"Its addresses are {self._queue.subject} and those below it.",
            )
        return self._sender(subject)

    async def progress(self, id: str, state: Progress) -> None:
        receipt = await self._status(id)
        if under(self._queue.subject, receipt.subject):  # a channel reports on its own messages only
            await self._progress(id, state)

    async def status(self, id: str) -> MessageReceipt:
        return await self._status(id)

    async def remember(self, key: str, value: bytes, *, ttl_s: int) -> None:
        await self._store.save_channel_value(f"{self._queue.id}.{key}", value, ttl_s)

    async def recall(self, key: str) -> bytes | None:
        return await self._store.channel_value(f"{self._queue.id}.{key}")

    def report(self, problem: str) -> None:
        self._queue.record_error(problem)
