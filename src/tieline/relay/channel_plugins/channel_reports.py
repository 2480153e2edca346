"""The entries of the configuration, and how their channels are."""

from msgspec import Struct
from msgspec.structs import replace

from ...channels.base import ChannelStatus
from ...config import ChannelConfig, Config
from ...envelopes import ChannelState
from .loader import LoadedChannel

DEFAULT_AGENT_CHANNEL = ChannelConfig(id="agent", type="agent")
"""There without an entry: messages reach sessions in every hub."""


class ChannelReport(Struct, frozen=True, kw_only=True):
    """One entry of the configuration, and how its channel is."""

    id: str
    state: ChannelState
    source: str
    prefix: str = ""
    name: str = ""
    problem: str = ""
    hint: str = ""
    field: str = ""
    since: float = 0.0
    detail: ChannelStatus | None = None


class Changes(Struct, frozen=True, kw_only=True):
    """What a look at the configuration led to. With a `problem` the file was not understood, and nothing changed."""

    started: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()  # they wait for a person: what they would run, or have a right to, is new
    waiting: tuple[str, ...] = ()  # what that is, in words
    trusted: tuple[str, ...] = ()  # what a person agreed to with this look, in words
    problem: str = ""
    hint: str = ""


class ChannelSlot(Struct):
    """An entry and what became of it."""

    entry: ChannelConfig
    fingerprint: str = ""  # the fingerprint that was last made into a channel, or tried to
    loaded: LoadedChannel | None = None
    problem: str = ""
    hint: str = ""
    field: str = ""
    since: float = 0.0
    starting: str = ""  # the address that it will have
    untrusted: bool = False  # what the entry would bring in waits for a person


def entries(config: Config) -> dict[str, ChannelConfig]:
    """By their ids; one whose id is taken under another, as broken."""
    wanted: dict[str, ChannelConfig] = {}
    for entry in config.channels:
        if entry.id in wanted:
            spare = next(f"{entry.id} ({n})" for n in range(2, 10_000) if f"{entry.id} ({n})" not in wanted)
            wanted[spare] = replace(entry, problem="another channel has this id")
        else:
            wanted[entry.id] = entry
    if DEFAULT_AGENT_CHANNEL.id not in wanted and not any(entry.type == "agent" for entry in config.channels):
        wanted = {DEFAULT_AGENT_CHANNEL.id: DEFAULT_AGENT_CHANNEL, **wanted}
    return wanted


def build_report(id: str, slot: ChannelSlot) -> ChannelReport:
    entry = slot.entry
    source = next((f"{name} {value}" for name in ("type", "package", "path") if (value := getattr(entry, name))), "")
    report = ChannelReport(id=id, state="broken", source=source, problem=slot.problem, hint=slot.hint, field=slot.field)
    if slot.starting:
        return replace(report, state="starting", prefix=slot.starting)
    if slot.loaded is None and slot.untrusted:
        return replace(report, state="untrusted")
    if slot.loaded is None:
        return report if slot.problem or entry.enabled else replace(report, state="disabled")
    channel = slot.loaded.channel
    try:
        status = channel.status()
    except Exception as error:  # it is not our code
        status = ChannelStatus(state="failing", problem=f"status failed: {type(error).__name__}: {error}")
    return replace(
        report,
        state=status.state,
        prefix=channel.subject_prefix,
        name=channel.display_name,
        problem=slot.problem or status.problem,
        since=slot.since,
        detail=status,
    )
