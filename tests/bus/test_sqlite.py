"""The bus in a SQLite file: the contract, on a file and in memory."""

from pathlib import Path

import pytest

from tieline.testing.bus_contract import BusContract


class TestSqlite(BusContract):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite://{tmp_path}/bus.db"


class TestMemory(BusContract):
    @pytest.fixture
    def url(self) -> str:
        return "sqlite://:memory:"
