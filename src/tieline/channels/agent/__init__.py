"""Delivers messages to driven sessions. `docs/relay.md` says how its addresses are made.

[[channels]]
id = "agents"
type = "agent"
[channels.config.projects.shop]
cwd = "/home/me/shop"
agent = "claude-code"
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct

from ...config import setting
from ...drivers.base import AgentOptions
from ...errors import UsageError
from ...policy import preset
from ..base import ChannelContext, SessionRequest
from .channel import AgentChannel

NAME = "Agents"
NEEDS_SESSIONS = True  # it cannot be made without them, only its config be checked


class AgentProject(AgentOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the sessions of `<prefix>.<project>.<name>` live, and what they are like."""

    cwd: Annotated[str, setting("Directory that the agent works in.", "/home/me/shop")]
    agent: Annotated[str, setting("Agent. Empty: `default_agent`.", "claude-code")] = ""
    policy: Annotated[str, setting("Policy, by the name of a preset.", "edits")] = "ask"
    node: Annotated[str, setting("Id of the machine that runs the sessions. Empty: this one.", "laptop-4f2a")] = ""


class AgentConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages to agents. There is such a channel without an entry; an entry adds projects."""

    subject_prefix: Annotated[str, setting("Beginning of the channel's addresses.", "relay.agent")] = "relay.agent"
    max_concurrent: Annotated[int, setting("Turns at once; further messages wait.", 3)] = 3
    timeout_s: Annotated[float, setting("Seconds that a turn may take. 0: the message's own time.", 600.0)] = 0.0
    projects: Annotated[
        Mapping[str, AgentProject],
        setting(
            "Projects: `relay.agent.PROJECT.NAME` is a session in its directory.", {"shop": {"cwd": "/home/me/shop"}}
        ),
    ] = {}
    default: Annotated[
        AgentProject | None, setting("For addresses of projects that are not listed.", {"cwd": "/home/me"})
    ] = None

    def __post_init__(self) -> None:
        if self.max_concurrent < 1:
            raise ValueError("max_concurrent is at least 1")


CONFIG = AgentConfig


def create(id: str, config: Struct, context: ChannelContext) -> AgentChannel:
    assert isinstance(config, AgentConfig)
    if context.sessions is None:
        raise UsageError("this process has no sessions to deliver to", field=f"channels.{id}")
    return AgentChannel(
        id,
        config.subject_prefix,
        context.sessions,
        {name.casefold(): _wanted(project) for name, project in config.projects.items()},
        default=_wanted(config.default) if config.default else None,
        max_concurrent=config.max_concurrent,
        timeout_s=config.timeout_s,
    )


def _wanted(project: AgentProject) -> SessionRequest:
    options = project.agent_options(policy=preset(project.policy))
    return SessionRequest(cwd=project.cwd, agent=project.agent, node=project.node, **options)
