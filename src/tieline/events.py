"""What happens in a session, whichever agent runs it. Frozen values with a `type` tag.

A turn is: `turn_started`, then anything, then exactly one `done`. Whole items (`text`, `thinking`, `tool_use`,
`tool_result`, …) are the durable record; deltas only announce them early, and concatenated they are the item.
`item` ties deltas to their item; `parent` names the tool call a subagent works for.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Struct

from .policy import Capability, Receipt
from .tool_actions import Action as Action
from .tool_actions import AnyAction as AnyAction
from .tool_actions import Command as Command
from .tool_actions import Edit as Edit
from .tool_actions import Fetch as Fetch
from .tool_actions import Mcp as Mcp
from .tool_actions import OtherAction as OtherAction
from .tool_actions import Read as Read
from .tool_actions import Search as Search
from .tool_actions import Task as Task
from .tool_actions import needs as needs


class Event(Struct, frozen=True, omit_defaults=True, tag_field="type", tag=""):
    """A fact in a session's log; never changed."""

    type: ClassVar[str]  # the tag, also readable on the class


class Init(Event, tag="init", frozen=True):
    """The agent is up and the conversation is open."""

    agent: str
    native_id: str = ""
    cwd: str = ""
    model: str = ""
    version: str = ""
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    receipt: Receipt | None = None


class AttachedFile(Struct, frozen=True, omit_defaults=True):
    """A file that was given with a prompt, without its content."""

    name: str
    media_type: str = ""


class TurnStarted(Event, tag="turn_started", frozen=True):
    prompt: str
    id: str = ""  # of a durable prompt
    attachments: tuple[AttachedFile, ...] = ()


class TextDelta(Event, tag="text_delta", frozen=True):
    text: str
    item: str = ""
    parent: str = ""


class Text(Event, tag="text", frozen=True):
    text: str
    item: str = ""
    parent: str = ""


class ThinkingDelta(Event, tag="thinking_delta", frozen=True):
    text: str
    item: str = ""
    parent: str = ""


class Thinking(Event, tag="thinking", frozen=True):
    text: str
    item: str = ""
    parent: str = ""


class ToolUse(Event, tag="tool_use", frozen=True):
    id: str
    name: str
    action: AnyAction
    input: Mapping[str, Any] = {}
    parent: str = ""


class ToolOutput(Event, tag="tool_output", frozen=True):
    """Output of a tool that still runs (ephemeral, like a delta)."""

    id: str
    text: str


class ToolResult(Event, tag="tool_result", frozen=True):
    """How a tool call ended. `denied` means that it did not run."""

    id: str
    status: Literal["ok", "error", "denied"]
    output: str = ""
    parent: str = ""


class Choice(Struct, frozen=True, omit_defaults=True):
    """One way to answer. For a permission: `allow` or `deny`, remembered for how long."""

    id: str
    label: str
    description: str = ""


class Question(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    text: str
    header: str = ""
    choices: tuple[Choice, ...] = ()
    many: bool = False
    free: bool = True


Remember = Literal["once", "session", "always"]


class Ask(Event, tag="ask", frozen=True):
    """The agent needs a decision and waits for it."""

    id: str
    kind: Literal["permission", "question", "plan"]
    title: str = ""
    reason: str = ""
    tool: str = ""  # the tool_use this is about
    action: AnyAction | None = None
    input: Mapping[str, Any] = {}
    capability: Capability | None = None
    questions: tuple[Question, ...] = ()
    plan: str = ""
    remember: tuple[Remember, ...] = ()  # what the agent offers beyond "once"
    scopes: Mapping[Remember, str] = {}  # what each of these really permits, in the driver's words
    withheld: str = ""  # what the agent does not tell of its action; such an ask can only be denied
    wider: bool = False  # to allow it permits more than its action: only people do
    at_terminal: str = ""  # it is answered at its terminal only: the sentence that tells people so


class Answer(Event, tag="answer", frozen=True):
    """The one decision that was applied."""

    ask: str
    decision: Literal["allow", "deny"]
    by: str = ""  # "policy", "rule", "caller", "expiry", "turn-end", a person …
    reason: str = ""
    answers: Mapping[str, tuple[str, ...]] = {}  # question id → chosen labels or free text
    remember: Remember = "once"
    tool: str = ""
    via: str = ""  # from where: a device, or the pid and command of the local caller
    rule: str = ""  # the id of the rule that decided


class PlanStep(Struct, frozen=True):
    text: str
    status: Literal["pending", "running", "done"] = "pending"


class Plan(Event, tag="plan", frozen=True):
    """The agent's list of steps, whole, each time it changes."""

    steps: tuple[PlanStep, ...]


class Diff(Event, tag="diff", frozen=True):
    """What the turn changed so far, as one unified diff; the last one counts."""

    diff: str
    paths: tuple[str, ...] = ()


class Tokens(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A measured zero is 0; what the agent does not tell is None."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    cost_usd: float | None = None


class Usage(Event, tag="usage", frozen=True):
    """Tokens of this turn so far."""

    tokens: Tokens
    context_window: int | None = None


class Status(Event, tag="status", frozen=True):
    """Something worth showing that is not content: retrying, compacting, a mode change …"""

    state: str
    detail: str = ""


class Warning(Event, tag="warning", frozen=True):
    message: str


class Error(Event, tag="error", frozen=True):
    """Something failed. Recoverable: the agent goes on by itself; the turn's end is `done` alone."""

    message: str
    code: str = ""
    recoverable: bool = False


Outcome = Literal["success", "error", "interrupted", "max_turns", "max_budget", "timeout"]


class Done(Event, tag="done", frozen=True):
    """The one end of a turn."""

    status: Outcome
    text: str = ""  # the turn's final answer
    error: str = ""
    tokens: Tokens | None = None  # None: the agent told nothing
    usage: Literal["complete", "partial", "unknown"] = "unknown"
    native_id: str = ""
    duration_s: float = 0.0
    turns: int | None = None  # model calls, where the agent tells


class Other(Event, tag="other", frozen=True):
    """Native input that has no place above; kept as it came."""

    raw: Any
    source: str = ""


AnyEvent = (
    Init | TurnStarted | TextDelta | Text | ThinkingDelta | Thinking | ToolUse | ToolOutput | ToolResult
    | Ask | Answer | Plan | Diff | Usage | Status | Warning | Error | Done | Other
)  # fmt: skip

EVENT_TYPES: tuple[type[Event], ...] = AnyEvent.__args__

for _kind in EVENT_TYPES:
    _kind.type = str(_kind.__struct_config__.tag)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] | None = None


def encode(event: Event) -> bytes:
    """One event as a line of JSON, without the newline."""
    return _encoder.encode(event)


def decode(line: bytes | str) -> AnyEvent:
    """The event of a line of JSON. Raises msgspec.ValidationError for what is not one."""
    global _decoder
    if _decoder is None:  # building it compiles all types: not on the path of `import tieline`
        _decoder = msgspec.json.Decoder(AnyEvent)
    return _decoder.decode(line)


def schema() -> dict[str, Any]:
    """JSON Schema of every event."""
    (root,), components = msgspec.json.schema_components([AnyEvent], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tieline event",
        **root,
        "$defs": components,
    }


def changed_paths(diff: str) -> Sequence[str]:
    """The files that a unified diff names, in order, each once."""
    paths: dict[str, None] = {}
    for line in diff.splitlines():
        if line.startswith(("+++ ", "--- ")):
            path = line[4:].split("\t")[0]
            if path != "/dev/null":
                paths[path[2:] if path[:2] in ("a/", "b/") else path] = None
    return tuple(paths)
