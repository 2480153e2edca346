"""The entries of the configuration, and how their channels are."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ..channels.base import ChannelStatus
from ..config import ChannelConfig
from .plugins import Built

State = Literal["running", "failing", "starting", "stopped", "broken", "disabled"]


class ChannelReport(Struct, frozen=True, kw_only=True):
    """One entry of the configuration, and how its channel is."""

    id: str
    state: State
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
    problem: str = ""
    hint: str = ""


class Slot(Struct):
    """An entry and what became of it."""

    entry: ChannelConfig
    mark: str = ""  # the fingerprint that was last made into a channel, or tried to
    built: Built | None = None
    problem: str = ""
    hint: str = ""
    field: str = ""
    since: float = 0.0
    starting: str = ""  # the address that it will have


def report(id: str, slot: Slot) -> ChannelReport:
    entry = slot.entry
    source = next((f"{name} {value}" for name in ("type", "package", "path") if (value := getattr(entry, name))), "")
    found = ChannelReport(id=id, state="broken", source=source, problem=slot.problem, hint=slot.hint, field=slot.field)
    if slot.starting:
        return replace(found, state="starting", prefix=slot.starting)
    if slot.built is None:
        return found if slot.problem or entry.enabled else replace(found, state="disabled")
    channel = slot.built.channel
    try:
        status = channel.status()
    except Exception as error:  # it is not our code
        status = ChannelStatus(state="failing", problem=f"status failed: {type(error).__name__}: {error}")
    return replace(
        found,
        state=status.state,
        prefix=channel.subject_prefix,
        name=channel.display_name,
        problem=slot.problem or status.problem,
        since=slot.since,
        detail=status,
    )
