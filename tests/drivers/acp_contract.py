"""The contract for ACP agents, in two parts: what many tests ask of one process, and what takes starts of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from tests.drivers.shared_acp_agents import SharedAcpAgents

from tieline.testing.driver_contract import DriverContract
from tieline.testing.driver_contract.spending import SpendingContract
from tieline.testing.policy_contract import PolicyContract, Web, loopback_web

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def agents() -> AsyncIterator[SharedAcpAgents]:
    async with SharedAcpAgents() as agents:
        yield agents


class OnSharedAgents(DriverContract, PolicyContract):
    """All but those that look at, end or start the agent's process."""

    test_killed = test_no_process_left = test_spending = test_resume = test_warm = None  # type: ignore[assignment]

    @pytest_asyncio.fixture(loop_scope="class")
    async def web(self) -> AsyncIterator[Web]:  # type: ignore[override]
        async with loopback_web() as web:
            yield web


class OnAgentsOfTheirOwn(SpendingContract):
    """The others."""

    test_killed = DriverContract.test_killed
    test_no_process_left = DriverContract.test_no_process_left
    test_resume = DriverContract.test_resume
    test_warm = DriverContract.test_warm
