"""What comes in over the hub's open door `/hooks/in/<channel>`: the channel itself says who may come in.

A channel that takes requests has `receive`. It trusts nothing before the request's signature is good, and answers each
bad one with a refusal that its author understands.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from msgspec import Struct

from ...errors import TielineError

MAX_BODY = 1024 * 1024
"""Bytes that any channel is given; each may allow less by a `max_body` of its own."""


class HookRequest(Struct, frozen=True, kw_only=True):
    headers: Mapping[str, str]  # names in lower case
    body: bytes


class HookReply(Struct, frozen=True, kw_only=True):
    """Taken. `message` is the id by which it can be asked for."""

    status: int = 202
    message: str = ""


class HookRefused(TielineError):
    """Not taken; `status` is HTTP's, `code` is for the sender's program."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        field: str = "",
        hint: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.field = field
        self.retry_after_s = retry_after_s


@runtime_checkable
class WebhookReceiver(Protocol):
    @property
    def max_body(self) -> int: ...

    async def receive(self, request: HookRequest) -> HookReply:
        """Raises HookRefused. What the relay raises when nobody knows whether the message is stored may go through: the
        door makes a 503 of it."""
        ...


HTTP_STATUS: Mapping[str, int] = {
    "rate_limited": 429,
    "mailbox_full": 429,
    "too_large": 413,
    "denied": 403,
}
"""A refusal of the relay, in HTTP. The others are 422: sending it again does not help, and a loop ends there."""
