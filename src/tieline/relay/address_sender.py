"""Sends as one address, which the relay stamps on the message."""

from ..envelopes import Envelope, Limits, MessageReceipt, Payload, address
from .request_reply import RequestReply
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
