"""`tieline agents add` and `remove`: the agents of the user's `tieline.toml`."""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ... import config as configuration
from ... import environment
from ...config import COMMON, Config
from ...drivers import registry
from ...errors import UsageError
from ..run.target import local_hub
from . import config_edit

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
VERBS = ("add", "test", "remove", "list")
RESTART = (
    "A hub is running: it knows the agents that there were when it started. `tieline down && tieline up` tells it."
)


class NewAgent(Struct, frozen=True, kw_only=True):
    """What `tieline agents add` was told."""

    name: str
    type: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()  # NAME=VALUE
    settings: tuple[str, ...] = ()  # KEY=VALUE, in TOML
    model: str = ""
    effort: str = ""
    default: bool = False  # new sessions use it
    replace: bool = False


class AgentChange(Struct, frozen=True, kw_only=True):
    """As `--json` tells it."""

    name: str
    file: str
    agent: dict[str, Any] | None = None  # None: it was removed


def add(new: NewAgent, *, json: bool) -> None:
    environ = environment.inherited()
    config_file = environment.config_path(environ)
    config = configuration.load() if not config_file or Path(config_file).exists() else Config(environ=environ)
    values = _table_for(new, config)
    _check(new, values, config)

    def edit(text: str) -> str:
        if new.name in tomllib.loads(text).get("agents", {}):
            if not new.replace:
                raise _already_configured(new.name)
            text = config_edit.without_agent(text, new.name)
        text = config_edit.with_agent(text, new.name, values)
        return config_edit.with_value(text, "default_agent", new.name) if new.default else text

    path = config_edit.change(config.environ, edit)
    _print_change(
        AgentChange(name=new.name, file=str(path), agent=values), f"{new.name} is in {path}", config, json=json
    )
    if not json:
        print(f"`tieline agents test {new.name}` tries it.")


def remove(name: str, *, json: bool) -> None:
    config = configuration.load()
    if name not in config.agents:
        if name in registry.names(config):
            hint = f"Put `[agents.{name}]` with `enabled = false` into the configuration to switch it off."
            raise UsageError(f"{name} is built in: there is nothing to remove", field="agent", hint=hint)
        there = ", ".join(config.agents) or "none"
        raise UsageError(f"no agent {name!r} is configured", field="agent", hint=f"There are: {there}.")
    others = {key: value for key, value in config.agents.items() if key != name}
    if name == config.default_agent and name not in registry.names(replace(config, agents=others)):
        hint = "Set default_agent to another one first."
        raise UsageError(f"{name} is the default agent", field="agent", hint=hint)

    def edit(text: str) -> str:
        there = name in tomllib.loads(text).get("agents", {})
        return config_edit.without_agent(text, name) if there else text

    path = config_edit.change(config.environ, edit)
    _print_change(AgentChange(name=name, file=str(path)), f"{name} is no longer in {path}", config, json=json)


def _table_for(new: NewAgent, config: Config) -> dict[str, Any]:
    """The table that is to be written."""
    kind = new.type or ("shell" if new.command else "")
    if not kind and new.name not in registry.names(replace(config, agents={})):
        hint = "Give its type (--type claude-code), or its command after `--`."
        raise UsageError(f"the type of {new.name} is missing", field="type", hint=hint)
    values: dict[str, Any] = {"type": kind} if kind else {}
    for key in ("command", "args"):
        if given := getattr(new, key):
            values[key] = list(given)
    if new.env:
        values["env"] = dict(_split(pair, "env") for pair in new.env)
    for key in ("model", "effort"):
        if given := getattr(new, key):
            values[key] = given
    for pair in new.settings:
        key, text = _split(pair, "set")
        values[key] = _toml(text)
    if not set(values) <= COMMON and "type" not in values:
        values = {"type": new.name, **values}
    return values


def _check(new: NewAgent, values: dict[str, Any], config: Config) -> None:
    """Refuse what could not be used, before anything is written."""
    if not NAME.fullmatch(new.name) or new.name in VERBS:
        problem = f"{new.name!r} cannot be an agent's name"
        raise UsageError(problem, field="name", hint=f"Letters, digits, - and _; but not {', '.join(VERBS)}.")
    if new.name in config.agents and not new.replace:
        raise _already_configured(new.name)
    merged = replace(config, agents={**config.agents, new.name: values})
    merged.defaults(new.name)
    registry.create(new.name, merged)


def _already_configured(name: str) -> UsageError:
    hint = f"Use --replace, or `tieline agents remove {name}` first."
    return UsageError(f"{name} is configured already", field="name", hint=hint)


def _split(pair: str, option: str) -> tuple[str, str]:
    key, equals, value = pair.partition("=")
    if not equals or not key:
        raise UsageError(f"--{option} {pair!r} has no value", field=option, hint=f"Write --{option} NAME=VALUE.")
    return key, value


def _toml(text: str) -> Any:
    """A value in TOML, or else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _print_change(changed: AgentChange, words: str, config: Config, *, json: bool) -> None:
    print(msgspec.json.format(msgspec.json.encode(changed), indent=2).decode() if json else words)
    if local_hub(config.environ) is not None:
        print(RESTART, file=sys.stderr)
