"""OpenCode against the contracts: the real program over the scripted model."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tieline.api import open_session
from tieline.testing.driver_contract import DriverContract
from tieline.testing.policy_contract import PolicyContract, Web, loopback_web
from tieline.testing.rigs.opencode import OpenCodeRig

pytestmark = pytest.mark.real

PROGRAM = str(Path(__file__).parent.parent / "agents/node_modules/.bin/opencode")


@pytest.fixture
async def opencode(tmp_path: Path) -> AsyncIterator[OpenCodeRig]:
    async with OpenCodeRig(tmp_path / "home", PROGRAM) as rig:
        yield rig


class TestOpenCode(DriverContract):
    @pytest.fixture
    def rig(self, opencode: OpenCodeRig) -> OpenCodeRig:  # type: ignore[override]
        return opencode


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenCodeRig]:
    """One server for many sessions, as in real life. (A start takes five seconds.)"""
    home = tmp_path_factory.mktemp("opencode")
    async with (
        OpenCodeRig(home / "home", PROGRAM) as rig,
        open_session(rig.driver, cwd=home, policy="full", **rig.options),
    ):
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
