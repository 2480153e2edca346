"""Agent options as keyword arguments: completed from the configuration, and made into the Spec of a conversation."""

import difflib
import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack, cast

import msgspec
from msgspec.structs import fields

from ..config import AgentDefaults, Config
from ..errors import UsageError
from ..policy import PRESETS, Policy, preset
from .base import AgentOptions, AgentOptionsDict, McpServer, Spec
from .launch_extras import with_environment

CONFIGURABLE = tuple(name for name in AgentDefaults.__struct_fields__ if name in AgentOptions.__struct_fields__)
"""Options that [agents.NAME] may set for all sessions of an agent."""


LISTS = frozenset(field.name for field in fields(AgentOptions) if isinstance(field.default, tuple))


class Options(AgentOptionsDict, total=False):
    """How an agent is opened, as keyword arguments. What is left out, or None, is as it is configured.

    cwd                 the directory that it works in; by default the current one
    policy              a Policy, or a preset's name: read-only, ask, edits, full
    model, effort       by the agent's own names
    system              text that is added to its system instruction
    max_turns           model calls of a turn, at most
    max_budget_usd      cost of a turn, at most
    allowed_tools       tools that need no ask, by the agent's own names
    disallowed_tools    tools that are switched off
    mcp_servers         name → McpServer
    resume, fork        a conversation's `native_id` to go on with; with fork in a copy of it
    env                 its whole environment; by default the caller's own
    environment         variables added to it, as NAME=value
    arguments           more arguments of its command line; only with the policy full
    accept_unenforced   open an agent that cannot be held to the policy
    """

    cwd: str | Path | None
    env: Mapping[str, str] | None
    resume: str | None
    fork: bool
    mcp_servers: Mapping[str, McpServer] | None


HINTS = {
    "policy": f"a Policy, or the name of a preset: {', '.join(PRESETS)}",
    "environment": "a list of NAME=value",
    "mcp_servers": 'names with their McpServer(command=("program", "argument")) or McpServer(url="https://…")',
}
"""What an option takes, where its type alone does not say it."""


def check_options(options: Mapping[str, Any]) -> Options:
    """Those that were given, by their types. Raises UsageError, which names the first that is wrong."""
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        kind = Options.__annotations__.get(name)
        if kind is None:
            close = difflib.get_close_matches(name, Options.__annotations__, n=1)
            meant = f"Did you mean {close[0]}? " if close else ""
            known = ", ".join(Options.__annotations__)
            raise UsageError(f"there is no option {name!r}", field=name, hint=f"{meant}Options: {known}.")
        try:
            given[name] = _converted(name, value, kind)
        except (msgspec.ValidationError, TypeError):
            hint = HINTS.get(name) or inspect.formatannotation(kind).replace("collections.abc.", "")
            raise UsageError(
                f"invalid value {_shown(name, value)} for {name}", field=name, hint=f"It takes {hint}."
            ) from None
    return cast("Options", given)


def _converted(name: str, value: Any, kind: Any) -> Any:
    """Raises ValidationError or TypeError."""
    if name == "cwd":
        return Path(value)
    if name == "policy" and not isinstance(value, str | Policy):  # of a table, what is misspelt would have no effect
        raise TypeError
    if name == "mcp_servers":
        if not isinstance(value, Mapping):
            raise TypeError
        value = cast("Mapping[str, object]", value)
        if not all(isinstance(server, McpServer) for server in value.values()):
            raise TypeError
        value = {name: msgspec.to_builtins(server) for name, server in value.items()}  # theirs are looked at, too
    if name in LISTS and not isinstance(value, str | Mapping):
        return msgspec.convert(list(cast("Iterable[object]", value)), tuple[str, ...])
    return msgspec.convert(value, kind)


def _shown(name: str, value: object) -> str:
    """A wrong value as its caller knows it; not of those that may hold secrets."""
    kind = f"of type {type(value).__name__}"
    return kind if name in ("env", "environment", "mcp_servers", "arguments") else f"{value!r:.100} ({kind})"


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
    options = check_options(options)
    cwd = options.pop("cwd", None) or "."
    env = options.pop("env", None)
    return Spec(
        cwd=str(Path(cwd).expanduser().absolute()),
        env=with_environment(config.for_children() if env is None else dict(env), options.get("environment", ())),
        resume=options.pop("resume", None) or "",
        fork=options.pop("fork", False),
        mcp_servers=dict(options.pop("mcp_servers", None) or {}),
        **resolve_options(options, config, agent),
    )
