"""The real agents in a real terminal: what the tests of integrations stand on."""

from pathlib import Path

import pytest

from tieline.script import Say
from tieline.testing.harness_terminals import HOMES

pytestmark = pytest.mark.real

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"


@pytest.mark.parametrize("harness", HOMES)
async def test_a_typed_prompt_is_answered_on_the_screen(harness: str, tmp_path: Path) -> None:
    async with HOMES[harness](tmp_path, BINARIES) as home:
        home.rig.play([Say("Hello from the model.")])
        async with home.terminal() as terminal:
            await terminal.submit("say hello")
            await terminal.shows("Hello from the model.")
    assert "say hello" in home.rig.heard()
