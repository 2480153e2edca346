"""Agent options as keyword arguments: completed from the configuration, and made into the Spec of a conversation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from msgspec.structs import fields

from ..config import AgentDefaults, Config
from ..policy import preset
from .base import AgentOptions, AgentOptionsDict, McpServer, Spec
from .launch_extras import with_environment

CONFIGURABLE = tuple(name for name in AgentDefaults.__struct_fields__ if name in AgentOptions.__struct_fields__)
"""Options that [agents.NAME] may set for all sessions of an agent."""


LISTS = frozenset(field.name for field in fields(AgentOptions) if isinstance(field.default, tuple))


class Options(AgentOptionsDict, total=False):
    cwd: str | Path
    env: Mapping[str, str] | None  # None: the caller's own
    resume: str
    fork: bool
    mcp_servers: Mapping[str, McpServer] | None


def resolve_options(options: AgentOptionsDict, config: Config, agent: str) -> dict[str, Any]:
    """The caller's options; what the caller leaves open is as configured for the agent."""
    resolved: dict[str, Any] = {**options}
    for name in LISTS & resolved.keys():
        resolved[name] = tuple(resolved[name])
    defaults = config.defaults(agent)
    for name in CONFIGURABLE:
        resolved[name] = resolved.get(name) or getattr(defaults, name)
    policy = options.get("policy")
    if policy is None:
        policy = config.policy
    resolved["policy"] = preset(policy) if isinstance(policy, str) else policy
    return resolved


def build_spec(config: Config, agent: str = "", **options: Unpack[Options]) -> Spec:
    """`agent` is its configured name: what the caller leaves open is as it is configured for it."""
    cwd = options.pop("cwd", ".")
    env = options.pop("env", None)
    return Spec(
        cwd=str(Path(cwd).expanduser().absolute()),
        env=with_environment(config.for_children() if env is None else dict(env), options.get("environment", ())),
        resume=options.pop("resume", ""),
        fork=options.pop("fork", False),
        mcp_servers=dict(options.pop("mcp_servers", None) or {}),
        **resolve_options(options, config, agent),
    )
