"""What an agent may do: three capabilities, three levels each, and the receipt of how that is enforced.

A capability is about the agent's own tools of that kind: `file_write` is its edit and write tools, `shell` its
command tool, `network` its fetch and search tools. What a permitted shell can still do (write a file, open a
connection) is a matter of the agent's sandbox; the receipt says whether there is one.
"""

import sys
from collections.abc import Mapping
from itertools import product
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from .errors import UsageError, invalid_value

Level = Literal["allow", "ask", "deny"]
Capability = Literal["file_write", "shell", "network"]
LEVELS: tuple[Level, ...] = get_args(Level)
CAPABILITIES: tuple[Capability, ...] = get_args(Capability)

Means = Literal["sandbox", "rule", "prompt", "none"]
"""How a line of the policy is enforced.

sandbox: the operating system refuses · rule: the agent's own rule or mode refuses or permits ·
prompt: the agent asks us each time and we decide · none: nothing enforces it.
"""


class Policy(Struct, frozen=True, omit_defaults=False):
    """One level per capability. The default asks for everything."""

    file_write: Level = "ask"
    shell: Level = "ask"
    network: Level = "ask"

    def level(self, capability: Capability) -> Level:
        return getattr(self, capability)

    def __post_init__(self) -> None:
        for capability in CAPABILITIES:
            level = getattr(self, capability)
            if level not in LEVELS:
                raise invalid_value(f"policy {capability}", level, field=capability, accepted=LEVELS)


PRESETS: dict[str, Policy] = {
    "read-only": Policy(file_write="deny", shell="deny", network="deny"),
    "ask": Policy(),
    "edits": Policy(file_write="allow", shell="ask", network="ask"),
    "full": Policy(file_write="allow", shell="allow", network="allow"),
}


def preset(name: str) -> Policy:
    try:
        return PRESETS[name]
    except KeyError:
        raise UsageError(f"unknown policy {name!r}", field="policy", hint=f"Presets: {', '.join(PRESETS)}.") from None


def every_policy() -> list[Policy]:
    """All 27, in a fixed order."""
    return [Policy(*levels) for levels in product(LEVELS, repeat=3)]


class Enforcement(Struct, frozen=True, omit_defaults=True):
    """How one capability is really enforced."""

    level: Level
    means: Means
    note: str = ""


class Receipt(Struct, frozen=True):
    """What a driver made of a policy, per capability."""

    file_write: Enforcement
    shell: Enforcement
    network: Enforcement
    remains: tuple[str, ...] = ()  # what nothing of this holds, in sentences

    def __post_init__(self) -> None:
        if not self.remains:
            force_setattr(self, "remains", _remains(self))

    @classmethod
    def from_lines(cls, lines: Mapping[Capability, Enforcement]) -> "Receipt":
        return cls(lines["file_write"], lines["shell"], lines["network"])

    def of(self, capability: Capability) -> Enforcement:
        return getattr(self, capability)

    def unenforced(self) -> tuple[Capability, ...]:
        """Capabilities whose `deny` (or `ask`) nothing holds the agent to."""
        return tuple(c for c in CAPABILITIES if self.of(c).level != "allow" and self.of(c).means == "none")


def run_as(receipt: Receipt, user: str) -> Receipt:
    """The receipt of an agent that runs as another user than Tieline: the system enforces what Tieline cannot."""
    remarks = (
        f"The agent runs as the user {user}: a command that is allowed can do whatever {user} can on this machine. "
        "The system keeps it from Tieline's files, its socket and its processes.",
    )
    return replace(receipt, remains=remarks)


SUBREAPERS = sys.platform == "linux"
"""Whether this system keeps what an agent leaves behind below it."""


def _remains(receipt: Receipt) -> tuple[str, ...]:
    if receipt.shell.means == "sandbox":
        remarks = ["The agent and its sandbox run as your user: its commands are held by the sandbox alone."]
    elif receipt.shell.level == "deny":
        remarks = ["The agent runs as your user: the agent and Tieline hold it to this, not the system."]
    else:
        remarks = ["A command that is allowed can do whatever you can on this machine."]
    if not SUBREAPERS:
        remarks.append(
            "This system does not keep what a command leaves behind below its agent: "
            "a process that leaves its group and empties its environment is taken for yours."
        )
    return tuple(remarks)
