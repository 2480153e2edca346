"""The configuration: the types of `tieline.toml`, and the loader that makes one frozen Config of it.

`tieline.toml` in `$XDG_CONFIG_HOME/tieline` (`~/.config/tieline`), or the file that `$TIELINE_CONFIG` names. Example:

    default_agent = "codex"
    policy = "edits"

    [agents.reviewer]
    type = "shell"
    command = ["my-agent", "--json"]

    [agents.claude-code]
    model = "opus"
    args = ["--add-dir", "../library"]
    env = { API_TIMEOUT_MS = "600000" }

    [agents.gemini]
    enabled = false
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, Struct

from . import paths
from .environment import SECRET, config_file, for_children, inherited
from .errors import UsageError

if TYPE_CHECKING:  # imported only where there is a file
    from .config_schema import Mistake
    from .toml_key_lines import KeyPath

QUOTES = 'Text stands in quotes: policy = "ask". A table begins with its name in brackets: [hub].'


def setting(meaning: str, *examples: Any, secret: bool = False) -> Meta:
    """What a key means, beside its type. `docs/configuration.md` and `tieline config` are made from it; the value of a
    secret is never shown."""
    return Meta(description=meaning, examples=list(examples), extra={"secret": secret})


MAX_PORT = 65535


class HubConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The hub: where it listens, and who may reach it."""

    host: Annotated[
        str, setting("Address to listen on. Beyond this machine it needs TLS, or `insecure`.", "0.0.0.0")
    ] = "127.0.0.1"
    port: Annotated[int, setting("Port to listen on. 0 takes a free one.", 8137)] = 8137
    public_url: Annotated[
        str, setting("Address that people use when a proxy stands in front of the hub.", "https://hub.example")
    ] = ""
    hosts: Annotated[
        tuple[str, ...], setting("Further names by which the hub may be called (the `Host` header).", ("box.lan",))
    ] = ()
    origins: Annotated[
        tuple[str, ...],
        setting("Further origins whose pages may call the hub (the `Origin` header).", ("https://panel.example",)),
    ] = ()
    insecure: Annotated[bool, setting("Listen beyond this machine without TLS, on a network you trust.", True)] = False
    tls_certificate: Annotated[str, setting("File with the certificate chain (PEM).", "/etc/tieline/cert.pem")] = ""
    tls_key: Annotated[str, setting("File with the certificate's private key (PEM).", "/etc/tieline/key.pem")] = ""
    keep_events_days: Annotated[float, setting("Days that events are kept. 0 keeps them for good.", 30.0)] = 30.0
    traces: Annotated[
        str,
        setting("OTLP endpoint for OpenTelemetry traces. Needs the extra `tieline[traces]`.", "http://127.0.0.1:4318"),
    ] = ""
    push_contact: Annotated[
        str, setting("Contact that push services are told: `mailto:…` or `https:…`.", "mailto:you@example.com")
    ] = ""
    push_loopback: Annotated[bool, setting("Also push to `http://127.0.0.1`. For tests only.", True)] = False


class PoolConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pool keeps agents started, so that a turn begins at once."""

    number: Annotated[int, setting("Agents kept ready, at most. 0 switches the pool off.", 4)] = 4
    memory_mb: Annotated[int, setting("Memory that the agents of the pool may use together, in MB.", 2000)] = 2000
    age_s: Annotated[float, setting("Seconds after which an unused agent is ended.", 900.0)] = 900.0
    warm: Annotated[
        tuple[Mapping[str, Any], ...],
        setting("Agents to start with the hub; `[[pool.warm]]` below.", ({"cwd": "/home/me/shop", "agent": "codex"},)),
    ] = ()


class WatchdogConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The watchdog reports an agent that gives no sign of life."""

    quiet_s: Annotated[float, setting("Seconds of silence in a turn after which the agent is reported.", 600.0)] = 600.0
    agents: Annotated[Mapping[str, float], setting("The same for single agents.", {"codex": 1200.0})] = {}


class RelayConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The relay delivers messages. The first three keys are the budget of a message whose sender names none.

    A rule of `allow` and `deny` is `"FROM -> TO"`. Both are patterns of addresses: `*` stands for one part, `>` for the
    rest. `deny` counts more than `allow`."""

    max_hops: Annotated[int, setting("How often a message may be passed on.", 8)] = 8
    ttl_s: Annotated[float, setting("Seconds after which a message is of no use.", 3600.0)] = 3600.0
    calls: Annotated[int, setting("Messages and turns that may come of a message.", 32)] = 32
    rate_per_minute: Annotated[int, setting("Messages that one sender may send per minute. 0: no limit.", 600)] = 600
    mailbox: Annotated[int, setting("Messages that may wait for one address.", 1000)] = 1000
    keep_unread_s: Annotated[float, setting("Seconds that unread mail is kept.", 7 * 86400.0)] = 7 * 86400.0
    keep_dead_s: Annotated[float, setting("Seconds that dead letters are kept.", 30 * 86400.0)] = 30 * 86400.0
    keep_s: Annotated[
        float,
        setting("Seconds that messages that are over are kept, with their receipts.", 7 * 86400.0),
    ] = 7 * 86400.0
    allow: Annotated[
        tuple[str, ...],
        setting("Rules: who may send to whom. Empty: everybody to everybody.", ("relay.user.> -> relay.agent.>",)),
    ] = ()
    deny: Annotated[
        tuple[str, ...], setting("Rules: who may not send to whom.", ("relay.webhook.> -> relay.agent.private.>",))
    ] = ()


class MeshConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Agents that people run in harnesses exchange messages. When an agent has not taken a message for a while, people
    are notified."""

    notify_after_s: Annotated[
        float, setting("Seconds after which people are notified of a message that an agent has not taken.", 120.0)
    ] = 30.0
    notify: Annotated[
        bool, setting("Notify by push to your devices and by all channels of the type `notify`.", False)
    ] = True
    desktop: Annotated[
        bool, setting("Notify on this machine's desktop, where it has `notify-send` or `osascript`.", False)
    ] = True


class ChannelConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A channel delivers messages to one kind of endpoint. One of `type`, `package` and `path` names its code."""

    id: Annotated[
        str, setting("Name of the channel, part of its address: lowercase letters, digits, - and _.", "phone")
    ]
    type: Annotated[
        str,
        setting("`agent`, `webhook`, `telegram`, `notify`, or a type that an installed package offers.", "telegram"),
    ] = ""
    package: Annotated[str, setting("An installed Python module.", "my_channel")] = ""
    path: Annotated[
        str, setting("A Python file. A relative path counts from the configuration file.", "channels/folder.py")
    ] = ""
    enabled: Annotated[bool, setting("`false`: the channel is neither loaded nor started.", False)] = True
    config: Annotated[
        Mapping[str, Any], setting("Settings of this kind of channel, below.", {"token": "env:TELEGRAM_TOKEN"})
    ] = {}
    problem: str = ""  # set by the loader: the entry was not understood, and only its channel does not run


class ScheduleConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message that is sent at its times. It has `every_s` or `at`."""

    id: Annotated[str, setting("Name of the schedule: lowercase letters, digits and -.", "morning")]
    to: Annotated[str, setting("Address that the message is sent to.", "relay.agent.shop.bob")]
    text: Annotated[str, setting("Text of the message.", "What changed since yesterday?")]
    every_s: Annotated[float, setting("Seconds between two messages.", 3600.0)] = 0.0
    at: Annotated[str, setting("Time of this machine's clock.", "07:30")] = ""
    days: Annotated[
        tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...],
        setting("With `at`: only on these days. Empty: every day.", ("mon", "fri")),
    ] = ()
    answer_to: Annotated[
        str, setting("Address that the answer is sent to. Empty: no answer is awaited.", "relay.telegram.phone.4711")
    ] = ""
    enabled: Annotated[bool, setting("`false`: nothing is sent.", False)] = True

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", self.id):
            raise ValueError(f"the id of a schedule has lowercase letters, digits and -, not {self.id!r}")
        if bool(self.every_s) == bool(self.at):
            raise ValueError(f"schedule {self.id}: give either every_s or at")
        if self.every_s and self.every_s < 1:
            raise ValueError(f"schedule {self.id}: every_s is at least 1")
        if self.at and not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", self.at):
            raise ValueError(f"schedule {self.id}: at is a time such as 07:30, not {self.at!r}")
        if self.days and not self.at:
            raise ValueError(f"schedule {self.id}: days need a time (at)")


class AgentDefaults(Struct, frozen=True, kw_only=True):
    """What [agents.NAME] says for each session of that agent, unless the session or the prompt says something else."""

    model: Annotated[str, setting("Model of its sessions, by the agent's own name.", "opus")] = ""
    effort: Annotated[str, setting("Effort of its sessions, by the agent's own name.", "high")] = ""
    system: Annotated[str, setting("Text added to the system instruction of its sessions.", "Answer in French.")] = ""
    timeout_s: Annotated[float | None, setting("Seconds that a turn may take.", 600.0)] = None


class AgentEntry(AgentDefaults, frozen=True, kw_only=True):
    """An agent by a name of yours, or other settings for a known one. Beside these keys it takes those of its type.

    A session or a prompt that says something else counts more."""

    type: Annotated[
        str,
        setting(
            "Driver: `claude-code`, `codex`, `opencode`, `acp`, `shell`, `scripted`, the name of an ACP preset, or one "
            "that an installed package offers. A known agent that has only keys of this table needs none.",
            "shell",
        ),
    ] = ""
    enabled: Annotated[bool, setting("`false`: the agent is shown as off, and refused.", False)] = True
    run_as: Annotated[str, setting("User that the agent runs as, where Tieline runs as root (Linux).", "agents")] = ""
    args: Annotated[tuple[str, ...], setting("Arguments added to the agent's own.", ("--add-dir", "../library"))] = ()
    env: Annotated[
        Mapping[str, str],
        setting("Variables added to the agent's environment.", {"API_TIMEOUT_MS": "600000"}, secret=True),
    ] = {}


DRIVERS_OWN = frozenset({"args", "env"})
"""Common keys that each driver checks itself: a mistake there stops its own agent only."""
COMMON = frozenset(AgentEntry.__struct_fields__) - {"type"}
"""The keys of [agents.NAME] that every agent has. With these alone it needs no type: it is a known agent's name."""


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything in one file. A file may be empty: every key has a default."""

    default_agent: Annotated[str, setting("Agent of new sessions that name none.", "codex")] = ""
    policy: Annotated[str, setting("Policy of new sessions that name none; see [policies](#policies).", "edits")] = (
        "ask"
    )
    agents: Annotated[
        Mapping[str, Mapping[str, Any]],
        setting("Agents by name; `[agents.NAME]` below.", {"gemini": {"enabled": False}}),
    ] = {}
    bus: Annotated[
        str,
        setting(
            "Where everything is stored: `sqlite:///FILE` or `nats://HOST:PORT`. Empty: a file in the state directory.",
            "nats://127.0.0.1:4222",
        ),
    ] = ""
    hub: HubConfig = HubConfig()
    pool: PoolConfig = PoolConfig()
    watchdog: WatchdogConfig = WatchdogConfig()
    relay: RelayConfig = RelayConfig()
    mesh: MeshConfig = MeshConfig()
    channels: tuple[ChannelConfig, ...] = ()
    schedules: tuple[ScheduleConfig, ...] = ()
    environ: Mapping[str, str] = {}  # set by the loader: the process's environment
    source: str = ""  # set by the loader: the file it came from

    def defaults(self, agent: str) -> AgentDefaults:
        """Raises UsageError that names the agent and the field."""
        entry = self.agents.get(agent, {})
        values = {key: entry[key] for key in AgentDefaults.__struct_fields__ if key in entry}
        try:
            defaults = msgspec.convert(values, AgentDefaults)
        except msgspec.ValidationError as error:
            raise UsageError(f"agents.{agent}: {error}", field=f"agents.{agent}") from None
        if defaults.timeout_s is not None and defaults.timeout_s <= 0:
            field = f"agents.{agent}.timeout_s"
            problem = f"{field}: {defaults.timeout_s:g} s must be more than 0"
            raise UsageError(problem, field=field, hint="Leave it out for the default.")
        return defaults

    def bus_url(self) -> str:
        return self.bus or f"sqlite://{paths.bus_file(self.environ)}"

    def for_children(self) -> dict[str, str]:
        """The environment that agents inherit: without Tieline's own variables and the file's secrets."""
        secrets: set[str] = set()
        _references([entry.config for entry in self.channels], secrets)
        _references(self.agents, secrets)
        return for_children(self.environ, secrets)


def _references(value: Any, names: set[str]) -> None:
    """Collect the variables that `env:NAME` names, at any depth."""
    if isinstance(value, str):
        if value.startswith(SECRET):
            names.add(value.removeprefix(SECRET))
    elif isinstance(value, Mapping):
        _references(list(cast("Mapping[str, Any]", value).values()), names)
    elif isinstance(value, list | tuple):
        for each in cast("list[Any]", value):
            _references(each, names)


def load(*, environ: Mapping[str, str] | None = None) -> Config:
    """Raises UsageError that names the file, the line and the key."""
    env = inherited() if environ is None else dict(environ)
    file = config_file(env)
    if not file:
        return Config(environ=env)
    from .toml_key_lines import dotted, key_lines

    path = Path(file)
    text, content = read(path)
    wrong = mistakes_in(content)
    if wrong:
        first, *others = wrong
        key = dotted(first.path)
        # Not how many: it also looks at channels, and at values that only the parts which use them understand.
        more = " (there are more: `tieline config check` lists all)" if others else ""
        message = f"{file_and_line(path, first.path, key_lines(text))}: {key}: {first.problem}{more}"
        raise UsageError(message, field=key, hint=first.hint)
    if isinstance(content.get("channels"), list):
        content["channels"] = [_channel(entry, number) for number, entry in enumerate(content["channels"])]
    return msgspec.convert({**content, "environ": env, "source": str(path)}, Config)


def read(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a configuration file, and what TOML makes of it. Raises UsageError."""
    import tomllib  # only where there is a file

    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{path}: the file cannot be read: {error.strerror}", field="config") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: this is not valid TOML: it is not UTF-8: {error.reason}", field="config") from None
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).partition(" (at line ")
        line = f":{where.partition(',')[0]}" if where else ""
        raise UsageError(f"{path}{line}: this is not valid TOML: {what}", field="config", hint=QUOTES) from None


def file_and_line(path: Path | str, key: "KeyPath", lines: "dict[KeyPath, int]") -> str:
    """`FILE:LINE`, as editors and terminals understand it."""
    from .toml_key_lines import line_of

    line = line_of(key, lines)
    return f"{path}:{line}" if line else str(path)


def mistakes_in(content: Mapping[str, Any]) -> "list[Mistake]":
    """What is wrong with a file by its types. Not in the entries of [[channels]]: a bad one stops only its channel."""
    from .config_schema import mistakes

    rest = {key: value for key, value in content.items() if key != "channels" or not isinstance(value, list)}
    return [*mistakes(rest, Config), *_agent_mistakes(content.get("agents"))]


def _agent_mistakes(agents: Any) -> "Iterator[Mistake]":
    """Mistakes in the keys that every agent has; its driver checks the others."""
    from .config_schema import Mistake, mistakes, nearest_key

    if not isinstance(agents, dict):
        return
    for name, agent in cast("dict[str, Any]", agents).items():
        if not isinstance(agent, dict):
            continue  # reported already
        entry = cast("dict[str, Any]", agent)
        common = {key: value for key, value in entry.items() if key not in DRIVERS_OWN}
        yield from mistakes(common, AgentEntry, ("agents", name))
        limit = entry.get("timeout_s")
        if isinstance(limit, int | float) and limit <= 0:
            problem = f"{limit:g} s must be more than 0"
            yield Mistake(("agents", name, "timeout_s"), problem, "Leave it out for the default.")
        own = [key for key in entry if key not in COMMON] if "type" not in entry else []
        meant = {key: hint for key in own if (hint := nearest_key(key, sorted(COMMON)))}
        for key, hint in meant.items():
            yield Mistake(("agents", name, key), "unknown key", hint)
        if set(own) - set(meant):
            hint = 'Say which driver it uses, for example type = "shell".'
            yield Mistake(("agents", name), "it has no type", hint)


def _channel(entry: Any, number: int) -> ChannelConfig:
    """One entry of [[channels]]. A bad one is kept with its problem, so that the others are served."""
    named = entry.get("id") if isinstance(entry, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    id = named if isinstance(named, str) and named else f"number {number + 1}"
    if isinstance(entry, dict) and "problem" in entry:
        return ChannelConfig(id=id, problem="Object contains unknown field `problem`")
    try:
        return msgspec.convert(entry, ChannelConfig)
    except msgspec.ValidationError as error:
        return ChannelConfig(id=id, problem=str(error))
