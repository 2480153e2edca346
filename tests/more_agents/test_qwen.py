"""What takes long of Qwen's contract: all 27 policies, and the tests that start it again and again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.drivers.acp_contract import BINARIES, OnAgentsOfTheirOwn, agents
from tests.drivers.shared_acp_agents import SharedAcpAgents

from tieline.testing.policy_contract import PolicyContract, Web, loopback_web
from tieline.testing.rigs.qwen import QwenRig

pytestmark = pytest.mark.real
__all__ = ["agents"]


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def qwen(agents: SharedAcpAgents, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[QwenRig]:
    async with QwenRig(tmp_path_factory.mktemp("qwen"), BINARIES, agents.command(BINARIES / "qwen")) as rig:
        yield rig


@pytest.mark.asyncio(loop_scope="class")
class TestQwenPolicies(PolicyContract):
    @pytest_asyncio.fixture(loop_scope="class")
    async def rig(self, qwen: QwenRig, agents: SharedAcpAgents) -> AsyncIterator[QwenRig]:  # type: ignore[override]
        qwen.model.reset()
        yield qwen
        await agents.settled()

    @pytest_asyncio.fixture(loop_scope="class")
    async def web(self) -> AsyncIterator[Web]:  # type: ignore[override]
        async with loopback_web() as web:
            yield web


class TestQwenAlone(OnAgentsOfTheirOwn):
    test_spending = test_killed = None  # type: ignore[assignment] # by `make test`

    @pytest.fixture
    async def rig(self, tmp_path: Path) -> AsyncIterator[QwenRig]:  # type: ignore[override]
        async with QwenRig(tmp_path / "home", BINARIES) as rig:
            yield rig
