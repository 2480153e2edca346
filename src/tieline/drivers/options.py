"""What a caller asks of an agent, as named options, made into the Spec that a driver is given."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from ..config import Config
from ..policy import Policy, preset
from .base import McpServer, Spec


class Options(TypedDict, total=False):
    cwd: str | Path
    policy: Policy | str | None  # None: the configured one
    env: Mapping[str, str] | None  # None: the caller's own
    model: str
    effort: str
    max_turns: int | None
    max_budget_usd: float | None
    resume: str
    fork: bool
    system: str
    allowed_tools: Sequence[str]
    disallowed_tools: Sequence[str]
    mcp_servers: Mapping[str, McpServer] | None
    accept_unenforced: bool


def build_spec(config: Config, agent: str = "", **options: Unpack[Options]) -> Spec:
    """`agent` is its configured name: what the caller leaves open is as it is configured for it."""
    defaults = config.defaults(agent)
    policy = options.get("policy")
    if policy is None:
        policy = config.policy
    env = options.get("env")
    return Spec(
        cwd=str(Path(options.get("cwd", ".")).expanduser().absolute()),
        env=config.for_children() if env is None else dict(env),
        policy=preset(policy) if isinstance(policy, str) else policy,
        accept_unenforced=options.get("accept_unenforced", False),
        model=options.get("model") or defaults.model,
        effort=options.get("effort") or defaults.effort,
        max_turns=options.get("max_turns"),
        max_budget_usd=options.get("max_budget_usd"),
        resume=options.get("resume", ""),
        fork=options.get("fork", False),
        system=options.get("system") or defaults.system,
        allowed_tools=tuple(options.get("allowed_tools", ())),
        disallowed_tools=tuple(options.get("disallowed_tools", ())),
        mcp_servers=dict(options.get("mcp_servers") or {}),
    )
