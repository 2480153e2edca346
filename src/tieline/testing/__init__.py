"""What driver authors need to test theirs: the contract suites, the scripted model, the rigs for real agents.

The suites need pytest and pytest-asyncio. A driver's test is one class:

    class TestMyDriver(DriverContract):
        @pytest.fixture
        async def rig(self, tmp_path): ...
"""
