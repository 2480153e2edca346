"""The channel contract: code that delivers envelopes to one kind of endpoint. `tieline.testing.channel_contract` is
the suite that every channel passes.

- A channel answers for every address at or below its `subject_prefix`, token by token.
- `deliver` hands one envelope over and says what became of it. It may be called again with the same envelope (a crash,
  a lease that was lost): the id tells. It never takes longer than `context.expires_at` and leaves nothing running
  when it is cancelled. What it raises counts as `failed`.
- `start` gives it the relay as far as a channel may use it: it sends as an address of its own, and as no other.
- `stop` ends everything that it started. It may be started again: after another process ran the relay for a while.
- `status` is a plain value, at any time.
- `unknown_address`, which a channel may leave out, says of an address whether nobody can be there: a message to it is
  then refused instead of stored. It only looks, and answers at once.

A channel's module offers three names: `NAME` (for people), `CONFIG` (a frozen msgspec Struct, the schema of its
`config`), and `create(id, config, context)`. Its config is checked against CONFIG before `create` is called.
"""

import time
from collections.abc import Callable, Mapping
from typing import Literal, Protocol, TypedDict, Unpack, runtime_checkable

from msgspec import Struct

from ..bus.base import Bus
from ..drivers.base import AgentOptions, Attachment
from ..envelopes import AttachmentRef, DeliveryResult, Envelope, Limits, MessageReceipt, Payload
from ..errors import TielineError
from ..events import Remember
from ..policy import Policy

MAX_CONCURRENT = 16
"""Deliveries of one channel at a time, unless it says otherwise by a `max_concurrent` of its own."""

Progress = Literal["injected", "seen"]


class ChannelStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a channel is. `problem` is for people and carries no secret."""

    state: Literal["starting", "running", "failing", "stopped"]
    problem: str = ""
    detail: Mapping[str, str | int | float | bool] = {}


class UnknownAddress(Struct, frozen=True, kw_only=True):
    """Nobody is at an address of the channel, and a message to it could not arrive. `nearest` are addresses that may
    have been meant, the most likely first."""

    problem: str
    nearest: tuple[str, ...] = ()


class DeliveryContext(Protocol):
    """What a channel may want to know about a delivery, and can tell while it goes on."""

    @property
    def attempt(self) -> int:
        """1 the first time."""
        ...

    @property
    def expires_at(self) -> float:
        """When the message is of no use any longer."""
        ...

    @property
    def repeated(self) -> bool:
        """Whether an earlier attempt may have handed it over: it was offered before, and how that ended is unknown."""
        ...

    async def progress(self, state: Progress, *, session: str = "") -> None:
        """It got this far. Durable when it returns."""
        ...

    def working(self, address: str) -> None:
        """From here until the delivery ends, what this address sends comes of this envelope: it inherits its budget."""
        ...


class AskOptions(TypedDict, total=False):
    """Options of `Sender.ask`."""

    limits: Limits | None
    key: str  # the same key again is the same message
    within: str  # the message that the sender is working on, where the relay cannot know it


class SendOptions(AskOptions, total=False):
    """Options of `Sender.send`."""

    reply_to: str
    in_reply_to: str
    thread: str


class Sender(Protocol):
    """Sends as one address, which the relay stamps on each message."""

    @property
    def subject(self) -> str: ...

    async def send(self, subject: str, payload: Payload | str, **options: Unpack[SendOptions]) -> MessageReceipt:
        """Stored when it returns. Raises Refused with a reason code. After a BusError or RelayStandby it is unknown
        whether it is stored."""
        ...

    async def ask(
        self, subject: str, payload: Payload | str, *, timeout: float = 60.0, **options: Unpack[AskOptions]
    ) -> Envelope:
        """The answer. Raises Refused, or Unanswered when there is none: in time, or because the other side went idle
        or failed."""
        ...


class RelayAccess(Protocol):
    """The relay, as far as a channel may use it."""

    def sender(self, subject: str) -> Sender:
        """For an address at or below the channel's own prefix; others raise UsageError."""
        ...

    async def progress(self, id: str, state: Progress) -> None:
        """Something delivered before got further: a person has read it."""
        ...

    async def status(self, id: str) -> MessageReceipt: ...

    async def remember(self, key: str, value: bytes, *, ttl_s: int) -> None:
        """Keep something small on the bus for so long: it is there after a restart, and for this channel alone. Keys
        are tokens of letters, digits, - _ / = joined by dots."""
        ...

    async def recall(self, key: str) -> bytes | None: ...

    def report(self, problem: str) -> None:
        """What went wrong once, outside of a delivery: it is shown as the last error. What lasts is in `status`."""
        ...


@runtime_checkable
class Channel(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def subject_prefix(self) -> str: ...

    @property
    def display_name(self) -> str: ...

    async def start(self, relay: RelayAccess) -> None: ...

    async def stop(self) -> None: ...

    async def deliver(self, subject: str, envelope: Envelope, context: DeliveryContext) -> DeliveryResult: ...

    def status(self) -> ChannelStatus: ...


class SessionRequest(AgentOptions, frozen=True, kw_only=True):
    """A session to be created for a name."""

    agent: str = ""
    cwd: str = ""
    policy: Policy = Policy()
    title: str = ""
    node: str = ""  # empty: this machine
    team: str = ""  # the team conversation that it is for
    fork_of: str = ""  # it begins with a copy of this conversation
    worktree: bool = False  # it works in a git worktree of its own
    branch: str = ""  # of the worktree; empty: by the title


class SessionService(Protocol):
    """Tells sessions what to do, wherever they run. What comes of it is read from the bus: the tables `sessions` and
    `prompts` and the logs `events.<session>` have the sessions of every node.

    Each may raise NodeOffline; what the session refuses for good is raised as UsageError, what may pass as any other
    TielineError. All are harmless to do twice."""

    @property
    def bus(self) -> Bus: ...

    async def create(self, session: str, wanted: SessionRequest) -> None:
        """A session with this id; one that is there stays as it is."""
        ...

    async def prompt(
        self,
        session: str,
        prompt: str,
        text: str,
        *,
        attachments: tuple[Attachment, ...] = (),
        system: str = "",
        timeout_s: float | None = None,
        by: str = "",
    ) -> None:
        """Keep a prompt with this id and run it when its turn comes. Durable when it returns."""
        ...

    async def change_policy(self, session: str, policy: Policy) -> None:
        """It holds from the next turn. Refused while one runs."""
        ...

    async def remove_unused_worktree(self, session: str) -> None:
        """The session's worktree, if nothing was made in it; else it stays."""
        ...

    async def withdraw(self, session: str, prompt: str) -> None:
        """Take the prompt back if it waits; end its turn if it runs; else nothing."""
        ...


class AskNote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An ask, as far as a channel shows it. `content` is all that decides, with its marks: not for everybody's eyes.
    Where it can be allowed, all of it is shown."""

    id: str
    session: str
    kind: str  # permission, question, plan
    title: str
    agent: str = ""
    place: str = ""  # the directory it works in
    content: str = ""
    missing: int = 0  # characters that `content` lacks
    withheld: str = ""  # what the agent does not tell: it can only be denied
    at_terminal: str = ""  # it cannot be decided here: the sentence that says where
    offers: Mapping[Remember, str] = {}  # how long it can be remembered → what that permits
    digest: str = ""  # binds a decision to what was shown
    status: str = "pending"
    outcome: str = ""  # when it is over: how, and by whom


class AskService(Protocol):
    """The asks of every session, and the one way to decide them."""

    def subscribe(self, callback: Callable[[AskNote], None]) -> Callable[[], None]:
        """Calls back with each pending ask, then with each ask as it comes and as it ends. The result unsubscribes."""
        ...

    async def decide(self, ask: str, *, allow: bool, digest: str, by: str, remember: Remember = "once") -> str:
        """What became of it, in a few words. Raises TielineError: another was first, it expired, its node is away."""
        ...


class ChannelContext(Struct, frozen=True, kw_only=True):
    """What a channel may need of the program around it."""

    env: Mapping[str, str] = {}
    state_dir: str = ""  # where it may keep files, below a folder with its id
    public_url: str = ""  # where the hub is reached from outside
    sessions: SessionService | None = None  # for channels that deliver to agents
    asks: AskService | None = None  # for channels through which people decide


Factory = Callable[[str, Struct, ChannelContext], Channel]


class ChannelModule(Protocol):
    NAME: str
    CONFIG: type[Struct]

    @property
    def create(self) -> Factory: ...


class SessionNodeOffline(TielineError):
    """The machine that runs a session is not connected."""

    def __init__(self, node: str) -> None:
        super().__init__(f"the node {node!r} is offline", hint="It goes on when the node is back.")
        self.node = node


def delivered(*, text: str = "", session: str = "", reason: str = "", detail: str = "") -> DeliveryResult:
    return DeliveryResult(status="delivered", response_text=text, session_id=session, reason=reason, detail=detail)


def failed(reason: str, detail: str = "", *, retry_after_s: float | None = None, counts: bool = True) -> DeliveryResult:
    return DeliveryResult(status="failed", reason=reason, detail=detail, retry_after_s=retry_after_s, counts=counts)


def dead(reason: str, detail: str = "") -> DeliveryResult:
    return DeliveryResult(status="dead_lettered", reason=reason, detail=detail)


def time_left(context: DeliveryContext) -> float:
    return max(0.0, context.expires_at - time.time())


__all__ = [
    "MAX_CONCURRENT",
    "AskNote",
    "AskOptions",
    "AskService",
    "AttachmentRef",
    "Channel",
    "ChannelContext",
    "ChannelModule",
    "ChannelStatus",
    "DeliveryContext",
    "DeliveryResult",
    "Envelope",
    "Factory",
    "MessageReceipt",
    "Payload",
    "Progress",
    "RelayAccess",
    "SendOptions",
    "Sender",
    "SessionNodeOffline",
    "SessionRequest",
    "SessionService",
    "UnknownAddress",
    "dead",
    "delivered",
    "failed",
    "time_left",
]
