"""The configuration of a webhook channel."""

import re
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Struct

from ...config import setting
from ...envelopes import address
from ...errors import UsageError
from .signatures import WINDOW_S, check_secret

MAX_BYTES = 256 * 1024
"""What the hub's route takes at most."""
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")


class WebhookConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Signed HTTP requests in (`secrets`, `to`) and out (`url`). It has `to`, `url` or both."""

    secrets: Annotated[
        tuple[str, ...],
        setting(
            "Secrets (`whsec_…`). A request that comes in is signed with one of them.", ("env:CI_SECRET",), secret=True
        ),
    ] = ()
    sign_with: Annotated[
        tuple[str, ...],
        setting("Secrets that sign what goes out. Empty: `secrets`.", ("env:CI_SECRET",), secret=True),
    ] = ()
    to: Annotated[str, setting("Address that what comes in is sent to.", "relay.agent.shop.fixer")] = ""
    reply_to: Annotated[
        str,
        setting("Address for the answers. Empty: this channel, if it has a `url`.", "relay.telegram.phone.4711"),
    ] = ""
    text: Annotated[
        str, setting("Path of the text in the JSON. Empty: the whole JSON is handed on.", "data.message")
    ] = ""
    url: Annotated[str, setting("Address that messages are posted to.", "https://ci.example/hooks", secret=True)] = ""
    headers: Annotated[
        Mapping[str, str], setting("Headers of what goes out.", {"Authorization": "env:CI_KEY"}, secret=True)
    ] = {}
    answers: Annotated[bool, setting("The body of the response is the answer.", True)] = False
    window_s: Annotated[float, setting("Seconds that a request's time may differ, 1 to 300.", 60.0)] = WINDOW_S
    max_bytes: Annotated[int, setting("Largest body that comes in, in bytes.", 65536)] = MAX_BYTES
    timeout_s: Annotated[float, setting("Seconds that a request that goes out may take.", 30.0)] = 15.0

    def __post_init__(self) -> None:
        for secret in (*self.secrets, *self.sign_with):
            check_secret(secret)
        if self.to and not self.secrets:
            raise UsageError("incoming messages must be signed: give at least one secret", field="secrets")
        if self.url:
            _check_url(self.url)
            if not (self.secrets or self.sign_with):
                raise UsageError("outgoing messages are signed: give sign_with or secrets", field="sign_with")
        if not self.to and not self.url:
            raise UsageError("give `to` (to receive), `url` (to send) or both", field="to")
        for name in ("to", "reply_to"):
            if value := getattr(self, name):
                try:
                    address(value)
                except UsageError as error:
                    raise UsageError(error.message, field=name, hint=error.hint) from None
        for name, value in self.headers.items():
            if (
                not _HEADER.fullmatch(name)
                or not value.isprintable()
                or name.lower().startswith(("webhook-", "tieline-"))
            ):
                raise UsageError(f"the header {name!r} cannot be sent", field="headers")
        if not 1 <= self.window_s <= 300:
            # Ids are remembered for ten minutes: a wider window would let a message in twice.
            raise UsageError("must be 1 to 300 seconds", field="window_s")
        if not 1 <= self.max_bytes <= MAX_BYTES:
            raise UsageError("must be 1 byte to 256 KiB", field="max_bytes")
        if not 0.1 <= self.timeout_s <= 120:
            raise UsageError("must be 0.1 to 120 seconds", field="timeout_s")


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("a URL must begin with https:// or http:// and name a host", field="url")
    if parts.username or parts.password:
        raise UsageError("a URL must not contain a password; use headers", field="url")
