"""What the audit log tells."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

AuditKind = Literal[
    "sign-in",
    "pairing",
    "revoke",
    "decision",
    "policy",
    "refusal",
    "code",
    "phone",
    "schedule",
    "rule",
    "changes",
    "worktree",
]


class AuditLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that concerns who may do what: who did it, from where."""

    seq: int
    at: float
    what: AuditKind
    who: str = ""  # a device, the owner, an agent's session; empty: a stranger
    via: str = ""  # an address, or the process on the hub's own machine
    count: int = 1  # the same again and again is one line
    details: Mapping[str, str] = {}
