"""The tables of `docs/agents.md`: `python -m tieline.cli.doc_generators.agents docs/agents.md SEEN`. SEEN is what
the tests saw of each agent (tests/seen_features.py)."""

import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from ...config import Config
from ...drivers import registry
from ...drivers.acp_presets import NO_TOOL_SEEN
from ...drivers.base import Driver, StartsProgram
from ...policy import CAPABILITIES, Capability, Policy

BEGIN = "<!-- Made by `make docs` from what the tests saw of each agent (`make seen`), and from the other presets. -->"
END = "<!-- Here ends what `make docs` made. -->"
LEFT_OUT = ("scripted",)
"""No agent that people have."""
FEATURES = {
    "model": "model",
    "effort": "effort",
    "resume": "resume",
    "fork": "fork",
    "steer": "steer",
    "mcp_servers": "MCP servers",
    "attachments": "attachments",
    "thinking": "thinking",
    "questions": "questions",
    "plans": "plans",
    "diffs": "diffs",
    "usage": "usage",
    "system": "system text",
    "max_turns": "limit of model calls",
    "max_budget_usd": "limit of cost",
    "allowed_tools": "allowed tools",
    "disallowed_tools": "switched off tools",
}
"""Feature → its column."""


class Seen(Struct, frozen=True):
    """Where a feature was seen."""

    version: str
    test: str


SeenFeatures = Mapping[str, Mapping[str, Seen]]
"""Agent → feature → where."""


def agents() -> list[Driver]:
    """Of all that are built in. Nothing of this machine plays a part."""
    config = Config()
    drivers = [registry.create(name, config) for name in registry.names(config) if name not in LEFT_OUT]
    return sorted(drivers, key=lambda driver: not driver.tested)


def tables(seen: SeenFeatures) -> str:
    """Agent by feature, and how it is known; then which test of the contract saw a feature."""
    features = [["agent", "program", "known by", "asks before", *FEATURES.values()]]
    features += [_row(driver, seen.get(driver.name, {})) for driver in agents()]
    tests = [["feature", "seen in all agents that have a ✓ by"]]
    tests += [[column, _tests(name, seen)] for name, column in FEATURES.items()]
    return f"{_table(features)}\n\n{_table(tests)}"


def _table(rows: list[list[str]]) -> str:
    heads, *others = rows
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *others])


def _row(driver: Driver, seen: Mapping[str, Seen]) -> list[str]:
    program = f"`{driver.program.command[0]}`" if isinstance(driver, StartsProgram) else "–"
    known = f"tests with {driver.tested}" if driver.tested else "its documentation"
    marks = [_mark(name, driver, seen) for name in FEATURES]
    return [f"`{driver.name}`", program, known, _asks(driver), *marks]


def _mark(name: str, driver: Driver, seen: Mapping[str, Seen]) -> str:
    if name not in driver.features.supported():
        return "–"
    return "✓" if name in seen and seen[name].version == driver.tested else "?"


def _tests(name: str, seen: SeenFeatures) -> str:
    names = {features[name].test.rpartition(".")[2] for features in seen.values() if name in features}
    return ", ".join(f"`{each}`" for each in sorted(names))


def _asks(driver: Driver) -> str:
    """What a policy that asks is really held by."""
    receipt = driver.enforce(Policy("ask", "ask", "ask"))
    held: list[Capability] = [each for each in CAPABILITIES if receipt.of(each).means == "prompt"]
    seen = [capability for capability in held if NO_TOOL_SEEN not in receipt.of(capability).note]
    if len(seen) == len(CAPABILITIES):
        return "everything"
    unseen = "".join(f"; {capability}: had no tool for it" for capability in held if capability not in seen)
    return f"{', '.join(seen)}{unseen}" if held else "nothing that is promised"


def page(text: str, seen: bytes) -> str:
    """The page with its tables as they must be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables(msgspec.json.decode(seen, type=dict[str, dict[str, Seen]]))}\n\n{END}{after}"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(page(file.read_text(), Path(sys.argv[2]).read_bytes()))
