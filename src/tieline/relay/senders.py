"""Senders: send as one address, which the relay stamps on the message."""

from collections.abc import Awaitable, Callable

from ..channels.base import Progress
from ..envelopes import Envelope, Limits, MessageReceipt, Payload, address, under
from ..errors import UsageError
from .delivery.endpoint_queue import EndpointQueue
from .request_reply import RequestReply
from .storage.store import RelayStore
from .submit import SendRequest, Submitter


class AddressSender:
    """Sends as one address (`channels.base.Sender`). `Relay.sender` creates it for those who may."""

    def __init__(self, subject: str, submitter: Submitter, request_reply: RequestReply) -> None:
        self.subject = address(subject)
        self._submitter = submitter
        self._request_reply = request_reply

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
        return await self._submitter.send(
            SendRequest(
                sender=self.subject,
                subject=subject,
                payload=Payload(payload) if isinstance(payload, str) else payload,
                reply_to=reply_to,
                in_reply_to=in_reply_to,
                thread=thread,
                limits=limits,
                key=key,
                within=within,
            )
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
        payload = Payload(payload) if isinstance(payload, str) else payload
        request = SendRequest(
            sender=self.subject, subject=subject, payload=payload, limits=limits, key=key, within=within
        )
        return await self._request_reply.ask(request, timeout)


class ChannelRelay:
    """The part of the relay that a channel may use (`channels.base.Outlet`)."""

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
