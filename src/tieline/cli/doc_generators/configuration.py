"""`docs/configuration.md`, made from the types: `python -m tieline.cli.doc_generators.configuration`."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct

from ...config import (
    AgentEntry,
    ChannelConfig,
    Config,
    HubConfig,
    MeshConfig,
    PoolConfig,
    RelayConfig,
    ScheduleConfig,
    WatchdogConfig,
)
from ...config_schema import Key, keys, table_in, toml, type_words
from ...drivers.acp_presets import PRESETS as AGENT_PRESETS
from ...drivers.registry import BUILT_IN as DRIVERS
from ...policy import PRESETS
from ...relay.channel_plugins.loader import BUILT_IN as CHANNELS
from ...sessions.agent_specs import Warm

ABOVE = ("agents", "channels", "hub", "mesh", "pool", "relay", "schedules", "watchdog")
"""Keys of the whole file that are sections of their own."""

HEAD = """\
# Configuration

<!-- Made by `make docs` from the types in the code. Change the texts there. -->

`tieline.toml` lies in `$XDG_CONFIG_HOME/tieline` (`~/.config/tieline`), or where `$TIELINE_CONFIG` says. A file in the
working directory is never read: somebody else may have written it. Without a file every default below counts.

```toml
default_agent = "codex"
policy = "edits"

[agents.reviewer]
type = "shell"
command = ["my-agent", "{prompt}"]

[[channels]]
id = "phone"
type = "telegram"
[channels.config]
token = "env:TELEGRAM_TOKEN"
chats = [4711]
```

| command | what it does |
| --- | --- |
| `tieline config check` | says every mistake: file, line, key, and what to do. Exit status 2 if there is one |
| `tieline config show` | the values in effect, and where each comes from: default, file, environment |

A string `"env:NAME"` in the settings of a channel or an agent is the value of that variable of the hub's environment.
So a secret need not stand in the file, and agents do not inherit that variable.
"""

VARIABLES = {
    "TIELINE_CONFIG": "The configuration file.",
    "TIELINE_HOME": "State directory: bus, keys, logs. Default: `$XDG_STATE_HOME/tieline`, `~/.local/state/tieline`.",
    "TIELINE_HUB": "Address of a hub elsewhere, for the commands that talk to a hub.",
    "TIELINE_TOKEN": "Key of a device, for that hub.",
    "TIELINE_DEBUG": "`1`: errors come with a traceback.",
    "NO_COLOR": "Anything: no colours on the terminal.",
}


def reference() -> str:
    return "\n".join(_page()).rstrip() + "\n"


def tables() -> Iterator[tuple[str, str, type[Struct]]]:
    """Every table of the file: its heading, how it is written, and its type."""
    yield "The whole file", "", Config
    yield "The hub", "[hub]", HubConfig
    yield "The pool", "[pool]", PoolConfig
    yield "Agents that are started with the hub", "[[pool.warm]]", Warm
    yield "The watchdog", "[watchdog]", WatchdogConfig
    yield "The relay", "[relay]", RelayConfig
    yield "The mesh", "[mesh]", MeshConfig
    yield "Messages at their times", "[[schedules]]", ScheduleConfig
    yield "Agents", "[agents.NAME]", AgentEntry
    for kind, module in DRIVERS.items():
        options: type[Struct] = import_module(module).OPTIONS
        yield f"Agents of the type {kind}", "[agents.NAME]", options
        yield from _inner(options, "[agents.NAME.{}]", f"{kind}: {{}}")
    yield "Channels", "[[channels]]", ChannelConfig
    for kind, module in CHANNELS.items():
        config: type[Struct] = import_module(module).CONFIG
        yield f"Channels of the type {kind}", "[channels.config]", config
        yield from _inner(config, "[channels.config.{}]", f"{kind}: {{}}")


def listed(header: str, table: type[Struct]) -> list[Key]:
    """The keys of a table that are told there, and not elsewhere."""
    elsewhere: set[str] = set(ABOVE) if table is Config else set()
    if header == "[agents.NAME]" and table is not AgentEntry:
        elsewhere = {key.name for key in keys(AgentEntry)}
    return [key for key in keys(table) if key.name not in elsewhere]


def _inner(table: type[Struct], header: str, title: str) -> Iterator[tuple[str, str, type[Struct]]]:
    """Tables within a table, each type once."""
    seen: list[type[Struct]] = []
    for key in keys(table):
        inner, how = table_in(key.kind)
        if inner is not None and inner not in seen:
            seen.append(inner)
            table_name = f"{key.name}.NAME" if how == "named" else key.name
            yield title.format(key.name), header.format(table_name), inner


def _page() -> Iterator[str]:
    yield HEAD
    for title, header, table in tables():
        yield f"## {title}" if title in _CHAPTERS or not header else f"### {title}"
        yield ""
        yield from _about(header, table)
        yield from _rows(listed(header, table))
        yield ""
        if table is AgentEntry:
            names = ", ".join(f"`{name}`" for name in AGENT_PRESETS)
            yield f"ACP presets: {names}.\n"
    yield "## Policies\n"
    yield "A policy has a level for each of three capabilities. A preset is a policy by name:\n"
    yield "| preset | `file_write` | `shell` | `network` |\n| --- | --- | --- | --- |"
    for name, policy in PRESETS.items():
        yield f"| `{name}` | {policy.file_write} | {policy.shell} | {policy.network} |"
    yield "\n`allow`: the agent may. `ask`: a person decides each time. `deny`: it may not.\n"
    yield "## Environment\n"
    yield "| variable | meaning |\n| --- | --- |"
    for name, meaning in VARIABLES.items():
        yield f"| `{name}` | {meaning} |"


_CHAPTERS = ("The hub", "The pool", "The watchdog", "The relay", "Agents", "Channels")


def _about(header: str, table: type[Struct]) -> Iterator[str]:
    words = " ".join((table.__dict__.get("__doc__") or "").split())
    if header:
        words = f"`{header}`" + (f" · {words}" if words else "")
    yield words
    yield ""


def _rows(table_keys: Sequence[Key]) -> Iterator[str]:
    yield "| key | type | default | example | meaning |"
    yield "| --- | --- | --- | --- | --- |"
    for key in table_keys:
        default = "required" if key.required else _code(key.default)
        cells = (f"`{key.name}`", type_words(key.kind), default, _code(key.example), key.meaning)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _code(value: Any) -> str:
    if value is None or value in ("", (), {}) or isinstance(value, Struct):
        return "none"
    return f"`{toml(value)}`"


if __name__ == "__main__":
    print(reference(), end="")
