"""Channels by configuration: an entry of `[[channels]]` becomes a channel.

`type` is a built-in one or an installed package's entry point in the group `tieline.channels`; `package` is an
installed module; `path` is a local file, loaded as a fresh module each time. Only what an entry names is ever imported.
A module offers `NAME`, `CONFIG` and `create` (see `channels.base`); its config is checked against CONFIG before
`create` runs.

Everything that can be wrong with an entry is a ChannelError that names the file, the channel and the field. A channel's
code runs with all the rights of this process: nothing here is a sandbox.
"""

import importlib
import itertools
import re
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct

from ... import environment
from ...channels.base import Channel, ChannelContext
from ...config import ChannelConfig
from ...envelopes import address
from ...errors import TielineError, UsageError
from .trust import ChannelCode, local_file, read_code

BUILT_IN: dict[str, str] = {
    "agent": "tieline.channels.agent",
    "webhook": "tieline.channels.webhook",
    "telegram": "tieline.channels.telegram",
    "notify": "tieline.channels.notify",
}
"""Type → its module."""

EXTRAS: dict[str, str] = {"aiogram": "tieline[telegram]", "aiohttp": "tieline[telegram]", "apprise": "tieline[notify]"}
"""A library that a built-in channel needs → what to install."""

ENTRY_POINTS = "tieline.channels"

_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]*)`(?: - at `\$\.?([^`]*)`)?")
_MISSING_FIELD = re.compile(r"missing required field `([^`]*)`(?: - at `\$\.?([^`]*)`)?")
_AT = re.compile(r"at `\$\.?([^`]*)`")
_METHODS = ("start", "stop", "deliver", "status")
_NAMES = ("id", "subject_prefix", "display_name")


_loads = itertools.count(1)


class LoadedChannel(NamedTuple):
    channel: Channel
    module: str  # for `forget`, when the channel is over


class ChannelError(UsageError):
    """An entry that cannot become a channel."""

    def __init__(self, channel: str, problem: str, *, source: str = "", field: str = "", hint: str = "") -> None:
        where = f"channels.{channel}" + (f".{field}" if field else "")
        super().__init__(f"{source}: {where}: {problem}" if source else f"{where}: {problem}", field=where, hint=hint)
        self.channel = channel
        self.problem = problem


def build(
    entry: ChannelConfig, context: ChannelContext, *, source: str = "", code: ChannelCode | None = None
) -> LoadedChannel:
    """The channel of an entry, not yet started; `code` is what was read of it, if it was. Raises ChannelError. It
    imports: not for the event loop's thread."""
    check_entry(entry, source)
    module = _module(entry, source, code)
    try:
        config = _config(entry, module, context.env, source)
        return LoadedChannel(_create(entry, module, config, context, source), module.__name__)
    except BaseException:
        unload(module.__name__)
        raise


def check(entry: ChannelConfig, context: ChannelContext, *, source: str = "") -> None:
    """Everything that can be said about an entry without running it. Raises ChannelError. It imports, too."""
    check_entry(entry, source)
    module = _module(entry, source)
    try:
        config = _config(entry, module, context.env, source)
        if context.sessions is not None or not getattr(module, "NEEDS_SESSIONS", False):
            _create(entry, module, config, context, source)
    finally:
        unload(module.__name__)


def check_entry(entry: ChannelConfig, source: str = "") -> None:
    """What can be said about an entry without loading anything."""
    if entry.problem:
        raise ChannelError(entry.id, entry.problem, source=source, field=_field_of(entry.problem))
    if not _ID.fullmatch(entry.id):
        problem = "an id has 1 to 64 lowercase letters, digits, - or _, and begins with a letter or digit"
        raise ChannelError(entry.id, problem, source=source, field="id")
    named = [name for name in ("type", "package", "path") if getattr(entry, name)]
    if len(named) != 1:
        problem = f"it has {' and '.join(named)}" if named else "it names no code"
        hint = "Give one of type, package and path."
        raise ChannelError(entry.id, problem, source=source, field=named[1] if named else "type", hint=hint)


def unload(module: str) -> None:
    """A local file's module is nobody's any more."""
    if module.startswith("tieline_channel_"):
        sys.modules.pop(module, None)


def known_types() -> list[str]:
    return sorted({*BUILT_IN, *_installed()})


# --- inside ------------------------------------------------------------------------------------------------


def _module(entry: ChannelConfig, source: str, code: ChannelCode | None = None) -> ModuleType:
    if entry.path:
        return _from_file(entry, source, code or read_code(entry, source))
    name, field = entry.package, "package"
    if entry.type:
        field = "type"
        if entry.type in BUILT_IN:
            name = BUILT_IN[entry.type]
        elif entry.type in (points := _installed()):
            name = points[entry.type]
        else:
            import difflib

            known = known_types()
            close = difflib.get_close_matches(entry.type, known, n=1)
            hint = f"Did you mean {close[0]}? " if close else ""
            hint += f"Known types: {', '.join(known)}. A package of your own is named by package."
            raise ChannelError(entry.id, f"unknown type {entry.type!r}", source=source, field="type", hint=hint)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if field == "package" and (name == missing or name.startswith(missing + ".")):
            problem = f"the package {name!r} is not installed"
        else:
            problem = f"{name} needs {missing!r}, which is not installed"
        raise ChannelError(entry.id, problem, source=source, field=field, hint=_install_hint(missing)) from None
    except Exception as error:
        raise ChannelError(
            entry.id, f"{name} cannot be loaded: {_describe(error)}", source=source, field=field
        ) from error


def _from_file(entry: ChannelConfig, source: str, code: ChannelCode) -> ModuleType:
    path = local_file(entry, source)
    if code.unreadable:
        problem = f"{path} cannot be read: {code.unreadable}"
        raise ChannelError(entry.id, problem, source=source, field="path")
    name = f"tieline_channel_{entry.id.replace('-', '_')}_{next(_loads)}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and pickling look a class's module up
    try:
        # From the bytes that were read, and trusted, not through the import system: its cache goes by whole seconds
        # and would give the old code for a file that was saved twice in one.
        exec(compile(code.content, str(path), "exec"), module.__dict__)
    except ModuleNotFoundError as error:
        unload(module.__name__)
        missing = error.name or str(error)
        problem = f"{path} needs {missing!r}, which is not installed"
        raise ChannelError(entry.id, problem, source=source, field="path", hint=_install_hint(missing)) from None
    except BaseException as error:
        unload(module.__name__)
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ChannelError(
            entry.id, f"{path} cannot be loaded: {_describe(error)}", source=source, field="path"
        ) from error
    return module


def _config(entry: ChannelConfig, module: ModuleType, env: Mapping[str, str], source: str) -> Struct:
    schema = getattr(module, "CONFIG", None)
    factory = getattr(module, "create", None)
    where = getattr(module, "__file__", "") or module.__name__
    field = next(name for name in ("path", "package", "type") if getattr(entry, name))
    if not callable(factory):
        problem = f"{where} offers no create(id, config, context)"
        raise ChannelError(entry.id, problem, source=source, field=field)
    if not (isinstance(schema, type) and issubclass(schema, Struct)):
        raise ChannelError(entry.id, f"{where} offers no CONFIG, a msgspec Struct", source=source, field=field)
    values: Any = _resolve_secrets(entry.id, dict(entry.config), env, source, "config")
    known: set[str] = {each.encode_name for each in msgspec.structs.fields(schema)}
    unknown: list[str] = sorted(set(values) - known)
    if unknown:  # a typo must not be silently without effect
        import difflib

        close = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"Did you mean {close[0]}? " if close else ""
        hint += f"It takes: {', '.join(sorted(known)) or 'nothing'}."
        raise ChannelError(entry.id, "no such setting", source=source, field=f"config.{unknown[0]}", hint=hint)
    try:
        return msgspec.convert(values, schema)
    except msgspec.ValidationError as error:
        setting = ".".join(part for part in ("config", _field_of(str(error))) if part)
        raise ChannelError(entry.id, str(error).partition(" - at `")[0], source=source, field=setting) from None
    except UsageError as error:  # its own __post_init__
        setting = f"config.{error.field}" if error.field else "config"
        raise ChannelError(entry.id, error.message, source=source, field=setting, hint=error.hint) from None


def _create(entry: ChannelConfig, module: ModuleType, config: Struct, context: ChannelContext, source: str) -> Channel:
    try:
        made: object = module.create(entry.id, config, context)
    except ModuleNotFoundError as error:
        missing = error.name or str(error)
        problem = f"it needs {missing!r}, which is not installed"
        raise ChannelError(entry.id, problem, source=source, hint=_install_hint(missing)) from None
    except UsageError as error:
        setting = f"config.{error.field}" if error.field else "config"
        raise ChannelError(entry.id, error.message, source=source, field=setting, hint=error.hint) from None
    except TielineError as error:
        raise ChannelError(entry.id, error.message, source=source, hint=error.hint) from error
    except Exception as error:
        raise ChannelError(entry.id, f"create failed: {_describe(error)}", source=source) from error
    wrong = [name for name in _METHODS if not callable(getattr(made, name, None))]
    wrong += [name for name in _NAMES if not isinstance(getattr(made, name, None), str)]
    if wrong:
        problem = f"create returned no valid channel: {', '.join(wrong)} missing"
        raise ChannelError(entry.id, problem, source=source)
    channel = cast(Channel, made)
    if channel.id != entry.id:
        raise ChannelError(entry.id, f"create returned a channel with the id {channel.id!r}", source=source)
    try:
        spelt = address(channel.subject_prefix)
    except UsageError as error:
        raise ChannelError(entry.id, f"its subject prefix is not an address: {error.message}", source=source) from None
    if spelt != channel.subject_prefix:
        raise ChannelError(entry.id, f"its subject prefix must be written {spelt!r}", source=source)
    return channel


def _resolve_secrets(id: str, value: Any, env: Mapping[str, str], source: str, setting: str) -> Any:
    """A value with each `env:NAME` replaced by the variable's value. `setting`: its path, for errors."""
    if isinstance(value, dict):
        items = cast(dict[str, Any], value).items()
        return {name: _resolve_secrets(id, each, env, source, f"{setting}.{name}") for name, each in items}
    if isinstance(value, list | tuple):
        return [_resolve_secrets(id, each, env, source, setting) for each in cast(list[Any], value)]
    if isinstance(value, str) and value.startswith(environment.SECRET):
        name = value.removeprefix(environment.SECRET)
        environment.hold(name)  # also of a configuration that came later than the agents' own
        if name not in env:
            problem = f"the variable {name} is not set"
            hint = "Set it in the environment of the hub, and restart the hub."
            raise ChannelError(id, problem, source=source, field=setting, hint=hint)
        return env[name]
    return value


def _field_of(error: str) -> str:
    """The setting that a msgspec error names, as it is written in TOML."""
    for pattern in (_UNKNOWN_FIELD, _MISSING_FIELD):
        if match := pattern.search(error):
            return ".".join(part for part in (match[2], match[1]) if part)
    match = _AT.search(error)
    return match[1] if match else ""


def _installed() -> dict[str, str]:
    from importlib.metadata import entry_points  # slow; only when a type is not ours

    return {point.name: point.module for point in entry_points(group=ENTRY_POINTS)}


def _install_hint(missing: str) -> str:
    top = missing.partition(".")[0]
    return f"Install it: pip install {EXTRAS.get(top, top)}"


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
