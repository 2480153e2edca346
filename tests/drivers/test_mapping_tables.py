"""The policy tables in the documents say what the drivers do, for all 27. (Codex's table has a test of its own.)"""

from pathlib import Path

import pytest

from tieline.config import Config
from tieline.drivers import registry
from tieline.policy import CAPABILITIES, LEVELS, Capability, every_policy

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
        ("openhands", "openhands.md", "every line"),
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


@pytest.mark.parametrize("row", ["shell", "file_write, network"])
def test_kimis_receipts_are_as_documented(row: str) -> None:
    """`refused`: nothing enforces it."""
    documented = dict(zip(LEVELS, cells((PAGES / "kimi.md").read_text(), row)[-3:], strict=True))
    driver = registry.create("kimi", Config())
    for policy in every_policy():
        for capability in CAPABILITIES:
            if capability in row.split(", "):
                line = driver.enforce(policy).of(capability)
                means = "refused" if line.means == "none" and line.level != "allow" else line.means
                assert means == documented[line.level], f"{capability}={line.level} in {policy}"


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_codex_acps_receipts_are_as_documented(capability: Capability) -> None:
    everything, other = cells((PAGES / "codex-acp.md").read_text(), capability)[-2:]
    driver = registry.create("codex-acp", Config())
    for policy in every_policy():
        allows_all = {policy.level(each) for each in CAPABILITIES} == {"allow"}
        assert driver.enforce(policy).of(capability).means == (everything if allows_all else other), policy
