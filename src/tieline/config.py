"""One frozen Config from TOML and the environment.

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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from .environment import SECRET, config_file, for_children, inherited
from .errors import UsageError


class HubConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[hub]"""

    host: str = "127.0.0.1"
    port: int = 8137
    public_url: str = ""  # where people reach it when a proxy stands in front
    hosts: tuple[str, ...] = ()  # further names it may be called by (the Host header)
    origins: tuple[str, ...] = ()  # further pages that may talk to it
    insecure: bool = False  # listen beyond loopback without TLS
    tls_certificate: str = ""
    tls_key: str = ""
    keep_events_days: float = 30.0  # 0: for good
    traces: str = ""  # an OTLP endpoint
    push_contact: str = ""  # whom push services may write to: mailto:… or https:…
    push_loopback: bool = False  # push to http://127.0.0.1 too; for tests alone


class PoolConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[pool]: conversations kept ready"""

    number: int = 4
    memory_mb: int = 2000
    age_s: float = 900.0
    warm: tuple[Mapping[str, Any], ...] = ()  # agent, cwd, policy, model: ready from the start


class WatchdogConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[watchdog]: when an agent is said to be stuck"""

    quiet_s: float = 600.0
    agents: Mapping[str, float] = {}  # per agent


class RelayConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[relay]"""

    max_hops: int = 8
    ttl_s: float = 3600.0
    calls: int = 32
    rate_per_minute: int = 600  # messages of one sender
    mailbox: int = 1000  # unread messages of one endpoint
    keep_unread_s: float = 7 * 86400.0
    keep_dead_s: float = 30 * 86400.0
    keep_s: float = 7 * 86400.0  # what is over: messages and their receipts
    allow: tuple[str, ...] = ()  # "from-pattern -> to-pattern"; empty: everybody may send to everybody
    deny: tuple[str, ...] = ()


class ChannelConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[channels]]: one of type, package and path says where its code is"""

    id: str
    type: str = ""
    package: str = ""
    path: str = ""
    enabled: bool = True
    config: Mapping[str, Any] = {}
    problem: str = ""  # the entry was not understood: only its channel does not run


class ScheduleConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[schedules]]: a message that is sent at its times"""

    id: str
    to: str  # an address, as relay.agent.shop.bob
    text: str
    every_s: float = 0.0  # so often; or
    at: str = ""  # at this time of the machine's clock, as "07:30"
    days: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...] = ()  # with `at`: only on these
    answer_to: str = ""  # the address that the answer goes to; empty: none is awaited
    enabled: bool = True

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", self.id):
            raise ValueError(f"the id of a schedule has small letters, digits and -, not {self.id!r}")
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

    model: str = ""
    effort: str = ""
    system: str = ""
    timeout_s: float | None = None  # of a turn


COMMON = frozenset({"enabled", "run_as", "args", "env", *AgentDefaults.__struct_fields__})
"""The keys of [agents.NAME] that every agent has. With these alone it needs no type: it is a known agent's name."""


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    default_agent: str = ""
    policy: str = "ask"
    agents: Mapping[str, Mapping[str, Any]] = {}  # name → its type and that driver's options
    bus: str = ""  # its URL; empty: a file of our own
    hub: HubConfig = HubConfig()
    pool: PoolConfig = PoolConfig()
    watchdog: WatchdogConfig = WatchdogConfig()
    relay: RelayConfig = RelayConfig()
    channels: tuple[ChannelConfig, ...] = ()
    schedules: tuple[ScheduleConfig, ...] = ()
    environ: Mapping[str, str] = {}
    source: str = ""  # the file it came from

    def defaults(self, agent: str) -> AgentDefaults:
        """Raises UsageError that names the agent and the field."""
        said = self.agents.get(agent, {})
        given = {key: said[key] for key in AgentDefaults.__struct_fields__ if key in said}
        try:
            found = msgspec.convert(given, AgentDefaults)
        except msgspec.ValidationError as error:
            raise UsageError(f"agents.{agent}: {error}", field=f"agents.{agent}") from None
        if found.timeout_s is not None and found.timeout_s <= 0:
            field = f"agents.{agent}.timeout_s"
            problem = f"{field}: {found.timeout_s:g} s is no time at all"
            raise UsageError(problem, field=field, hint="Leave it out for the default.")
        return found

    def for_children(self) -> dict[str, str]:
        """The environment that agents inherit: without what this configuration refers to, and what is our own."""
        held: set[str] = set()
        _references([entry.config for entry in self.channels], held)
        _references(self.agents, held)
        return for_children(self.environ, held)


def _references(value: Any, found: set[str]) -> None:
    """The variables that are named by `env:NAME`, however deep."""
    if isinstance(value, str):
        if value.startswith(SECRET):
            found.add(value.removeprefix(SECRET))
    elif isinstance(value, Mapping):
        _references(list(cast("Mapping[str, Any]", value).values()), found)
    elif isinstance(value, list | tuple):
        for each in cast("list[Any]", value):
            _references(each, found)


def load(*, environ: Mapping[str, str] | None = None) -> Config:
    """Raises UsageError that names the file and the field."""
    env = inherited() if environ is None else dict(environ)
    found = config_file(env)
    if not found:
        return Config(environ=env)
    path = Path(found)
    import tomllib  # only where there is a file

    try:
        content = tomllib.loads(path.read_text())
        if isinstance(content.get("channels"), list):
            content["channels"] = [_channel(entry, number) for number, entry in enumerate(content["channels"])]
        config = msgspec.convert({**content, "environ": env, "source": str(path)}, Config)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", field="config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}", field="config") from None
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}", field="config") from None
    for name, agent in config.agents.items():
        if not isinstance(agent.get("enabled", True), bool):
            raise UsageError(f"{path}: agents.{name}.enabled is true or false", field=f"agents.{name}.enabled")
        if not isinstance(agent.get("run_as", ""), str):
            raise UsageError(f"{path}: agents.{name}.run_as is a user's name", field=f"agents.{name}.run_as")
        config.defaults(name)
        if set(agent) <= COMMON:
            continue  # one that is known without it: switched on or off, or with settings that every agent has
        if not isinstance(agent.get("type"), str):
            raise UsageError(
                f"{path}: agents.{name} has no type",
                field=f"agents.{name}.type",
                hint='Say which driver it uses, for example type = "shell".',
            )
    return config


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
