"""What Codex can ask over ACP: as Codex itself, but for more permissions, since no sandbox holds it there."""

from collections.abc import Sequence
from pathlib import Path

from tests.asks.rows import codex
from tests.asks.stage import Row
from tests.asks.words import KINDS, spoken

from tieline.script import Run


def rows(cwd: Path) -> Sequence[Row]:
    reading = Row(kind="command that reads", replies=([Run(f"cat {spoken()}")],), options=codex.OPTIONS)
    return (*(row for row in codex.rows(cwd) if row.kind in KINDS["codex-acp"]), reading)
