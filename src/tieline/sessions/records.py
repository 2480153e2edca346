"""What is kept about a session beside its log: its own state, its prompts, its asks. Frozen values in bus tables."""

import hashlib
import re
import time
from collections.abc import Callable, Coroutine
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..ask_parts import Part
from ..drivers.base import AgentOptions, Attachment
from ..events import Answer, Ask, Done, Outcome, Tokens
from ..policy import Policy

SESSIONS = "sessions"
PROMPTS = "prompts"
ASKS = "asks"

SessionStatus = Literal["idle", "working", "waiting", "stuck", "failed", "closed"]
"""idle: ready for a prompt · working: a turn runs · waiting: it waits for an answer · stuck: the agent gives no sign of
life · failed: the agent is dead, and the next prompt revives it by resume · closed: over."""
AT_WORK: tuple[SessionStatus, ...] = ("working", "waiting", "stuck")
"""A turn runs."""

PromptStatus = Literal["received", "queued", "running", "done", "failed", "cancelled", "indeterminate"]
"""indeterminate: it may have run, wholly or in part; it is never run again by itself."""

RETRIABLE: tuple[PromptStatus, ...] = ("failed", "indeterminate")
"""A person may have such a prompt sent again."""

AskStatus = Literal["pending", "answered", "expired", "withdrawn"]

SessionKind = Literal["driven", "attached"]
"""driven: Tieline runs its agent · attached: a person runs it in a terminal, and Tieline reads along."""

Remote = Literal["prompt", "steer", "abort", "answer", "question", "model"]
"""What can be done to a terminal's session from elsewhere: prompt it while it is idle · steer its running turn · abort
that turn · answer its permission prompts · answer its questions · change its model and effort."""

LINE = 200
"""Characters of an answer that are shown in lists."""


class SessionWorktree(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The git worktree that a session works in."""

    path: str
    branch: str
    base: str  # the commit that it began with
    into: str = ""  # the branch that it began from, and is merged into; empty: there was none
    repository: str = ""  # the folder that it was made from
    ended: Literal["", "merged", "discarded"] = ""  # then its files are gone; the next prompt makes it again


class SessionRecord(AgentOptions, frozen=True, kw_only=True):
    id: str
    agent: str
    cwd: str
    node: str = "local"  # who runs it
    kind: SessionKind = "driven"
    policy: Policy = Policy()
    title: str = ""
    status: SessionStatus = "idle"
    problem: str = ""  # why it failed
    outcome: Outcome | None = None  # how its last turn ended
    native_id: str = ""
    fork_of: str = ""  # the native id whose copy its first turn begins with
    branch: str = ""
    worktree: SessionWorktree | None = None  # one of its own, in which its directory is
    began: str = ""  # the directory's snapshot when the session began
    created_at: float = 0.0
    active_at: float = 0.0
    last_line: str = ""
    turns: int = 0
    seq: int = 0  # where the log stood when its last turn ended
    tokens: Tokens = Tokens()
    archived: bool = False
    team: str = ""  # the team conversation that it is a member of
    remote: tuple[Remote, ...] = ()  # of an attached one: what its harness lets us do; the rest is the terminal's
    mode: str = ""  # of an attached one: the mode that its terminal told last, in the harness's own word
    model_unsent: bool = False  # model and effort were changed here: the next prompt brings them to its terminal
    cursor: str = ""  # of an attached one: how far its harness's own history was read
    process: str = ""  # of an attached one: `process_key` of its terminal's harness; empty: closed, or not known
    adopted_at: int = 0  # where the log stood when we took it over from its terminal

    @property
    def obeys_rules(self) -> bool:
        """Whether people's rules for asks answer for it: not where only its terminal can."""
        return self.kind == "driven" or "answer" in self.remote


KeepRecord = Callable[[SessionRecord], Coroutine[Any, Any, None]]


class PromptRecord(Struct, frozen=True, kw_only=True):
    id: str
    session: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    status: PromptStatus = "received"
    place: float = 0.0  # order in the queue
    created_at: float = 0.0
    started_at: float = 0.0
    ended_at: float = 0.0
    outcome: Outcome | None = None
    problem: str = ""
    by: str = ""
    timeout_s: float | None = None
    system: str = ""  # what its turn adds to the system instruction

    @property
    def over(self) -> bool:
        return self.status not in ("received", "queued", "running")


class AskRecord(Struct, frozen=True, kw_only=True):
    id: str
    session: str
    ask: Ask
    digest: str
    status: AskStatus = "pending"
    answer: Answer | None = None
    created_at: float = 0.0
    expires_at: float = 0.0
    parts: tuple[Part, ...] = ()  # the ask as people see it


def digest(ask: Ask) -> str:
    """Binds an answer to exactly what was asked."""
    content = msgspec.json.encode((ask.kind, ask.title, ask.action, ask.input, ask.questions, ask.plan), order="sorted")
    return hashlib.sha256(content).hexdigest()[:32]


def after_turn(record: SessionRecord, done: Done, seq: int) -> SessionRecord:
    """The record when a turn has ended; the log stands at `seq`."""
    failed = done.status == "error"
    return replace(
        record,
        status="failed" if failed else "idle",
        problem=done.error if failed else "",
        outcome=done.status,
        native_id=done.native_id or record.native_id,
        active_at=time.time(),
        last_line=(done.text or done.error).strip().partition("\n")[0][:LINE] or record.last_line,
        turns=record.turns + 1,
        seq=max(seq, record.seq),
        tokens=add(record.tokens, done.tokens),
    )


TITLE = 60
"""Characters of a title that is made from a prompt."""
_MARKS = re.compile(r"^(?:#{1,6}|>|[-*+]|\d+[.)])\s+|`+|\*\*")


def title_of(prompt: str) -> str:
    """A session's title by its first prompt: its first line without Markdown's marks, cut at a word. Empty for what is
    no sentence of a person's: a command of the agent, or a text in a frame."""
    line = prompt.strip().partition("\n")[0]
    if line.startswith(("/", "<")):
        return ""
    line = " ".join(_MARKS.sub("", line).split())
    if len(line) <= TITLE:
        return line
    cut = line[:TITLE]
    return (cut.rpartition(" ")[0] or cut).rstrip(" ,;:.-") + " …"


def last_line(text: str) -> str:
    """What a list shows of a text."""
    return text.strip().rpartition("\n")[2][:LINE]


def add(tokens: Tokens, more: Tokens | None) -> Tokens:
    """The totals. A number that is unknown in both stays None."""
    if more is None:
        return tokens

    def total(a: float | None, b: float | None) -> float | None:
        return b if a is None else a if b is None else a + b

    return Tokens(**{name: total(getattr(tokens, name), getattr(more, name)) for name in Tokens.__struct_fields__})  # type: ignore[arg-type]
