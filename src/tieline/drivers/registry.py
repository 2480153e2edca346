"""Agents by name. A driver's module is imported when its agent is asked for, not before.

A name is one that the configuration gives (with a `type`), a built-in one, a preset of the ACP driver, or one that an
installed package offers under the entry point group `tieline.drivers`. Each resolves to a factory
`(name, options) -> Driver`; options come from the configuration and are checked by the driver.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from .. import paths
from ..config import AgentDefaults, Config
from ..environment import SECRET
from ..errors import AgentMissing, TielineError, UnknownAgent, UsageError
from .acp_presets import PRESETS
from .base import Driver
from .observed_features import ObservedAgents, ObservesFeatures
from .run_as import NODE_HINT, RunAsDriver, look_up_account

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

DriverFactory = Callable[[str, Mapping[str, Any]], Driver]

BUILT_IN: dict[str, str] = {
    "claude-code": "tieline.drivers.claude_code.driver",
    "codex": "tieline.drivers.codex.driver",
    "opencode": "tieline.drivers.opencode.driver",
    "pi": "tieline.drivers.pi.driver",
    "acp": "tieline.drivers.acp.driver",
    "shell": "tieline.drivers.shell.driver",
    "scripted": "tieline.drivers.scripted",
}
"""Type → the module that has its `create`."""

NEED_OPTIONS = ("acp", "shell")
"""Types that are nothing without options: they are used through a preset or the configuration."""

ALIASES = {"google-gemini": "gemini", "gemini-cli": "gemini", "openai-codex": "codex", "claude": "claude-code"}
"""Types by another name."""

ENTRY_POINTS = "tieline.drivers"

O = TypeVar("O")  # noqa: E741


def names(config: Config) -> list[str]:
    """Every agent that can be asked for by name."""
    built_in = [name for name in BUILT_IN if name not in NEED_OPTIONS]
    return list(dict.fromkeys([*config.agents, *built_in, *PRESETS, *_entry_points()]))


def create(name: str, config: Config) -> Driver:
    """The driver for an agent. Raises UnknownAgent, UsageError for bad options."""
    options: Mapping[str, Any] = config.agents.get(name, {})
    kind = str(options.get("type", name))
    kind = ALIASES.get(kind, kind)
    if options.get("enabled", True) is False:
        raise UsageError(
            f"{name} is switched off", field="agent", hint=f"Set enabled = true in [agents.{name}], or use another one."
        )
    user = options.get("run_as", "")
    apart = {"type", "enabled", "run_as", *AgentDefaults.__struct_fields__}
    if kind == "shell":  # it keeps the time itself
        apart.remove("timeout_s")
    options = {key: value for key, value in options.items() if key not in apart}
    options = {key: _resolve_env(f"agents.{name}.{key}", value, config) for key, value in options.items()}
    if kind in PRESETS:
        options = {"preset": kind, **options}
        kind = "acp"
    if kind in BUILT_IN and (kind not in NEED_OPTIONS or kind != name or name in config.agents):
        factory: DriverFactory = import_module(BUILT_IN[kind]).create
    elif kind in (installed := _entry_points()):
        factory = _of_package(installed[kind])
    else:
        if name not in config.agents:
            raise UnknownAgent(kind, names(config))
        known = [*BUILT_IN, *PRESETS, *_entry_points()]
        raise UnknownAgent(kind, known, field=f"agents.{name}.type" if "type" in config.agents[name] else "agent")
    driver = factory(name, options)
    if isinstance(driver, ObservesFeatures) and config.environ:
        driver.observed = ObservedAgents(paths.agents_file(config.environ))
    if not user:
        return driver
    if kind not in BUILT_IN or kind == "scripted" or "url" in options:  # nobody would see to it that it is so
        raise UsageError(
            f"agents.{name}: run_as is for agents that Tieline itself starts",
            field=f"agents.{name}.run_as",
            hint=NODE_HINT,
        )
    return RunAsDriver(driver, look_up_account(name, user))


def turn_timeout_s(name: str, config: Config) -> float | None:
    """The configured limit of a turn, where it is not the driver that keeps it."""
    kind = str(config.agents.get(name, {}).get("type", name))
    return None if kind == "shell" else config.defaults(name).timeout_s


def _resolve_env(field: str, value: Any, config: Config) -> Any:
    """With the values of the variables that it refers to (`env:NAME`) in its strings and tables of strings."""
    if isinstance(value, Mapping):
        table = cast("Mapping[str, Any]", value)
        return {key: _resolve_env(f"{field}.{key}", each, config) for key, each in table.items()}
    if not isinstance(value, str) or not value.startswith(SECRET):
        return value
    variable = value.removeprefix(SECRET)
    if variable not in config.environ:
        hint = f"Set {variable} where Tieline is started, or correct {field}."
        raise UsageError(f"{field} refers to {variable}, which is not set", field=field, hint=hint)
    return config.environ[variable]


def parse_options(kind: type[O], name: str, options: Mapping[str, Any]) -> O:
    """A driver's options from the configuration; errors name the agent and the field."""
    try:
        return msgspec.convert(dict(options), kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"agents.{name}: {error}", field=f"agents.{name}") from None


def _of_package(point: "EntryPoint") -> DriverFactory:
    """What a package offers. Whatever goes wrong in it is told as its driver's failure."""

    def create(name: str, options: Mapping[str, Any]) -> Driver:
        try:
            return point.load()(name, options)
        except TielineError:
            raise
        except Exception as error:
            package = point.dist.name if point.dist else point.module
            raise AgentMissing(
                name,
                f"its driver cannot be loaded: {type(error).__name__}: {error}",
                hint=f"The driver is of the package {package}: install what it needs, or another version of it.",
            ) from error

    return create


def _entry_points() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # slow; only when a name is not ours or all are listed

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}
