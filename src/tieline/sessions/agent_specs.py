"""How the agent of a session is opened: by the session's record, or by an entry of `pool.warm`."""

from collections.abc import Mapping
from typing import Annotated, Any, cast

import msgspec

from ..config import Config, setting
from ..drivers.base import AgentOptions, AgentOptionsDict, McpServer, Spec
from ..drivers.launch_extras import with_environment
from ..drivers.options import resolve_options
from ..errors import UsageError
from .records import SessionRecord


def spec_of(record: SessionRecord, env: Mapping[str, str], servers: Mapping[str, McpServer] | None = None) -> Spec:
    return Spec(
        cwd=record.cwd,
        env=with_environment(env, record.environment),
        mcp_servers=servers or {},
        **record.agent_options(),
    )


def quiet_s(config: Config, agent: str) -> float:
    """How long an agent may give no sign of life."""
    return config.watchdog.agents.get(agent, config.watchdog.quiet_s)


class Warm(AgentOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the sessions will be created with: an agent is ready for those that are created just so."""

    cwd: Annotated[str, setting("Directory that the agent works in.", "/home/me/shop")]
    agent: Annotated[str, setting("Agent. Empty: `default_agent`.", "codex")] = ""


def warm_spec(entry: Mapping[str, Any], index: int, config: Config) -> tuple[str, Spec]:
    """The agent and spec of an entry. Raises UsageError that names its field."""
    try:
        warm = msgspec.convert(dict(entry), Warm)
    except msgspec.ValidationError as error:
        raise UsageError(f"pool.warm[{index}]: {error}", field=f"pool.warm[{index}]") from None
    agent = warm.agent or config.default_agent
    if not agent:
        raise UsageError(f"pool.warm[{index}] names no agent", field=f"pool.warm[{index}].agent")
    options = resolve_options(cast("AgentOptionsDict", warm.agent_options()), config, agent)
    return agent, Spec(cwd=warm.cwd, env=with_environment(config.for_children(), warm.environment), **options)
