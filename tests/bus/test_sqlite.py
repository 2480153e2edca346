"""The bus in a SQLite file: the contract, on a file and in memory."""

from pathlib import Path

import pytest

from tieline.bus.sqlite import record_query, transactions
from tieline.testing.bus_contract import BusContract
from tieline.testing.bus_contract.announcements import Ends
from tieline.testing.bus_contract.interleavings import InterleavingContract
from tieline.testing.bus_contract.publishing import PublishingContract
from tieline.testing.bus_contract.reading import ReadContract


class TestSqlite(BusContract):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite://{tmp_path}/bus.db"


class TestMemory(BusContract):
    @pytest.fixture
    def url(self) -> str:
        return "sqlite://:memory:"


class TestSmallSteps(PublishingContract, ReadContract, Ends, InterleavingContract):
    """The same with bounds so small that every way to find records, and every seam between them, is used."""

    @pytest.fixture
    def url(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(transactions, "INDEX_STEP", 7)
        monkeypatch.setattr(transactions, "TRIM_STEP", 3)
        monkeypatch.setattr(record_query, "WINDOW", 8)
        monkeypatch.setattr(record_query, "PROBE_COST", 1)
        monkeypatch.setattr(record_query, "MOST_SCANNED", 64)
        monkeypatch.setattr(record_query, "MOST_REMEMBERED", 2)
        monkeypatch.setattr(record_query, "CHUNK_RECORDS", 5)
        return f"sqlite://{tmp_path}/bus.db"
