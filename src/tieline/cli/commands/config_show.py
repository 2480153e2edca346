"""`tieline config show`: the configuration in effect, and where each value comes from."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ... import config as configuration
from ... import paths
from ...config import AgentEntry, ChannelConfig, Config
from ...config_schema import Key, keys, table_in, toml
from ...environment import SECRET, config_path
from ...toml_key_lines import KeyPath, dotted, key_lines, line_of
from ..terminal.formatting import print_json
from ..terminal.sanitize import one_line
from .config_check import options_type

HIDDEN = "(not shown)"


class ConfigValue(Struct, frozen=True, kw_only=True):
    """One value, as `tieline config show --json` tells it."""

    key: str
    value: Any
    source: Literal["default", "file", "environment"]
    line: int = 0  # in the file
    variable: str = ""  # of the environment


class EffectiveConfig(Struct, frozen=True, kw_only=True):
    file: str  # empty: there is none
    values: tuple[ConfigValue, ...]


def report(*, json: bool) -> int:
    shown = effective(configuration.load())
    if json:
        print_json(shown)
        return 0
    rows = [(value.key, one_line(_value_text(value.value), 100), _source_text(value)) for value in shown.values]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    print(f"file: {shown.file or 'none'}")
    for key, value, where in rows:
        print(f"{key:<{widths[0]}}  {value:<{min(widths[1], 60)}}  {where}")
    return 0


def effective(config: Config) -> EffectiveConfig:
    env = config.environ
    content: dict[str, Any] = {}
    lines: dict[KeyPath, int] = {}
    if config.source:
        text, content = configuration.read(Path(config.source))
        lines = key_lines(text)
    own = [
        _from_environment("configuration file", config_path(env), env, "TIELINE_CONFIG", "XDG_CONFIG_HOME"),
        _from_environment("state directory", str(paths.state(env)), env, "TIELINE_HOME", "XDG_STATE_HOME"),
    ]
    return EffectiveConfig(file=config.source, values=(*own, *_table(content, Config, (), lines)))


# --- inside ------------------------------------------------------------------------------------------------


def _from_environment(key: str, value: str, env: Mapping[str, str], *variables: str) -> ConfigValue:
    named = next((name for name in variables if env.get(name)), "")
    return ConfigValue(key=key, value=value, source="environment" if named else "default", variable=named)


def _table(
    content: Mapping[str, Any], table: type[Struct], path: KeyPath, lines: dict[KeyPath, int]
) -> Iterator[ConfigValue]:
    """Every key of a table: those of the file, and the others with their defaults."""
    for key in keys(table):
        here = (*path, key.name)
        if key.name in content:
            yield from _value(content[key.name], key, here, lines)
        elif table_in(key.kind)[1] == "one" and isinstance(key.default, Struct):
            yield from _table({}, type(key.default), here, lines)
        elif not key.required and not (key.name in ("agents", "channels", "schedules", "warm") and not key.default):
            yield ConfigValue(key=dotted(here), value=msgspec.to_builtins(key.default), source="default")


def _value(value: Any, key: Key, path: KeyPath, lines: dict[KeyPath, int]) -> Iterator[ConfigValue]:
    inner, how = table_in(key.kind)
    if path == ("agents",):
        for name, agent in cast("dict[str, dict[str, Any]]", value).items():
            yield from _agent(agent, (*path, name), lines)
    elif path == ("channels",):
        for index, entry in enumerate(cast("list[dict[str, Any]]", value)):
            yield from _channel(entry, (*path, index), lines)
    elif key.secret:
        yield _file_value(_hidden(value), path, lines)
    elif inner is not None and how == "one" and isinstance(value, dict):
        yield from _table(cast("dict[str, Any]", value), inner, path, lines)
    elif inner is not None and how == "named" and isinstance(value, dict):
        for name, each in cast("dict[str, dict[str, Any]]", value).items():
            yield from _table(each, inner, (*path, name), lines)
    else:
        yield _file_value(_without_passwords(value), path, lines)


def _agent(agent: dict[str, Any], path: KeyPath, lines: dict[KeyPath, int]) -> Iterator[ConfigValue]:
    table = options_type(str(agent.get("type", path[-1])))
    known = {key.name: key for key in (*(keys(table) if table else ()), *keys(AgentEntry))}
    for name, value in agent.items():
        yield from _described(value, known.get(name), (*path, name), lines)


def _channel(entry: dict[str, Any], path: KeyPath, lines: dict[KeyPath, int]) -> Iterator[ConfigValue]:
    from ...relay.channel_plugins.loader import BUILT_IN

    kind = entry.get("type")
    known: dict[str, Key] = {}
    if isinstance(kind, str) and kind in BUILT_IN:
        known = {key.name: key for key in keys(import_module(BUILT_IN[kind]).CONFIG)}
    about = {key.name: key for key in keys(ChannelConfig)}
    for name, value in entry.items():
        if name == "config" and isinstance(value, dict):
            for inner, each in cast("dict[str, Any]", value).items():
                yield from _described(each, known.get(inner), (*path, name, inner), lines)
        else:
            yield from _described(value, about.get(name), (*path, name), lines)


def _described(value: Any, key: Key | None, path: KeyPath, lines: dict[KeyPath, int]) -> Iterator[ConfigValue]:
    """What no type of ours describes may be a secret."""
    if key is None:
        yield _file_value(_hidden(value), path, lines)
    else:
        yield from _value(value, key, path, lines)


def _file_value(value: Any, path: KeyPath, lines: dict[KeyPath, int]) -> ConfigValue:
    return ConfigValue(key=dotted(path), value=value, source="file", line=line_of(path, lines))


def _hidden(value: Any) -> Any:
    """Names, and which variables are meant; no value."""
    if isinstance(value, dict):
        return {name: _hidden(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_hidden(each) for each in cast("list[Any]", value)]
    return value if isinstance(value, str) and value.startswith(SECRET) else HIDDEN


def _without_passwords(value: Any) -> Any:
    """Addresses may carry a password or a key: nats://user:password@host, https://host/?key=…"""
    if isinstance(value, dict):
        return {name: _without_passwords(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_without_passwords(each) for each in cast("list[Any]", value)]
    if not isinstance(value, str) or "://" not in value:
        return value
    parts = urlsplit(value)
    before, at, host = parts.netloc.rpartition("@")
    query = HIDDEN if parts.query else ""
    return parts._replace(netloc=f"{HIDDEN}@{host}" if at and before else parts.netloc, query=query).geturl()


def _value_text(value: Any) -> str:
    return "none" if value is None else toml(value)


def _source_text(value: ConfigValue) -> str:
    if value.source == "environment":
        return f"${value.variable}"
    return f"line {value.line}" if value.source == "file" else "default"
