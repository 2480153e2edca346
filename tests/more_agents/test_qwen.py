"""What takes long of Qwen's contract: all 27 policies, and the tests that start it again and again."""

import pytest
from tests.drivers.acp_contract import OnAgentsOfTheirOwn, SharedPolicies, agents, shared_rig

from tieline.testing.rigs.acp import QwenRig

pytestmark = pytest.mark.real
__all__ = ["agents", "shared_rig"]


@pytest.mark.asyncio(loop_scope="class")
class TestQwenPolicies(SharedPolicies):
    RIG = QwenRig


class TestQwenAlone(OnAgentsOfTheirOwn):
    RIG = QwenRig
    test_spending = test_killed = None  # type: ignore[assignment] # by `make test`
