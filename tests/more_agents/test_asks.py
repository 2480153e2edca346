"""What the agents of this folder ask, on every surface, and the tools that they offer. Their rows are in tests/asks;
that none is missing is tested in tests/asks/test_complete.py, without the agents."""

from pathlib import Path

import pytest
from tests.asks.agents import MORE_CASTS, Cast
from tests.asks.test_matrix import play_on_every_surface
from tests.asks.test_tools import offered_tools
from tests.asks.words import TOOLS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("cast", MORE_CASTS, ids=[cast.agent for cast in MORE_CASTS]),
]


async def test_every_ask_is_whole_on_every_surface(cast: Cast, tmp_path: Path) -> None:
    wrong = await play_on_every_surface(cast, tmp_path)
    assert not wrong, "\n\n".join(wrong)


async def test_every_tool_is_known(cast: Cast, tmp_path: Path) -> None:
    assert await offered_tools(cast, tmp_path) == set(TOOLS[cast.agent])
