"""A bus of each kind with sessions and their logs."""

from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest
from tests.bus.conftest import address

from tieline.bus import open_bus
from tieline.bus.base import Bus
from tieline.sessions.records import SESSIONS, SessionRecord


@pytest.fixture(params=["sqlite", "nats"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[str, None]:
    async with address(request.param, tmp_path / "bus") as url:
        yield url


@pytest.fixture
async def bus(url: str) -> AsyncGenerator[Bus, None]:
    async with open_bus(url) as opened:
        yield opened


@pytest.fixture
async def file_bus(tmp_path: Path) -> AsyncGenerator[Bus, None]:
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as opened:
        yield opened


async def add_session(
    bus: Bus, id: str, *, agent: str = "codex", cwd: str = "/home/someone/shop", title: str = ""
) -> None:
    record = SessionRecord(id=id, agent=agent, cwd=cwd, node="elsewhere", title=title)
    await bus.table(SESSIONS).put(id, msgspec.json.encode(record))
