"""What a session's record says about how its agent is opened."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict, cast

import msgspec
from msgspec import Struct

from ..config import Config, setting
from ..drivers.base import Spec
from ..errors import UsageError
from ..policy import Policy, preset
from .records import SessionRecord


def spec_of(record: SessionRecord, env: Mapping[str, str]) -> Spec:
    return Spec(
        cwd=record.cwd,
        env=env,
        policy=record.policy,
        accept_unenforced=record.accept_unenforced,
        model=record.model,
        effort=record.effort,
        max_turns=record.max_turns,
        max_budget_usd=record.max_budget_usd,
        system=record.system,
        allowed_tools=record.allowed_tools,
        disallowed_tools=record.disallowed_tools,
    )


class SessionOptions(TypedDict, total=False):
    """How the agent of a new session is opened, as far as the caller says."""

    policy: Policy | str | None  # None: the configured one
    model: str
    effort: str
    system: str
    accept_unenforced: bool
    max_turns: int | None
    max_budget_usd: float | None
    allowed_tools: Sequence[str]
    disallowed_tools: Sequence[str]


def resolve_options(options: SessionOptions, config: Config, agent: str) -> dict[str, Any]:
    """The options as a record keeps them: the caller's, else those that are configured for the agent."""
    defaults = config.defaults(agent)
    policy = options.get("policy")
    if policy is None:
        policy = config.policy
    return {
        **options,
        "model": options.get("model") or defaults.model,
        "effort": options.get("effort") or defaults.effort,
        "system": options.get("system") or defaults.system,
        "policy": preset(policy) if isinstance(policy, str) else policy,
        "allowed_tools": tuple(options.get("allowed_tools", ())),
        "disallowed_tools": tuple(options.get("disallowed_tools", ())),
    }


def quiet_s(config: Config, agent: str) -> float:
    """How long an agent may give no sign of life."""
    return config.watchdog.agents.get(agent, config.watchdog.quiet_s)


class Warm(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the sessions will be created with: an agent is ready for those that are created just so."""

    cwd: Annotated[str, setting("Directory that the agent works in.", "/home/me/shop")]
    agent: Annotated[str, setting("Agent. Empty: `default_agent`.", "codex")] = ""
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


def warm_spec(entry: Mapping[str, Any], place: int, config: Config) -> tuple[str, Spec]:
    """The agent and spec of an entry. Raises UsageError that names its field."""
    try:
        warm = msgspec.convert(dict(entry), Warm)
    except msgspec.ValidationError as error:
        raise UsageError(f"pool.warm[{place}]: {error}", field=f"pool.warm[{place}]") from None
    agent = warm.agent or config.default_agent
    if not agent:
        raise UsageError(f"pool.warm[{place}] names no agent", field=f"pool.warm[{place}].agent")
    options = cast("SessionOptions", {name: getattr(warm, name) for name in SessionOptions.__annotations__})
    record = SessionRecord(id="", agent=agent, cwd=warm.cwd, **resolve_options(options, config, agent))
    return agent, spec_of(record, config.for_children())
