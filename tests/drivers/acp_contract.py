"""The contract for ACP agents, in two parts: what many tests ask of one process, and what takes starts of its own."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar, cast

import pytest
import pytest_asyncio
from tests.drivers.shared_acp_agents import SharedAcpAgents

from tieline.drivers.acp_presets import PRESETS
from tieline.testing.acp_rig import AcpRig
from tieline.testing.driver_contract import DriverContract
from tieline.testing.driver_contract.spending import SpendingContract
from tieline.testing.policy_contract import PolicyContract, Web, loopback_web

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def agents() -> AsyncIterator[SharedAcpAgents]:
    async with SharedAcpAgents() as agents:
        yield agents


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def shared_rig(
    request: pytest.FixtureRequest, agents: SharedAcpAgents, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[AcpRig]:
    """The rig of a class of tests, on agents that they share."""
    kind = cast("type[SharedPolicies]", request.cls)  # pyright: ignore[reportUnknownMemberType]
    home = tmp_path_factory.mktemp(kind.RIG.preset)
    program = kind.BINARIES / PRESETS[kind.RIG.preset].command[0]
    async with kind.RIG(home, kind.BINARIES, agents.command(program)) as rig:
        yield rig


class SharedPolicies(PolicyContract):
    """The policies, tried on shared processes. A subclass says whose."""

    RIG: ClassVar[type[AcpRig]]
    BINARIES: ClassVar[Path] = BINARIES

    @pytest_asyncio.fixture(loop_scope="class")
    async def rig(self, shared_rig: AcpRig, agents: SharedAcpAgents) -> AsyncIterator[AcpRig]:  # type: ignore[override]
        shared_rig.model.reset()
        yield shared_rig
        await agents.settled()

    @pytest_asyncio.fixture(loop_scope="class")
    async def web(self) -> AsyncIterator[Web]:  # type: ignore[override]
        async with loopback_web() as web:
            yield web


class OnSharedAgents(SharedPolicies, DriverContract):  # pyright: ignore[reportIncompatibleVariableOverride]
    """All but those that look at, end or start the agent's process."""

    test_killed = test_no_process_left = test_spending = test_resume = test_warm = None  # type: ignore[assignment]


class OnAgentsOfTheirOwn(SpendingContract):
    """The others."""

    RIG: ClassVar[type[AcpRig]]
    BINARIES: ClassVar[Path] = BINARIES

    @pytest.fixture
    async def rig(self, tmp_path: Path) -> AsyncIterator[AcpRig]:  # type: ignore[override]
        async with self.RIG(tmp_path / "home", self.BINARIES) as rig:
            yield rig

    test_killed = DriverContract.test_killed
    test_no_process_left = DriverContract.test_no_process_left
    test_resume = DriverContract.test_resume
    test_warm = DriverContract.test_warm
