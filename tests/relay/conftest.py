"""Relays on real buses: a SQLite file, and a nats-server that the tests of one process share."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.bus.conftest import address

from tieline.bus import open_bus
from tieline.config import Config, RelayConfig
from tieline.envelopes import MessageReceipt
from tieline.relay import Relay, Settings

QUICK = Settings(first_wait_s=0.01, longest_wait_s=0.05, room_wait_s=0.02, breaker_open_s=0.05, stop_s=0.2, lease_s=30)
"""The same relay with short waits."""
BOUND = 60.0


@pytest.fixture(params=["sqlite", "nats"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[str, None]:
    async with address(request.param, tmp_path) as url:
        yield url


@asynccontextmanager
async def relaying(url: str, *, settings: Settings = QUICK, **options: Any) -> AsyncGenerator[Relay, None]:
    """A relay on a bus of its own; `options` are those of [relay]."""
    config = Config(relay=RelayConfig(**options))
    async with open_bus(url) as bus, Relay(bus, config, settings=settings) as relay:
        yield relay


@pytest.fixture
async def relay(tmp_path: Path) -> AsyncGenerator[Relay, None]:
    async with relaying(f"sqlite://{tmp_path}/bus.db") as relay:
        yield relay


async def over(relay: Relay, id: str) -> MessageReceipt:
    """Its receipt, once nothing more will come of its delivery."""
    return await until(relay, id, lambda receipt: receipt.over)


async def until(relay: Relay, id: str, true: Callable[[MessageReceipt], bool]) -> MessageReceipt:
    future: asyncio.Future[MessageReceipt] = asyncio.get_running_loop().create_future()

    def heard(receipt: MessageReceipt) -> None:
        if receipt.id == id and true(receipt) and not future.done():
            future.set_result(receipt)

    unsubscribe = relay.subscribe(heard)
    try:
        heard(await relay.status(id))
        async with asyncio.timeout(BOUND):
            return await future
    finally:
        unsubscribe()


def lose_lease(relay: Relay) -> None:
    """The next message that is stored finds the lease run out: nobody can say whether it will arrive."""

    def probe(moment: str) -> None:
        if moment == "after stored":
            relay.store.probe = None
            relay.lease._until = 0.0  # pyright: ignore[reportPrivateUsage]

    relay.store.probe = probe


async def within(awaitable: Awaitable[Any]) -> Any:
    async with asyncio.timeout(BOUND):
        return await awaitable


def states(receipt: MessageReceipt) -> list[str]:
    return [step.state for step in receipt.steps]
