"""The bus on a real nats-server: the contract."""

import pytest

from tieline.testing.bus_contract import BusContract

from .conftest import NatsServer


class TestNats(BusContract):
    @pytest.fixture
    def url(self, nats_server: NatsServer) -> str:
        return nats_server.url
