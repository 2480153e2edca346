"""Delivers messages to driven sessions. `docs/relay.md` says how its addresses are made.

[[channels]]
id = "agents"
type = "agent"
[channels.config.projects.shop]
cwd = "/home/me/shop"
agent = "claude-code"
"""

from collections.abc import Mapping

from msgspec import Struct

from ...errors import UsageError
from ...policy import preset
from ..base import NewSession, Surroundings
from .channel import AgentChannel

NAME = "Agents"
NEEDS_SESSIONS = True  # it cannot be made without them, only its config be checked


class Project(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the sessions of `<prefix>.<project>.<name>` live, and what they are like."""

    cwd: str
    agent: str = ""  # empty: the default one
    policy: str = "ask"  # the name of a preset
    model: str = ""
    effort: str = ""
    node: str = ""  # empty: this machine
    accept_unenforced: bool = False


class AgentConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    subject_prefix: str = "relay.agent"
    max_concurrent: int = 3
    timeout_s: float = 0.0  # of a turn; 0: the message's own time
    projects: Mapping[str, Project] = {}
    default: Project | None = None  # for projects that are not named

    def __post_init__(self) -> None:
        if self.max_concurrent < 1:
            raise ValueError("max_concurrent is at least 1")


CONFIG = AgentConfig


def create(id: str, config: Struct, surroundings: Surroundings) -> AgentChannel:
    assert isinstance(config, AgentConfig)
    if surroundings.sessions is None:
        raise UsageError("there are no sessions here to deliver to", field=f"channels.{id}")
    return AgentChannel(
        id,
        config.subject_prefix,
        surroundings.sessions,
        {name.casefold(): _wanted(project) for name, project in config.projects.items()},
        default=_wanted(config.default) if config.default else None,
        max_concurrent=config.max_concurrent,
        timeout_s=config.timeout_s,
    )


def _wanted(project: Project) -> NewSession:
    return NewSession(
        cwd=project.cwd,
        agent=project.agent,
        policy=preset(project.policy),
        model=project.model,
        effort=project.effort,
        node=project.node,
        accept_unenforced=project.accept_unenforced,
    )
