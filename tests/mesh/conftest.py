"""The mesh on real buses: a SQLite file, and a nats-server that the tests of one process share."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.bus.conftest import address

from tieline.bus import open_bus
from tieline.config import Config, RelayConfig
from tieline.mesh.mesh import Mesh
from tieline.mesh.records import Caller
from tieline.relay import Relay, Settings

BOUND = 60.0
OWNER = Caller(machine="here", person="owner")


@pytest.fixture(params=["sqlite", "nats"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[str, None]:
    async with address(request.param, tmp_path) as url:
        yield url


@asynccontextmanager
async def open_mesh(url: str, *, refused: list[str] | None = None, **options: Any) -> AsyncGenerator[Mesh, None]:
    """A mesh on a bus of its own; `options` are those of [relay]. What it refuses is added to `refused`."""

    def on_refused(who: str, why: str) -> None:
        if refused is not None:
            refused.append(why)

    config = Config(relay=RelayConfig(**options))
    async with (
        open_bus(url) as bus,
        Relay(bus, config, settings=Settings(stop_s=0.2, lease_s=30)) as relay,
        Mesh(bus, relay, machine="here", on_refused=on_refused) as mesh,
    ):
        yield mesh


@pytest.fixture
async def mesh(tmp_path: Path) -> AsyncGenerator[Mesh, None]:
    async with open_mesh(f"sqlite://{tmp_path}/bus.db") as mesh:
        yield mesh


def harness(session: str, harness: str = "claude-code", *, machine: str = "here", token: str = "") -> Caller:
    """A harness session, as the transport knows it."""
    return Caller(machine=machine, harness=harness, session=session, token=token)


async def within(awaitable: Awaitable[Any]) -> Any:
    async with asyncio.timeout(BOUND):
        return await awaitable
