"""The client's WebSocket, frame by frame. SSE sends the hub's frames too, with `id: <seq>`.

The client speaks first: `authenticate`, then `subscribe` with the cursor and epoch it has. The hub answers `welcome`,
then `ready`: `ok` (all events after the cursor follow), `gap` (what lay between was trimmed; what is left follows) or
`reset` (another log than the cursor's: begin anew), with a snapshot each time. Then events with their place in the log,
deltas without one, and the state of sessions, asks, prompts, nodes, teams, commands and marks as it changes: the
latest one counts.

A client may ask for the snapshot in parts: `ready` then has the sessions that matter first, and the others follow in
`sessions` frames between what happens.
"""

from typing import ClassVar, Literal

import msgspec
from msgspec import Struct

from ..events import AnyEvent
from ..sessions.records import AskRecord, SessionRecord
from .teams import TeamRecord
from .views import CommandView, NodeView, PromptView, SessionMark, Snapshot

HEARTBEAT_S = 15.0
"""Without a frame for so long, each side says `beat`."""
SILENCE_S = 40.0
"""Without a frame from the other side for so long, it is gone."""
AUTHENTICATE_S = 10.0
MAX_FRAME = 256 * 1024
"""Bytes of a frame from a client."""

SnapshotMode = Literal["whole", "parts", "known"]
"""`known`: this connection has had it, and what changed since was told or will be."""


class Frame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=""):
    type: ClassVar[str]


# --- from the client -----------------------------------------------------------------------------------------


class Authenticate(Frame, tag="authenticate", frozen=True, kw_only=True):
    token: str = ""  # empty: the bearer of the upgrade counts
    protocol: int = 1
    client: str = ""  # its name and version, for the list of devices


class Subscribe(Frame, tag="subscribe", frozen=True, kw_only=True):
    after: int = 0
    epoch: str = ""  # which log the cursor is of; empty: from nowhere
    sessions: tuple[str, ...] | None = None  # None: all of them
    events: bool = True
    deltas: bool = True
    visible: bool = True  # a person looks at it: no push is needed
    snapshot: SnapshotMode = "whole"


class Visible(Frame, tag="visible", frozen=True, kw_only=True):
    visible: bool


class Beat(Frame, tag="beat", frozen=True, kw_only=True):
    """Also from the hub."""

    at: float = 0.0


AnyClientFrame = Authenticate | Subscribe | Visible | Beat

# --- from the hub --------------------------------------------------------------------------------------------


class Welcome(Frame, tag="welcome", frozen=True, kw_only=True):
    protocol: int
    version: str
    device: str
    heartbeat_s: float = HEARTBEAT_S


class Ready(Frame, tag="ready", frozen=True, kw_only=True, omit_defaults=False):
    state: Literal["ok", "gap", "reset"]
    epoch: str
    cursor: int  # where the log stood when the snapshot was taken
    snapshot: Snapshot
    snapshot_sent: SnapshotMode = "whole"  # `known`: the snapshot is empty, the client's own goes on
    sessions_left: int = 0  # that follow in `sessions` frames


class EventFrame(Frame, tag="event", frozen=True, kw_only=True):
    seq: int
    session: str
    at: float
    event: AnyEvent


class DeltaFrame(Frame, tag="delta", frozen=True, kw_only=True):
    session: str
    event: AnyEvent


class SessionFrame(Frame, tag="session", frozen=True, kw_only=True):
    session: SessionRecord


class SessionsFrame(Frame, tag="sessions", frozen=True, kw_only=True):
    """The next of the sessions that were not in `ready`, as they are now. When none are left, a client that kept those
    of an earlier connection drops what has not come."""

    sessions: tuple[SessionRecord, ...]
    marks: tuple[SessionMark, ...] = ()  # of these sessions
    left: int


class PromptFrame(Frame, tag="prompt", frozen=True, kw_only=True):
    prompt: PromptView


class AskFrame(Frame, tag="ask", frozen=True, kw_only=True):
    ask: AskRecord


class NodeFrame(Frame, tag="node", frozen=True, kw_only=True):
    node: NodeView


class TeamFrame(Frame, tag="team", frozen=True, kw_only=True):
    team: TeamRecord  # its task is cut to one line


class MarkFrame(Frame, tag="mark", frozen=True, kw_only=True):
    mark: SessionMark


class CommandFrame(Frame, tag="command", frozen=True, kw_only=True):
    command: CommandView


class GoneFrame(Frame, tag="gone", frozen=True, kw_only=True):
    """Something is no longer there: a node that was removed, a session that was cleared away."""

    kind: Literal["session", "prompt", "ask", "node", "team"]
    id: str


class ProblemFrame(Frame, tag="problem", frozen=True, kw_only=True):
    """Why the hub is about to close, or what it did not understand."""

    code: str
    message: str
    field: str = ""
    hint: str = ""


AnyHubFrame = (
    Welcome | Ready | EventFrame | DeltaFrame | SessionFrame | SessionsFrame | PromptFrame | AskFrame | NodeFrame
    | TeamFrame | MarkFrame | CommandFrame | GoneFrame | ProblemFrame | Beat
)  # fmt: skip

for _frame in (*AnyClientFrame.__args__, *AnyHubFrame.__args__):
    _frame.type = str(_frame.__struct_config__.tag)

encode = msgspec.json.Encoder().encode

# Why the hub closes a socket; the page and the client tell them apart.
CLOSE_BAD_FRAME = 4400
CLOSE_UNAUTHENTICATED = 4401  # also: the device was revoked
CLOSE_TOO_SLOW = 4408  # come back with your cursor
CLOSE_TOO_OLD = 4426
