"""What people are shown of machines, agents, prompts, commands and devices. Sessions and asks are shown as kept."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from ..events import Outcome
from ..sessions.git_actions import ChangeOutcome
from ..sessions.records import AskRecord, PromptRecord, PromptStatus, SessionRecord
from .teams import TeamRecord


class AgentView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent on a node: is it there, is it usable, what can it do."""

    name: str
    found: bool = False
    version: str = ""
    ready: bool = False  # found, signed in as far as can be told, not switched off
    health: Literal["unknown", "healthy", "failing", "off"] = "unknown"
    problem: str = ""
    hint: str = ""
    features: tuple[str, ...] = ()  # steer, resume, fork, model, attachments …
    # what that rests on: our tests, the agent's own word on this node, or its documentation: it never ran there
    basis: Literal["", "tested", "told", "unverified"] = ""
    models: tuple[str, ...] = ()  # that it told last; empty: it tells none, or was not asked yet
    model_efforts: Mapping[str, tuple[str, ...]] = {}  # of these models: the levels each takes, where the agent told
    models_seen_at: float = 0.0
    models_stale: bool = False  # told long ago, or by another version of the agent
    lists_models: bool = False  # it can be asked for them; else it tells them when a session starts
    efforts: tuple[str, ...] = ()  # the levels it takes; empty: it has none
    attachments: tuple[str, ...] = ()  # media types it takes


class NodeView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    name: str = ""
    version: str = ""
    platform: str = ""
    online: bool = False
    local: bool = False  # it lives in the hub's own process
    seen_at: float = 0.0
    agents: tuple[AgentView, ...] = ()
    default_agent: str = ""
    home: str = ""
    limits: tuple[str, ...] = ()  # what a peer of another version goes without
    rules: int = 0  # of a joined one: the revision of the rules for asks that it has


class PromptView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt without the bytes of its attachments."""

    id: str
    session: str
    text: str = ""
    attachments: tuple[str, ...] = ()  # their names
    status: PromptStatus = "received"
    place: float = 0.0
    created_at: float = 0.0
    started_at: float = 0.0
    ended_at: float = 0.0
    outcome: Outcome | None = None
    problem: str = ""
    by: str = ""


class CommandView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where something that was told a node is. sent: durable at the hub · received: the node has it · applied: done ·
    refused: `problem` says why · expired: the node was away too long."""

    id: str
    node: str
    name: str
    state: Literal["sent", "received", "applied", "refused", "expired"] = "sent"
    session: str = ""
    ask: str = ""
    problem: str = ""
    outcome: ChangeOutcome | None = None  # of an applied change, for those who did not wait for it
    by: str = ""
    at: float = 0.0


class DirectoryView(Struct, frozen=True, kw_only=True):
    """A directory on a node, as `browse` shows it: the names of those inside."""

    path: str
    parent: str = ""  # empty: nothing above it is shown
    names: tuple[str, ...] = ()
    whole: bool = True  # there are not more


DeviceKind = Literal["page", "client", "node", "mesh"]
"""What its key is for. `mesh`: a harness on another machine; its key opens the MCP server and nothing else."""


class DeviceView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    name: str
    kind: DeviceKind = "client"
    created_at: float = 0.0
    seen_at: float = 0.0
    node: str = ""  # the node whose key it is
    by: str = ""  # the device that let it in, or the owner
    current: bool = False  # the one that asks


class SessionMark(Struct, frozen=True, kw_only=True):
    """What the hub's person has of a session, the same on all devices."""

    id: str  # the session's
    seen_turns: int = 0  # so many of its turns were read
    pinned: bool = False


class Snapshot(Struct, frozen=True, kw_only=True):
    """The present, beside the log: enough to draw everything without another request."""

    sessions: tuple[SessionRecord, ...] = ()
    asks: tuple[AskRecord, ...] = ()  # pending
    prompts: tuple[PromptView, ...] = ()  # waiting and running
    nodes: tuple[NodeView, ...] = ()
    teams: tuple[TeamRecord, ...] = ()  # their tasks are cut to one line
    marks: tuple[SessionMark, ...] = ()


def view(prompt: PromptRecord) -> PromptView:
    return PromptView(
        id=prompt.id,
        session=prompt.session,
        text=prompt.text,
        attachments=tuple(each.describe().name for each in prompt.attachments),
        status=prompt.status,
        place=prompt.place,
        created_at=prompt.created_at,
        started_at=prompt.started_at,
        ended_at=prompt.ended_at,
        outcome=prompt.outcome,
        problem=prompt.problem,
        by=prompt.by,
    )
