"""What agents reported about themselves when they ran on this machine: `agents.json` in the state directory; and in
`agent-checks.json`, what `tieline agents test` saw them do.

It tells people what to expect of an agent. No decision depends on it: what an agent is asked for is checked against
what it reports when it starts. So an unreadable file counts as none, and one that cannot be written is only not
updated.
"""

import time
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from .base import Driver
from .model_list import ModelList, OffersModels
from .per_agent_file import PerAgentFile
from .run_as import RunAsDriver

MAX_FILE = 64 * 1024
MAX_VERSION = 100
REWRITE_S = 24 * 3600.0
"""The same again is written down after so long; not for every session."""

Basis = Literal["", "tested", "told", "unverified"]
"""On what an agent's features rest: Tieline's tests run it · it told them itself, here · its documentation alone: it
never ran here. Empty: its driver is not one of ours and does not say."""

Proof = Literal["tested", "seen", "unverified"]
"""How far an agent is known: Tieline's tests run it · it ran on this machine · neither."""

Family = Literal["image/*", "audio/*", "text/*", "application/*"]


Shown = Literal["deltas", "thinking", "plans", "diffs", "usage", "questions", "mcp_servers"]
"""Features of which an agent says nothing, and which are seen when they are used."""


class ObservedFeatures(Struct, frozen=True, kw_only=True):
    """Features in an agent's own word, and those that its sessions have shown."""

    resume: bool
    fork: bool
    attachments: tuple[Family, ...]
    model: bool | None = None  # None: it was not the occasion
    shown: tuple[Shown, ...] = ()


class Observation(Struct, frozen=True, kw_only=True):
    version: str
    features: ObservedFeatures
    when: float
    program: str  # what ran, as a digest: by the same name another program may run tomorrow


class CheckRecord(Struct, frozen=True, kw_only=True):
    """What an agent was seen to do, and not to do, when it was last checked on this machine: names of checks."""

    version: str
    passed: tuple[str, ...]
    failed: tuple[str, ...] = ()
    when: float
    path: str  # what ran: by the same name another program may run tomorrow


class CheckedAgents:
    """By agent's name. Without a file it is kept for as long as this lives."""

    def __init__(self, file: Path | None = None) -> None:
        self._records = PerAgentFile(file, CheckRecord, max_file=MAX_FILE)

    def get(self, name: str, path: str) -> CheckRecord | None:
        """The last time that this program was checked by this name."""
        return next((record for record in self._records.of(name) if record.path == path), None)

    def record(self, name: str, path: str, version: str, passed: tuple[str, ...], failed: tuple[str, ...]) -> None:
        """Never raises."""
        now = CheckRecord(version=version[:MAX_VERSION], passed=passed, failed=failed, when=time.time(), path=path)
        self._records.put(name, now)


class ObservedAgents:
    """By agent's name. Without a file it is kept for as long as this lives."""

    def __init__(self, file: Path | None = None) -> None:
        self._records = PerAgentFile(file, Observation, max_file=MAX_FILE)

    def get(self, name: str, program: str) -> Observation | None:
        """The last time that this program ran by this name."""
        return next((met for met in self._records.of(name) if met.program == program), None)

    def last(self, name: str) -> Observation | None:
        """The last time that anything ran by this name."""
        return next(iter(self._records.of(name)), None)

    def record(self, name: str, program: str, version: str, features: ObservedFeatures) -> None:
        """Never raises."""
        before = self.get(name, program)
        if before is not None and features.model is None:
            features = msgspec.structs.replace(features, model=before.features.model)
        if before is not None and before.version == version[:MAX_VERSION]:
            features = msgspec.structs.replace(features, shown=tuple(sorted({*before.features.shown, *features.shown})))
        now = Observation(version=version[:MAX_VERSION], features=features, when=time.time(), program=program)
        news = before is None or msgspec.structs.replace(now, when=before.when) != before
        self._records.put(name, now, write=news or now.when - (before.when if before else 0) > REWRITE_S)


@runtime_checkable
class ObservesFeatures(Protocol):
    """A driver of agents that say themselves what they can do."""

    observed: ObservedAgents

    @property
    def basis(self) -> Basis: ...

    @property
    def unverified(self) -> tuple[str, ...]:
        """Features that are claimed, and that neither the tests nor the agent itself confirmed."""
        ...


def offered_models(driver: Driver) -> ModelList | None:
    """What the agent told when it last ran in this process."""
    own = _unwrap(driver)
    return own.offered_models if isinstance(own, OffersModels) and own.offered_models.names else None


def features_basis(driver: Driver) -> Basis:
    own = _unwrap(driver)
    if isinstance(own, ObservesFeatures):
        return own.basis
    ours = type(own).__module__.startswith(f"{__package__}.")
    return "tested" if ours or own.tested else ""


def proof_of(driver: Driver) -> tuple[Proof, Observation | None]:
    """How far the agent is known, and what is known of its last run here where that is what it rests on."""
    own = _unwrap(driver)
    if own.tested:
        return "tested", None
    if isinstance(own, ObservesFeatures) and own.basis == "told":
        return "seen", own.observed.last(own.name)
    return "unverified", None


def unverified_features(driver: Driver) -> tuple[str, ...]:
    own = _unwrap(driver)
    features = driver.features.supported()
    return tuple(name for name in own.unverified if name in features) if isinstance(own, ObservesFeatures) else ()


def _unwrap(driver: Driver) -> Driver:
    """The agent's, whoever it runs as."""
    return driver.driver if isinstance(driver, RunAsDriver) else driver
