"""The link between a node and a hub, over one WebSocket that the node dials: commands down, events up.

The node says `hello`, the hub answers `welcome` with how far it has the node's records, or `refused`. Then each side
sends what the other does not have, and says how far it kept what came. Either may vanish at any moment: what was not
acknowledged is sent again and recognised by its place (records, commands) or its id (results, states).

- up: `records` (of the node's event log, with the node's own sequence numbers), `state` (present values of its tables),
  `synced` (all present values were sent: what the hub has beyond them is gone), `results`, `delta` (ephemeral),
  `status`, `ruled` (these rules for asks are durable at the node), `beat`
- down: `orders`, `kept` (records are durable at the hub), `heard` (results are), `rules` (for asks, all of them, each
  time one changes), `beat`
- `taken` from the node: these commands are durable there.
"""

from typing import ClassVar, Literal

import msgspec
from msgspec import Raw, Struct

from ..sessions.ask_rules import AskRule
from .commands import CommandEnvelope, Result
from .views import AgentView

MAX_FRAME = 4 * 1024 * 1024
"""Bytes of a frame: a record of the bus in base64, with room to spare."""
BATCH = 256
BATCH_BYTES = 1024 * 1024
"""Records of a frame, at most so many and so large together (one that is larger goes alone)."""
HEARTBEAT_S = 5.0
SILENCE_S = 15.0
HANDSHAKE_S = 10.0

ORIGIN = "Origin"
"""The header of a replicated record at the hub: node, epoch, the node's own number, the number before it."""

NodeCapability = Literal[
    "sessions", "prompts", "asks", "diff", "browse", "steer", "deltas", "rules", "changes", "worktrees"
]
CAPABILITIES: tuple[NodeCapability, ...] = (
    "sessions", "prompts", "asks", "diff", "browse", "steer", "deltas", "rules", "changes", "worktrees",
)  # fmt: skip


class LinkFrame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=""):
    type: ClassVar[str]


class Hello(LinkFrame, tag="hello", frozen=True, kw_only=True):
    """The key is in the upgrade's Authorization header, never here."""

    protocol: int
    oldest: int
    node: str
    epoch: str  # of the node's log: another one, and all cursors begin anew
    name: str = ""
    version: str = ""
    platform: str = ""
    capabilities: tuple[str, ...] = ()
    orders: int = 0  # the last command that the node has, by the hub's own numbers
    hub: str = ""  # of the log that `orders` is a place in


class LinkWelcome(LinkFrame, tag="welcome", frozen=True, kw_only=True):
    protocol: int  # the one both speak
    epoch: str  # of the hub's log
    version: str = ""
    at: float = 0.0  # the hub's clock, by which commands expire
    after: int = 0  # the last record of the node's log that the hub has
    limits: tuple[str, ...] = ()  # what this pair goes without


class LinkRefused(LinkFrame, tag="refused", frozen=True, kw_only=True):
    code: str
    message: str
    hint: str = ""


class LogRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    seq: int
    subject: str
    data: bytes
    headers: dict[str, str] = {}
    at: float = 0.0


class LinkRecords(LinkFrame, tag="records", frozen=True, kw_only=True):
    records: tuple[LogRecord, ...]


class Kept(LinkFrame, tag="kept", frozen=True, kw_only=True):
    seq: int


class LinkState(LinkFrame, tag="state", frozen=True, kw_only=True):
    table: Literal["sessions", "prompts", "asks"]
    key: str
    value: Raw = Raw(b"null")  # null: it is gone


class Synced(LinkFrame, tag="synced", frozen=True, kw_only=True):
    table: Literal["sessions", "prompts", "asks"]


class LinkCommands(LinkFrame, tag="orders", frozen=True, kw_only=True):
    orders: tuple[tuple[int, CommandEnvelope], ...]  # with their place in the hub's log


class LinkTaken(LinkFrame, tag="taken", frozen=True, kw_only=True):
    seq: int


class Results(LinkFrame, tag="results", frozen=True, kw_only=True):
    results: tuple[Result, ...]


class Heard(LinkFrame, tag="heard", frozen=True, kw_only=True):
    """These results are durable at the hub: the node need not send them again."""

    ids: tuple[str, ...]


class Delta(LinkFrame, tag="delta", frozen=True, kw_only=True):
    session: str
    event: Raw


class NodeStatus(LinkFrame, tag="status", frozen=True, kw_only=True):
    agents: tuple[AgentView, ...] = ()
    default_agent: str = ""
    home: str = ""
    sessions: int = 0


class LinkRules(LinkFrame, tag="rules", frozen=True, kw_only=True):
    """All rules for asks that hold on the node. What it had before holds no longer."""

    revision: int
    rules: tuple[AskRule, ...] = ()


class RulesKept(LinkFrame, tag="ruled", frozen=True, kw_only=True):
    revision: int


class LinkBeat(LinkFrame, tag="beat", frozen=True, kw_only=True):
    at: float = 0.0


AnyUpFrame = Hello | LinkRecords | LinkState | Synced | LinkTaken | Results | Delta | NodeStatus | RulesKept | LinkBeat
AnyDownFrame = LinkWelcome | LinkRefused | Kept | Heard | LinkCommands | LinkRules | LinkBeat

for _frame in (*AnyUpFrame.__args__, *AnyDownFrame.__args__):
    _frame.type = str(_frame.__struct_config__.tag)

encode = msgspec.json.Encoder().encode
