"""Requests to `/hooks/in/<channel>`, a route without credentials: the channel itself authenticates them.

A channel that takes requests has `receive`. It verifies the request's signature first, and refuses a bad request with
an error that its author understands.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from msgspec import Struct

from ..errors import TielineError

MAX_BODY = 1024 * 1024
"""Bytes that any channel is given; each may allow less by a `max_body` of its own."""


class HookRequest(Struct, frozen=True, kw_only=True):
    headers: Mapping[str, str]  # names in lower case
    body: bytes


class InboundReply(Struct, frozen=True, kw_only=True):
    """Accepted. `message` is the id of the message."""

    status: int = 202
    message: str = ""


class HookRefused(TielineError):
    """Refused; `status` is the HTTP status, `code` is for the sender's program."""

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

    async def receive(self, request: HookRequest) -> InboundReply:
        """Raises HookRefused. Errors of the relay that leave open whether the message is stored may pass: the route
        answers 503."""
        ...


HTTP_STATUS: Mapping[str, int] = {
    "rate_limited": 429,
    "mailbox_full": 429,
    "too_large": 413,
    "denied": 403,
}
"""HTTP status of a refusal by the relay. Others are 422: a retry would not help."""
