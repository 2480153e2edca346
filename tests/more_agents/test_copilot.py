"""What takes long of Copilot's contract: all 27 policies, and the tests that start it again and again."""

import pytest
from tests.drivers.acp_contract import OnAgentsOfTheirOwn, SharedPolicies, agents, shared_rig

from tieline.testing.rigs.acp import CopilotRig

pytestmark = pytest.mark.real
__all__ = ["agents", "shared_rig"]


@pytest.mark.asyncio(loop_scope="class")
class TestCopilotPolicies(SharedPolicies):
    RIG = CopilotRig


class TestCopilotAlone(OnAgentsOfTheirOwn):
    RIG = CopilotRig
    test_spending = test_killed = None  # type: ignore[assignment] # by `make test`
