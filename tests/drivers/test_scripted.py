"""The scripted driver against the contract."""

from pathlib import Path

import pytest

from tieline.testing.driver_contract import DriverContract
from tieline.testing.policy_contract import PolicyContract
from tieline.testing.rigs.scripted import ScriptedRig


class TestScripted(DriverContract):
    TURN_LIMIT_S = 1.0

    @pytest.fixture
    async def rig(self, tmp_path: Path) -> ScriptedRig:
        return ScriptedRig(tmp_path / "home")


class TestScriptedPolicies(PolicyContract):
    @pytest.fixture
    async def rig(self, tmp_path: Path) -> ScriptedRig:
        return ScriptedRig(tmp_path / "home")
