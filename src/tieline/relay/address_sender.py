"""Sends as one address, which the relay stamps on the message."""

from typing import Unpack

from ..channels.base import AskOptions, SendOptions
from ..envelopes import Envelope, MessageReceipt, Payload, address
from .request_reply import RequestReply
from .submit import SendRequest, Submitter, as_payload


class AddressSender:
    """Sends as one address (`channels.base.Sender`). `Relay.sender` creates it for those who may."""

    def __init__(self, subject: str, submitter: Submitter, request_reply: RequestReply) -> None:
        self.subject = address(subject)
        self._submitter = submitter
        self._request_reply = request_reply

    async def send(self, subject: str, payload: Payload | str, **options: Unpack[SendOptions]) -> MessageReceipt:
        return await self._submitter.send(
            SendRequest(sender=self.subject, subject=subject, payload=as_payload(payload), **options)
        )

    async def ask(
        self, subject: str, payload: Payload | str, *, timeout: float = 60.0, **options: Unpack[AskOptions]
    ) -> Envelope:
        request = SendRequest(sender=self.subject, subject=subject, payload=as_payload(payload), **options)
        return await self._request_reply.ask(request, timeout)
