"""What requests to the hub may contain. Unknown fields are refused: a typo must not be silently without effect."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ..drivers.base import AgentOptions, Attachment
from ..events import Remember
from ..policy import Policy
from .views import DeviceKind

MAX_TURNS = 2**53 - 1
"""What a browser's numbers hold."""


class Body(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    pass


class NewSession(Body, AgentOptions, frozen=True, kw_only=True):
    id: str = ""  # the client's own, so that sending twice is harmless
    node: str = ""  # empty: the only one, or the hub's own
    agent: str = ""
    cwd: str = ""
    title: str = ""
    resume: str = ""
    fork: bool = False  # with resume: go on in a copy
    prompt: str = ""  # the first one, if there is one already
    attachments: tuple[Attachment, ...] = ()  # of the first prompt
    worktree: bool = False  # it works in a git worktree of its own, made from the repository of `cwd`
    branch: str = ""  # the worktree's; a name alone means one, too. Empty: by the title


class SessionChange(Body, frozen=True, kw_only=True):
    title: str | None = None
    policy: Policy | str | None = None
    model: str | None = None
    effort: str | None = None
    archived: bool | None = None


class MarkChange(Body, frozen=True, kw_only=True):
    """What is None stays."""

    seen_turns: Annotated[int, Meta(ge=0, le=MAX_TURNS)] | None = None  # it never becomes less
    pinned: bool | None = None


class Forking(Body, frozen=True, kw_only=True):
    title: str = ""


class NewPrompt(Body, frozen=True, kw_only=True):
    id: str = ""
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    steer: bool = False  # into the running turn; refused where the agent cannot
    timeout_s: float | None = None


class PromptMove(Body, frozen=True, kw_only=True):
    before: str = ""


class PromptEdit(Body, frozen=True, kw_only=True):
    text: str


class Decision(Body, frozen=True, kw_only=True):
    decision: Literal["allow", "deny"]
    reason: str = ""
    answers: Mapping[str, tuple[str, ...]] = {}
    remember: Remember = "once"
    digest: str = ""  # of what the person saw; another one is refused


class Pairing(Body, frozen=True, kw_only=True):
    kind: DeviceKind = "page"
    name: str = ""


class Claim(Body, frozen=True, kw_only=True):
    """A single-use secret in exchange for a device's key."""

    secret: str
    name: str = ""
    node: str = ""  # the joining node's own id


class PushSubscription(Body, frozen=True, kw_only=True):
    endpoint: str
    keys: Mapping[str, str]  # p256dh, auth
    content: bool = False  # show what is asked on the lock screen
