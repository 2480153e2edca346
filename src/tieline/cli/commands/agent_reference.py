"""The table of `docs/agents.md`: `python -m tieline.cli.commands.agent_reference docs/agents.md`."""

import sys
from pathlib import Path

from ...config import Config
from ...drivers import registry
from ...drivers.base import Driver, StartsProgram
from ...drivers.observed_features import proof_of
from ...policy import CAPABILITIES, Policy

BEGIN = "<!-- Made by `make docs` from the drivers and presets in the code. Change the facts there. -->"
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
}
"""Feature → its column."""
CLAIMED = {"tested": "✓", "seen": "✓", "unverified": "?"}


def table() -> str:
    """Agent by feature, and how it is known. Nothing of this machine plays a part."""
    config = Config()
    drivers = [registry.create(name, config) for name in registry.names(config) if name not in LEFT_OUT]
    heads = ["agent", "program", "known by", "asks before", *FEATURES.values()]
    rows = [_row(driver) for driver in sorted(drivers, key=lambda driver: not driver.tested)]
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(driver: Driver) -> list[str]:
    proof, _ = proof_of(driver)
    program = f"`{driver.program.command[0]}`" if isinstance(driver, StartsProgram) else "–"
    known = f"tests with {driver.tested}" if driver.tested else "its documentation"
    able = driver.features.supported()
    mark = CLAIMED[proof]
    return [f"`{driver.name}`", program, known, _asks(driver), *(mark if name in able else "–" for name in FEATURES)]


def _asks(driver: Driver) -> str:
    """What a policy that asks is really held by."""
    receipt = driver.enforce(Policy("ask", "ask", "ask"))
    held = [capability for capability in CAPABILITIES if receipt.of(capability).means == "prompt"]
    return "everything" if len(held) == len(CAPABILITIES) else ", ".join(held) or "nothing that is promised"


def page(text: str) -> str:
    """The page with its table as it must be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(page(file.read_text()))
