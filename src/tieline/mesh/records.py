"""What the mesh keeps about a member, and who calls it. Frozen values."""

import hashlib
from typing import Literal

import msgspec
from msgspec import Struct

from ..protocol.mesh import Activity

MEMBERS = "members"
MEMBER_PREFIX = "relay.member"
PERSON_PREFIX = "relay.user"
SESSION_PREFIX = "relay.agent"
OWNER_NAME = "owner"


class Member(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent in a harness, as the table `members` has it."""

    id: str
    name: str
    kind: Literal["agent"] = "agent"
    description: str = ""
    project: str = ""
    role: str = ""
    specialisation: str = ""
    branch: str = ""
    harness: str = ""
    session: str = ""  # the harness's own id
    machine: str = ""
    cwd: str = ""
    process: str = ""  # `process_key` of its harness, on the member's machine; empty: not known
    token_hash: str = ""
    created_at: float = 0.0
    seen_at: float = 0.0
    activity: Activity = "unknown"
    ended: bool = False

    @property
    def address(self) -> str:
        return f"{MEMBER_PREFIX}.{self.id}"


class Caller(Struct, frozen=True, kw_only=True):
    """Who calls, as the transport knows it. Nothing here is taken from what a model says but `token`.

    One of: a driven session (`driven`), a harness session (`machine`, `harness`, `session`), the holder of a member's
    token, or a person (`person`).
    """

    machine: str = ""  # this one, or a name that no other device can have: it is part of who a session is
    harness: str = ""
    session: str = ""
    cwd: str = ""
    process: str = ""  # `process_key` of the harness
    lineage: tuple[int, ...] | None = None  # the process that calls and those above it; None: nobody has looked
    token: str = ""
    driven: str = ""  # the id of the session that Tieline drives
    person: str = ""  # the name of the human


def member_id(machine: str, harness: str, session: str) -> str:
    """The same session is the same member, whichever hub registers it."""
    digest = hashlib.sha256("\n".join((machine, harness, session)).encode(errors="replace")).hexdigest()
    return f"mb-{digest[:16]}"


decode_member = msgspec.json.Decoder(Member).decode
encode = msgspec.json.Encoder().encode
