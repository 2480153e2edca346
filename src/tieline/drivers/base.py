"""The driver contract: what a driver is given, what it gives back, and what it promises.

- `probe()` tells what is installed. It never raises.
- `open(spec, ask)` is an async context manager: inside it the agent lives, outside nothing of it does.
- `Conversation.turn(prompt)` yields the turn's events and exactly one `done`, whatever happens.
- `ask` is awaited whenever the agent wants a decision. A driver maps the policy to the agent's native controls, but
  what is decided is decided by `ask` alone.
- `interrupt()` ends the running turn within a bound, if need be by killing the agent.
- A conversation that can make something ready ahead of its first turn has `warm_up()` (CanWarmUp); the pool calls it.
- What the agent cannot do is in `features`, and `check_spec` refuses it before anything starts.

`turn_stream.Turn` keeps most of these promises for a driver.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypedDict, cast, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from ..config import setting
from ..errors import PolicyUnenforceable, Unsupported, UsageError, invalid_value
from ..events import Answer, Ask, AttachedFile, Event
from ..policy import PRESETS, Policy, Receipt
from .launch_extras import check_extras

Emit = Callable[[Event], None]
AskFn = Callable[[Ask, Emit], Awaitable[Answer]]
"""Decides an ask. What people are asked, and what they answer, is emitted into the turn's stream in its place."""


async def deny_all(ask: Ask, emit: Emit) -> Answer:
    """For an agent that is opened without anybody to talk with it."""
    return Answer(ask.id, "deny", by="tieline", reason="nobody is here to decide")


class McpServer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An MCP server for the agent: a command (stdio) or a URL (streamable HTTP)."""

    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    url: str = ""
    headers: Mapping[str, str] = {}


class Attachment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file given with a prompt: by path, or as bytes with a media type."""

    path: str = ""
    data: bytes = b""
    media_type: str = "application/octet-stream"
    name: str = ""

    def describe(self) -> AttachedFile:
        """The file as people see it, without its content."""
        return AttachedFile(self.name or self.path.rpartition("/")[2] or self.media_type, self.media_type)


class Prompt(Struct, frozen=True, omit_defaults=True):
    text: str
    attachments: tuple[Attachment, ...] = ()
    system: str = ""  # what this turn adds to the system instruction

    def with_inline_system(self) -> "Prompt":
        """With its addition to the system instruction in front, for an agent that takes no such thing with a prompt. It
        is not put into the instruction that a conversation is opened with: it would hold for all turns."""
        if not self.system:
            return self
        return replace(self, text=f"<system_context>\n{self.system}\n</system_context>\n\n{self.text}", system="")


class AgentOptions(Struct, frozen=True, kw_only=True):
    """The options of a session's agent. What carries them derives from this: requests, commands, records, the Spec."""

    policy: Annotated[
        Policy | str | None, setting("Policy: a preset's name, or its three levels. Without it: `policy`.", "edits")
    ] = None
    model: Annotated[str, setting("Model, by the agent's own name.", "opus")] = ""
    effort: Annotated[str, setting("Effort, by the agent's own name.", "high")] = ""
    system: Annotated[str, setting("Text added to the system instruction.", "Answer in French.")] = ""
    accept_unenforced: Annotated[bool, setting("Run an agent that cannot be held to the policy.", True)] = False
    max_turns: Annotated[int | None, setting("Model calls of a turn, at most.", 20)] = None
    max_budget_usd: Annotated[float | None, setting("Cost of a turn, at most, in US dollars.", 2.5)] = None
    allowed_tools: Annotated[
        tuple[str, ...], setting("Tools that need no ask, by the agent's own names.", ("Read",))
    ] = ()
    disallowed_tools: Annotated[
        tuple[str, ...], setting("Tools that are switched off, by the agent's own names.", ("WebSearch",))
    ] = ()
    arguments: Annotated[
        tuple[str, ...], setting("More arguments of its command line. Only with the policy `full`.", ("--verbose",))
    ] = ()
    environment: Annotated[
        tuple[str, ...], setting("Variables added to its environment, as NAME=value.", ("DEBUG=1",))
    ] = ()

    def agent_options(self, **changes: Any) -> dict[str, Any]:
        """The fields of AgentOptions alone, for another value that derives from it."""
        return {name: getattr(self, name) for name in AgentOptions.__struct_fields__} | changes


class AgentOptionsDict(TypedDict, total=False):
    """AgentOptions as keyword arguments. None: as if it were left out."""

    policy: Policy | str | None
    model: str | None
    effort: str | None
    system: str | None
    accept_unenforced: bool
    max_turns: int | None
    max_budget_usd: float | None
    allowed_tools: Sequence[str]
    disallowed_tools: Sequence[str]
    arguments: Sequence[str]
    environment: Sequence[str]


class Spec(AgentOptions, frozen=True, kw_only=True):
    """How a conversation is to be opened. Frozen: a change makes another one (`msgspec.structs.replace`)."""

    cwd: str
    env: Mapping[str, str] = {}  # the agent's whole environment
    policy: Policy = Policy()
    resume: str = ""  # a native id
    fork: bool = False  # with resume: go on in a copy
    mcp_servers: Mapping[str, McpServer] = {}
    ahead: bool = False  # nobody waits for it yet: it may start slower if its first turn is faster for it


class Features(Struct, frozen=True, kw_only=True):
    """What the agent can do. Everything not declared here is refused when asked for."""

    model: bool = False
    effort: tuple[str, ...] = ()  # the levels it takes
    max_turns: bool = False
    max_budget_usd: bool = False
    resume: bool = False
    fork: bool = False
    steer: bool = False
    system: Literal["native", "prompt", "none"] = "none"
    turn_system: bool = False  # it takes more of it with a prompt
    allowed_tools: bool = False
    disallowed_tools: bool = False
    arguments: bool = False
    mcp_servers: bool = False
    attachments: tuple[str, ...] = ()  # media types or their families: "image/*", "text/*", "*/*"
    warm: bool = False  # it can be opened ahead of its first prompt, and gains by it
    # what its stream can show
    deltas: bool = False
    thinking: bool = False
    questions: bool = False
    plans: bool = False
    diffs: bool = False
    usage: bool = False

    def supported(self) -> tuple[str, ...]:
        """Of what it can do."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return tuple(name for name, value in values.items() if value and value != "none")


class Probe(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is there of an agent on this machine."""

    found: bool
    path: str = ""
    version: str = ""
    signed_in: bool | None = None  # None: cannot be told without asking the vendor
    problem: str = ""
    hint: str = ""  # what to do about it


class Program(Struct, frozen=True, kw_only=True):
    """What a driver starts: the arguments that it always gives come first, then those of the configuration."""

    type: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


class Conversation(Protocol):
    @property
    def native_id(self) -> str:
        """The agent's own id of the conversation; empty until it is known."""
        ...

    @property
    def receipt(self) -> Receipt: ...

    @property
    def alive(self) -> bool:
        """Whether there is an agent for the next turn, as far as is known without asking it."""
        ...

    def turn(self, prompt: Prompt) -> AsyncIterator[Event]:
        """One turn; one at a time."""
        ...

    async def interrupt(self) -> None:
        """End the running turn, if there is one. Returns at once; the turn's `done` follows within a bound."""
        ...

    async def steer(self, text: str) -> None:
        """Say something to the agent in the middle of its turn. Raises Unsupported."""
        ...


@runtime_checkable
class EnforcesTimeout(Protocol):
    """A conversation that ends a turn itself when the configured time is up, unless the turn has a limit of its own."""

    enforces_timeout: bool  # in the next turn


@runtime_checkable
class CanWarmUp(Protocol):
    """A conversation that can do something ahead of its first turn. It asks nobody for it and leaves no trace."""

    async def warm_up(self) -> None: ...


@runtime_checkable
class StartsProgram(Protocol):
    """A driver that starts a program, and can say which. `env` is what the configuration adds to its environment."""

    @property
    def program(self) -> Program: ...

    @property
    def env(self) -> Mapping[str, str]: ...


def agent_env(driver: object, env: Mapping[str, str]) -> Mapping[str, str]:
    """The environment that the driver's agent really gets: the given one, with the configured variables on top."""
    return {**env, **driver.env} if isinstance(driver, StartsProgram) and driver.env else env


class Driver(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def features(self) -> Features: ...

    @property
    def tested(self) -> str:
        """The version of the agent that the tests run against; empty when it has none."""
        ...

    @property
    def floor(self) -> str:
        """The oldest version known to work; empty when it has none."""
        ...

    async def probe(self, env: Mapping[str, str]) -> Probe: ...

    def enforce(self, policy: Policy) -> Receipt:
        """How the agent will be held to a policy. Pure: it can be asked without starting anything."""
        ...

    def open(self, spec: Spec, ask: AskFn) -> AbstractAsyncContextManager[Conversation]: ...


def required_features(spec: Spec) -> tuple[str, ...]:
    """The names of the features that it needs."""
    names = (*AgentOptions.__struct_fields__, "resume", "fork", "mcp_servers")
    default = Spec(cwd="")
    return tuple(
        name
        for name in names
        if name not in ("policy", "accept_unenforced", "environment") and getattr(spec, name) != getattr(default, name)
    )


def check_spec(driver: Driver, spec: Spec) -> None:
    """Refuse what the agent cannot do, before anything starts."""
    features = driver.features
    able = features.supported()
    for name in required_features(spec):
        if name not in able:
            raise Unsupported(driver.name, name)
    if spec.effort and spec.effort not in features.effort:
        raise Unsupported(driver.name, f"effort {spec.effort!r}", hint=f"It takes: {', '.join(features.effort)}.")
    for name in ("max_turns", "max_budget_usd"):
        value = getattr(spec, name)
        if value is not None and not value > 0:
            raise invalid_value(name, value, hint="It must be more than zero.")
    for name, server in spec.mcp_servers.items():
        if bool(server.command) == bool(server.url):
            much = "both a command and a URL" if server.url else "no command and no URL"
            raise UsageError(f"the MCP server {name!r} has {much}", field="mcp_servers", hint="Give it either of them.")
    if spec.fork and not spec.resume:
        raise UsageError("fork without resume", field="fork", hint="Name the conversation to copy with resume.")
    _check_cwd(spec.cwd)
    held = spec.policy != PRESETS["full"] and not spec.accept_unenforced
    check_extras(driver.name, spec.arguments, spec.environment, held=held)
    receipt = driver.enforce(spec.policy)
    unenforced = receipt.unenforced()
    if unenforced and not spec.accept_unenforced:
        notes = dict.fromkeys(receipt.of(capability).note for capability in unenforced)
        raise PolicyUnenforceable(driver.name, unenforced, "; ".join(note for note in notes if note))


def check_args(agent: str, args: Iterable[str], kept: Iterable[str], *, field: str = "") -> None:
    """Refuse additional arguments that would undo what the driver itself sees to."""
    for argument in args:
        flag = argument.partition("=")[0]
        if flag in kept:
            field = field or f"agents.{agent}.args"
            hint = "Remove it: the policy and the session's options decide this."
            raise UsageError(f"{field}: {flag} is Tieline's own argument", field=field, hint=hint)


def check_prompt(driver: Driver, prompt: Prompt) -> None:
    """Refuse an empty prompt and attachments that the agent cannot take."""
    value = cast("object", prompt)
    if not isinstance(value, Prompt) or not isinstance(cast("object", prompt.text), str):
        kind = type(value.text if isinstance(value, Prompt) else value).__name__
        raise UsageError(f"invalid prompt of type {kind}", field="prompt", hint="Give a text, or a tieline.Prompt.")
    if not prompt.text.strip() and not prompt.attachments:
        raise UsageError("the prompt is empty", field="prompt", hint="Say what the agent should do.")
    for attachment in prompt.attachments:
        if not isinstance(cast("object", attachment), Attachment):
            hint = "Give it as tieline.Attachment(path=…, media_type=…)."
            raise UsageError(f"invalid attachment of type {type(attachment).__name__}", field="attachments", hint=hint)
        family = attachment.media_type.split("/")[0] + "/*"
        if not {attachment.media_type, family, "*/*"} & set(driver.features.attachments):
            raise Unsupported(driver.name, f"attachments of type {attachment.media_type}")
        if attachment.path and not Path(attachment.path).is_file():
            raise UsageError(f"no file {attachment.path!r} to attach", field="attachments")


def _check_cwd(cwd: str) -> None:
    path = Path(cwd)
    if not path.is_absolute():
        raise UsageError(f"the directory {cwd!r} is not absolute", field="cwd")
    if not path.exists():
        raise UsageError(f"there is no directory {cwd!r}", field="cwd", hint="Create it, or name another with --cwd.")
    if not path.is_dir():
        raise UsageError(f"{cwd!r} is not a directory", field="cwd")
    try:
        next(path.iterdir(), None)
    except OSError as error:
        raise UsageError(f"the directory {cwd!r} cannot be read: {error.strerror}", field="cwd") from None
