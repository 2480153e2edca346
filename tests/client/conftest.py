"""A real hub, and our client of it."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.hub.conftest import Running, running

from tieline.client import Client


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncGenerator[Running, None]:
    async with running(tmp_path) as started:
        yield started


@pytest.fixture
async def client(hub: Running) -> AsyncGenerator[Client, None]:
    async with Client(hub.url, hub.token) as client:
        yield client
