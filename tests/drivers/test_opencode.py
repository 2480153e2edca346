"""OpenCode against the contracts: the real program over the scripted model."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.drivers.opencode_sessions import PROGRAM, kept_open

from tieline.testing.driver_contract import DriverContract
from tieline.testing.driver_contract.spending import SpendingContract
from tieline.testing.policy_contract import PolicyContract, Web, loopback_web
from tieline.testing.rig import Rig
from tieline.testing.rigs.opencode import OpenCodeRig

pytestmark = pytest.mark.real


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenCodeRig]:
    async with kept_open(tmp_path_factory.mktemp("opencode")) as rig:
        yield rig


@pytest.mark.asyncio(loop_scope="class")
class TestOpenCode(DriverContract):
    """All but those that end the server, on one server."""

    test_killed = test_no_process_left = test_spending = None  # type: ignore[assignment]

    @pytest_asyncio.fixture(loop_scope="class")
    async def rig(self, server: OpenCodeRig) -> Rig:  # type: ignore[override]
        return server.borrow()


class TestOpenCodeAlone(SpendingContract):
    """Those that look at, or kill, the agent's process: each with a server of its own."""

    test_killed = DriverContract.test_killed
    test_no_process_left = DriverContract.test_no_process_left

    @pytest.fixture
    async def rig(self, tmp_path: Path) -> AsyncIterator[Rig]:  # type: ignore[override]
        async with OpenCodeRig(tmp_path / "home", PROGRAM) as rig:
            yield rig


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenCodeRig]:
    async with kept_open(tmp_path_factory.mktemp("opencode")) as rig:
        yield rig


@pytest.mark.asyncio(loop_scope="module")
class TestOpenCodePolicies(PolicyContract):
    """All on one server: the policy is the session's."""

    @pytest_asyncio.fixture(loop_scope="module")
    async def rig(self, shared: OpenCodeRig) -> OpenCodeRig:  # type: ignore[override]
        shared.model.reset()
        return shared

    @pytest_asyncio.fixture(loop_scope="module")
    async def web(self) -> AsyncIterator[Web]:  # type: ignore[override]
        async with loopback_web() as web:
            yield web
