"""Standard Webhooks signatures: over the message's id, its time and its body, by one of the secrets that count now.

The library computes a signature. Reading headers is ours: each refusal says what is wrong, a malformed header is never
an exception of another kind, and during a rotation two secrets (and two signatures) are good.
"""

import base64
import hmac
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ...errors import TielineError, UsageError

WINDOW_S = 300.0
"""How far a message's time may be from ours: an older one is a replay."""
MAX_SIGNATURES = 16
"""Signatures that are looked at: each costs a comparison, and a rotation has two."""

_ID = re.compile(r"[\x21-\x7e]{1,200}")
_TIMESTAMP = re.compile(r"[0-9]{1,11}")


class Unsigned(TielineError):
    """The request's sender is not shown to be who it says; `code` is for its program, the message for its author."""

    def __init__(self, code: str, message: str, *, field: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.field = field


def check_secret(secret: str) -> None:
    """Raises UsageError for one that cannot sign."""
    try:
        length = len(base64.b64decode(secret.removeprefix("whsec_"), validate=True))
    except ValueError:
        length = 0
    if not 24 <= length <= 64:
        raise UsageError(
            "a secret must be whsec_ and base64 of 24 to 64 bytes",
            field="secrets",
            hint="Make one: `tieline channels secret`.",
        )


def sign(secrets: Sequence[str], id: str, body: str, *, at: float | None = None) -> dict[str, str]:
    """The headers of a message. With several secrets, a signature by each: receivers may know only one of them."""
    when = datetime.fromtimestamp(int(time.time() if at is None else at), UTC)
    return {
        "webhook-id": id,
        "webhook-timestamp": str(int(when.timestamp())),
        "webhook-signature": " ".join(_webhook(secret).sign(id, when, body) for secret in secrets),
    }


def verify(
    secrets: Sequence[str], headers: Mapping[str, str], body: bytes, *, window_s: float = WINDOW_S, now: float = 0.0
) -> str:
    """The message's id, or Unsigned. The names of the headers are in lower case."""
    missing = [name for name in ("webhook-id", "webhook-timestamp", "webhook-signature") if not headers.get(name)]
    if missing:
        hint = "Sign it as the Standard Webhooks specification says."
        raise Unsigned("unsigned", f"no {', '.join(missing)} header", field=missing[0], hint=hint)
    id, stamp = headers["webhook-id"], headers["webhook-timestamp"]
    if not _ID.fullmatch(id):
        raise Unsigned("bad_id", "webhook-id must be 1 to 200 printable characters without spaces", field="webhook-id")
    if not _TIMESTAMP.fullmatch(stamp):
        raise Unsigned("bad_timestamp", "webhook-timestamp must be whole seconds since 1970", field="webhook-timestamp")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise Unsigned("bad_body", "the body is not UTF-8", field="body") from None
    offered = [
        word.partition(",")[2].encode(errors="replace")
        for word in headers["webhook-signature"].split(" ")[:MAX_SIGNATURES]
        if word.startswith("v1,")
    ]
    when = datetime.fromtimestamp(int(stamp), UTC)
    good = False
    for secret in secrets:  # all of them, whichever fits: the time it takes tells nothing
        expected = _webhook(secret).sign(id, when, text).partition(",")[2].encode()
        for signature in offered:
            good |= hmac.compare_digest(expected, signature)
    if not good:
        hint = "Check that both sides have the same secret and that the body is signed exactly as it is sent."
        raise Unsigned("bad_signature", "no signature matches", field="webhook-signature", hint=hint)
    # Only now: a stranger learns nothing about our clock.
    age = (now or time.time()) - int(stamp)
    if abs(age) > window_s:
        how = "too old" if age > 0 else "from the future"
        raise Unsigned("replay_window", f"the message is {how}", field="webhook-timestamp", hint="Send it again.")
    return id


def _webhook(secret: str) -> Any:
    from standardwebhooks import Webhook

    return Webhook(secret)
