"""The policy tables in the documents say what the drivers do, for all 27. (Codex's table has a test of its own.)"""

from pathlib import Path

import pytest

from tieline.config import Config
from tieline.drivers import registry
from tieline.policy import CAPABILITIES, LEVELS, every_policy

PAGES = Path(__file__).parents[2] / "docs" / "drivers"


def cells(page: str, first: str) -> list[str]:
    """The row of the page's tables that begins with this cell."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in page.splitlines() if "|" in line]
    (row,) = [row for row in rows if row[0] == first]
    return row


@pytest.mark.parametrize(
    ("agent", "page", "row"),
    [
        ("claude-code", "claude-code.md", "receipt"),
        ("opencode", "opencode.md", "receipt"),
        ("gemini", "acp.md", "`gemini`, `opencode-acp`"),
        ("opencode-acp", "acp.md", "`gemini`, `opencode-acp`"),
        ("qwen", "qwen.md", "every line"),
        ("copilot", "copilot.md", "every line"),
        ("claude-agent-acp", "claude-agent-acp.md", "every line"),
        ("vibe", "vibe.md", "every line"),
        ("auggie", "auggie.md", "every line"),
        ("pi", "pi.md", "every line"),
    ],
)
def test_receipts_are_as_documented(agent: str, page: str, row: str) -> None:
    documented = dict(
        zip(LEVELS, (cell.strip("`") for cell in cells((PAGES / page).read_text(), row)[-3:]), strict=True)
    )
    driver = registry.create(agent, Config())
    for policy in every_policy():
        receipt = driver.enforce(policy)
        for capability in CAPABILITIES:
            line = receipt.of(capability)
            assert line.means == documented[line.level], f"{agent}: {capability}={line.level} in {policy}"
