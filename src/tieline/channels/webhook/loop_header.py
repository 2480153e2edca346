"""What keeps a loop through webhooks finite: each message that goes out says how far it has come, and what comes in
because of it goes on from there.

The header is not signed. It does not have to be: it can only make a budget smaller.
"""

import re
import time
from collections.abc import Mapping

from msgspec import Struct

from ...envelopes import Envelope, Limits

HEADER = "tieline-loop"
_PAIR = re.compile(r"([a-z-]{1,16})=([A-Za-z0-9._:-]{1,128})")
_MAX = 512


class LoopState(Struct, frozen=True, kw_only=True):
    id: str = ""  # the message that caused this one
    hops: int = 0
    max_hops: int = 0
    calls: int | None = None
    expires_at: int | None = None

    def limits(self, now: float | None = None) -> Limits:
        """What is left, for a hub that does not know the message itself."""
        left = None if self.expires_at is None else max(0.0, self.expires_at - (time.time() if now is None else now))
        hops = max(0, self.max_hops - self.hops) if self.max_hops else None
        return Limits(max_hops=hops, ttl_s=left, calls=self.calls)


def header(envelope: Envelope) -> str:
    budget = envelope.budget
    return (
        f"id={envelope.id}; hops={budget.hops}; max-hops={budget.max_hops}; calls={budget.calls_left}; "
        f"expires={int(budget.expires_at)}"
    )


def trail(headers: Mapping[str, str]) -> LoopState | None:
    """The state that the header carries; None without the header. Malformed fields are left out."""
    value = headers.get(HEADER, "")
    if not value or len(value) > _MAX:
        return None
    fields = dict(_PAIR.findall(value))

    def number(name: str) -> int | None:
        text = fields.get(name, "")
        return int(text) if text.isdigit() and len(text) <= 12 else None

    return LoopState(
        id=fields.get("id", ""),
        hops=number("hops") or 0,
        max_hops=number("max-hops") or 0,
        calls=number("calls"),
        expires_at=number("expires"),
    )
