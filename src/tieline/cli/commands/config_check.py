"""`tieline config check`: every mistake of a configuration file, with its line and what to do."""

import copy
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from ... import config as configuration
from ... import paths
from ...channels.base import ChannelContext
from ...config import DRIVERS_OWN, MAX_PORT, AgentEntry, ChannelConfig, Config
from ...config_schema import Mistake, keys, mistakes
from ...drivers import registry
from ...environment import config_path, inherited
from ...errors import TielineError, UsageError
from ...toml_key_lines import dotted, key_lines, line_of
from ..errors import USAGE
from ..terminal.formatting import print_json
from ..terminal.sanitize import one_line


class ConfigMistake(Struct, frozen=True, kw_only=True):
    """A mistake, as `tieline config check --json` tells it."""

    file: str
    line: int
    key: str
    problem: str
    hint: str = ""


class ConfigCheck(Struct, frozen=True, kw_only=True):
    file: str
    good: bool
    mistakes: tuple[ConfigMistake, ...] = ()
    unchecked: tuple[str, ...] = ()  # channels whose code was not run


def report(file: Path | None, *, json: bool) -> int:
    env = inherited()
    if file is not None:
        env["TIELINE_CONFIG"] = str(file)
    elif not configuration.config_file(env):
        path = config_path(env)
        if json:
            print(msgspec.json.encode(ConfigCheck(file=path, good=True)).decode())
        else:
            print(f"There is no configuration file; every value is the default. It would be {path}.")
        return 0
    checked = check(env)
    if json:
        print_json(checked)
        return 0 if checked.good else USAGE
    for mistake in checked.mistakes:
        where = f"{mistake.file}:{mistake.line}" if mistake.line else mistake.file
        key = f"{mistake.key}: " if mistake.key else ""
        print(f"{where}: {key}{one_line(mistake.problem, 400)}")
        if mistake.hint:
            print(f"    {one_line(mistake.hint, 400)}")
    for name in checked.unchecked:
        print(f"{checked.file}: channel {name}: its settings are its own code's to check: `tieline channels check`")
    if checked.good:
        print(f"{checked.file} is good")
    else:
        number = len(checked.mistakes)
        print(f"{number} mistake{'s' if number > 1 else ''}", file=sys.stderr)
    return 0 if checked.good else USAGE


def check(env: Mapping[str, str]) -> ConfigCheck:
    path = Path(configuration.config_file(env))
    try:
        text, content = configuration.read(path)
    except UsageError as error:
        position, _, problem = error.message.removeprefix(str(path)).partition(": ")
        line = int(position.removeprefix(":") or 0)
        mistake = ConfigMistake(file=str(path), line=line, key="", problem=problem, hint=error.hint)
        return ConfigCheck(file=str(path), good=False, mistakes=(mistake,))
    lines = key_lines(text)
    unchecked: list[str] = []
    wrong = list(configuration.mistakes_in(content))
    rest = _without_mistakes(content, wrong)
    wrong += _channels(content.get("channels"), env, str(path), unchecked)
    config = msgspec.convert({**rest, "environ": dict(env), "source": str(path)}, Config)
    agents = content.get("agents")
    wrong += _check_values(config, list(cast("dict[str, Any]", agents)) if isinstance(agents, dict) else [])
    findings = [
        ConfigMistake(
            file=str(path),
            line=line_of(mistake.path, lines),
            key=dotted(mistake.path),
            problem=mistake.problem,
            hint=mistake.hint,
        )
        for mistake in dict.fromkeys(wrong)
    ]
    findings.sort(key=lambda finding: finding.line)
    return ConfigCheck(file=str(path), good=not findings, mistakes=tuple(findings), unchecked=tuple(unchecked))


def options_type(kind: str) -> type[Struct] | None:
    """The options of a built-in type, or of a preset, of agents."""
    kind = registry.ALIASES.get(kind, kind)
    kind = "acp" if kind in registry.PRESETS else kind
    return import_module(registry.BUILT_IN[kind]).OPTIONS if kind in registry.BUILT_IN else None


# --- inside ------------------------------------------------------------------------------------------------


def _without_mistakes(content: Mapping[str, Any], wrong: Iterable[Mistake]) -> dict[str, Any]:
    """The file without what is wrong, so that the rest is checked further. Channels are checked by themselves."""
    rest: dict[str, Any] = {key: copy.deepcopy(value) for key, value in content.items() if key != "channels"}
    for mistake in wrong:
        *above, last = mistake.path[:2] if mistake.path[0] == "agents" else mistake.path
        table: Any = rest
        for part in above:
            table = table.get(part) if isinstance(table, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(table, dict):
            table.pop(last, None)  # pyright: ignore[reportUnknownMemberType]
    return rest


def _check_values(config: Config, named: Sequence[str]) -> Iterator[Mistake]:
    """Mistakes that the users of a value report. `named`: agents of the file, valid or not."""
    from ...bus import open_bus
    from ...policy import preset
    from ...relay.send_limits import SendRules
    from ...sessions.agent_specs import Warm, warm_spec

    yield from _errors_of(("policy",), lambda: preset(config.policy))
    if config.bus:
        yield from _errors_of(("bus",), lambda: open_bus(config.bus))
    known = registry.names(config)
    if config.default_agent and config.default_agent not in (*known, *named):
        hint = f"Known agents: {', '.join(known)}."
        yield Mistake(("default_agent",), f"there is no agent {config.default_agent!r}", hint)
    for name in config.agents:
        yield from _agent(name, config)
    yield from _hub(config)
    for index, entry in enumerate(config.pool.warm):
        entry_mistakes = list(mistakes(entry, Warm, ("pool", "warm", index)))
        yield from entry_mistakes
        if not entry_mistakes:
            yield from _errors_of(("pool", "warm", index), lambda e=entry, p=index: warm_spec(e, p, config))
    for key, rules in (("allow", config.relay.allow), ("deny", config.relay.deny)):
        for index, rule in enumerate(rules):
            yield from _errors_of(("relay", key, index), lambda rule=rule: SendRules([rule], []))


def _hub(config: Config) -> Iterator[Mistake]:
    from ...hub.security.origins import is_loopback

    hub = config.hub
    if not 0 <= hub.port <= MAX_PORT:
        yield Mistake(("hub", "port"), f"a port is a number from 0 to {MAX_PORT}")
    for key, other in (("tls_certificate", "tls_key"), ("tls_key", "tls_certificate")):
        value: str = getattr(hub, key)
        if value and not Path(value).is_file():
            yield Mistake(("hub", key), "there is no such file", "Name a PEM file that the hub can read.")
        if value and not getattr(hub, other):
            yield Mistake(("hub", key), f"{other} is missing", "TLS needs both files.")
    if not (hub.tls_certificate or hub.insecure or is_loopback(hub.host)):
        hint = "Set tls_certificate and tls_key, or insecure = true on a network you trust."
        yield Mistake(("hub", "host"), "other machines could reach it, and nothing would be encrypted", hint)


def _agent(name: str, config: Config) -> Iterator[Mistake]:
    options = config.agents[name]
    if options.get("enabled") is False:
        return
    table = options_type(str(options.get("type", name)))
    if table is not None:
        common = {key.name for key in keys(AgentEntry)} - DRIVERS_OWN
        own = {key: value for key, value in options.items() if key not in common}
        own_mistakes = list(mistakes(own, table, ("agents", name), whole=False))
        yield from own_mistakes
        if own_mistakes:
            return
    yield from _errors_of(("agents", name), lambda: registry.create(name, config))


def _channels(entries: Any, env: Mapping[str, str], source: str, unchecked: list[str]) -> Iterator[Mistake]:
    from ...relay.channel_plugins.loader import BUILT_IN, ChannelError
    from ...relay.channel_plugins.loader import check as check_channel

    if not isinstance(entries, list):
        return
    ids: list[str] = []
    state_dir = str(paths.state(env) / "channels")
    for index, entry in enumerate(cast("list[Any]", entries)):
        path = ("channels", index)
        if not isinstance(entry, dict):
            yield Mistake(path, "expected a table", "Begin each channel with [[channels]].")
            continue
        entry_mistakes = list(mistakes(cast("dict[str, Any]", entry), ChannelConfig, path))
        yield from entry_mistakes
        if entry_mistakes:
            continue
        channel = msgspec.convert(entry, ChannelConfig)
        if channel.id in ids:
            yield Mistake((*path, "id"), f"another channel has the id {channel.id!r}", "Give each an id of its own.")
        ids.append(channel.id)
        if not channel.enabled:
            continue
        if channel.type in BUILT_IN:
            table: type[Struct] = import_module(BUILT_IN[channel.type]).CONFIG
            entry_mistakes = list(mistakes(channel.config, table, (*path, "config"), whole=False))
            yield from entry_mistakes
            if entry_mistakes:
                continue
        elif channel.path or channel.package:
            unchecked.append(channel.id)
            continue  # checking its settings would run its code
        try:
            check_channel(channel, ChannelContext(env=env, state_dir=state_dir), source=source)
        except ChannelError as error:
            inner = error.field.removeprefix(f"channels.{channel.id}").strip(".")
            yield Mistake((*path, *(inner.split(".") if inner else ())), error.problem, error.hint)


def _errors_of(path: tuple[str | int, ...], work: Any) -> Iterator[Mistake]:
    """The error of the part that uses a value, at the value's own place."""
    try:
        work()
    except TielineError as error:
        named = getattr(error, "field", "")
        head = dotted(path)
        inner = named.removeprefix(head).strip(".") if named.startswith(f"{head}.") else ""
        problem = error.message.removeprefix(f"{head}: ").removeprefix(f"{head} ")
        yield Mistake((*path, *(inner.split(".") if inner else ())), problem, error.hint)
