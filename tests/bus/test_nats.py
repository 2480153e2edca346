"""The bus on a real nats-server: the contract."""

from collections.abc import AsyncGenerator

import pytest

from tieline.bus import Bus, open_bus
from tieline.testing.bus_contract import BusContract

from .conftest import NatsServer


@pytest.mark.slow
class TestNats(BusContract):
    @pytest.fixture
    def url(self, nats_server: NatsServer) -> str:
        return nats_server.url

    @pytest.fixture
    async def other(self, url: str) -> AsyncGenerator[Bus]:
        async with open_bus(url) as other:
            yield other
