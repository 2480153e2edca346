"""What the agents of this folder ask, on every surface, and the tools that they offer. Their rows are in tests/asks;
that none is missing is tested in tests/asks/test_complete.py, without the agents."""

import pytest
import pytest_asyncio
from tests.asks.agents import MORE_CASTS
from tests.asks.conftest import surfaces
from tests.asks.stage import Played, play
from tests.asks.surfaces import Surfaces
from tests.asks.test_matrix import faults_on_every_surface
from tests.asks.words import TOOLS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="session")]
__all__ = ["surfaces"]


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=MORE_CASTS, ids=lambda cast: cast.agent)
async def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    return await play(request.param, tmp_path_factory.mktemp("asks"))


async def test_every_ask_is_whole_on_every_surface(played: Played, surfaces: Surfaces) -> None:
    wrong = await faults_on_every_surface(played, surfaces)
    assert not wrong, "\n\n".join(wrong)


async def test_every_tool_is_known(played: Played) -> None:
    assert played.tools == set(TOOLS[played.cast.agent])
