"""The table of `tieline agents` at the widths of terminals."""

from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from tieline.cli.commands.agent_reports import AgentReport
from tieline.cli.commands.agents_table import print_table
from tieline.drivers.base import Features

ABLE = Features(model=True, resume=True, disallowed_tools=True, max_budget_usd=True, mcp_servers=True, thinking=True)
REPORTS = [
    AgentReport(name=name, found=True, version="2.1.325", signed_in=False, floor="2.1.325", tested="2.1.325",
                tested_version=True, proof="tested", features=ABLE)
    for name in ("claude-code", "codex")
]  # fmt: skip


@pytest.mark.parametrize("width", [66, 80, 120, 200])
def test_it_is_whole_and_low_at_every_width(width: int) -> None:
    out = StringIO()
    print_table(REPORTS, Console(file=out, width=width))
    text = out.getvalue()
    lines = [line.rstrip() for line in text.splitlines()]
    assert max(map(cell_len, lines)) <= width
    assert "…" not in text, "nothing is cut"
    for word in ("model", "max-budget-usd", "disallowed-tools", "mcp-servers", "thinking"):
        assert text.count(word) == 2
    assert len([line for line in lines if line]) <= 12, "what an agent can do is no column of one word per line"
    assert any("oldest" in line and "can" in line for line in lines) == (width > 100)
