"""What the driver contract saw of each agent, kept in `drivers/seen_features.json`: agent → feature → version and test.

`make seen` runs the contract with all agents and writes the file; `pytest --record-seen FILE` adds what its tests saw.
Each test replaces what it saw before and leaves the rest, so that a part can be run alone. The tables in docs/agents.md
are made from it, and `drivers/test_seen_features.py` holds the drivers to it.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from tieline.cli.doc_generators.agents import Seen
from tieline.testing.driver_contract.base import SEEN

FILE = Path(__file__).parent / "drivers/seen_features.json"


Record = dict[str, dict[str, Seen]]
"""Agent → feature → where it was seen."""


def read(file: Path = FILE) -> Record:
    return msgspec.json.decode(file.read_bytes(), type=Record) if file.exists() else {}


def encode(record: Record) -> bytes:
    """In order: the same again is the same file."""
    return msgspec.json.format(msgspec.json.encode(record, order="sorted"), indent=1) + b"\n"


def exists(test: str) -> bool:
    """Whether there is still such a test: module, class and function."""
    module, *names = test.rsplit(".", 2)
    target: object = import_module(module)
    for name in names:
        target = getattr(target, name, None)
    return target is not None


class SeenFeatures:
    """A plugin of pytest's: hears the reports of all workers, and writes the file at the end."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._ran: set[str] = set()
        self._seen: list[tuple[str, str, Seen]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" or report.skipped:
            return
        test = report.nodeid.partition("[")[0].replace(".py::", ".").replace("::", ".").replace("/", ".")
        self._ran.add(test)
        for agent, version, feature in self._sightings(report) if report.passed else ():
            self._seen.append((agent, feature, Seen(version, test)))

    def _sightings(self, report: pytest.TestReport) -> Iterator[tuple[str, str, str]]:
        """Of agents that tell their version: a command line that somebody configures is not one of them."""
        for name, value in report.user_properties:
            if name == SEEN and (sighting := msgspec.convert(value, tuple[str, str, str]))[1]:
                yield sighting

    def pytest_sessionfinish(self) -> None:
        self._file.write_bytes(encode(self.merged(read(self._file))))

    def merged(self, record: Record) -> Record:
        """With what these tests saw, and without what they saw before and do not see any more."""
        kept = {
            agent: {feature: seen for feature, seen in features.items() if seen.test not in self._ran}
            for agent, features in record.items()
        }
        for agent, feature, seen in self._seen:
            features = kept.setdefault(agent, {})
            before = features.get(feature, seen)
            by_name = min(before, seen, key=lambda each: each.test)
            features[feature] = by_name if before.version == seen.version else seen
        return {agent: features for agent, features in kept.items() if features}
