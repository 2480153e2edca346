"""A relay on a SQLite file with one channel of the kind under test, made as the configuration would make it."""

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.relay.conftest import BOUND, QUICK

from tieline.bus import open_bus
from tieline.channels.base import AskService, Channel, ChannelContext, DeliveryContext
from tieline.config import ChannelConfig, Config, RelayConfig
from tieline.envelopes import DeadLetter, Envelope
from tieline.relay import Relay, Settings
from tieline.relay.channel_plugins.loader import build

IMPORTS_AIOGRAM = pytest.mark.timeout(300)
"""The first of these in a process imports aiogram: six seconds of work, and a minute where many want the processor."""

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
OTHER = "whsec_" + base64.b64encode(b"another secret of thirty-two byt").decode()


@asynccontextmanager
async def relay_with(
    path: Path, *channels: tuple[str, str, dict[str, Any]], settings: Settings = QUICK, **relay: Any
) -> AsyncGenerator[Relay, None]:
    """`channels` are (id, type, config)."""
    config = Config(relay=RelayConfig(**relay))
    async with open_bus(f"sqlite://{path}/bus.db") as bus, Relay(bus, config, settings=settings) as running:
        for id, kind, own in channels:
            await running.register(await made(path, id, kind, own))
        yield running


async def made(path: Path, id: str, kind: str, own: dict[str, Any], *, asks: AskService | None = None) -> Channel:
    around = ChannelContext(state_dir=str(path / "channels"), asks=asks)
    entry = ChannelConfig(id=id, type=kind, config=own)
    return (await asyncio.to_thread(build, entry, around)).channel


class Desk:
    """An endpoint that keeps what it is given."""

    def __init__(self, relay: Relay, subject: str = "relay.desk", answer: str = "") -> None:
        self.got: asyncio.Queue[Envelope] = asyncio.Queue()
        self._answer = answer
        relay.serve(subject, self._take, prefix=True)

    async def _take(self, envelope: Envelope, context: DeliveryContext) -> str:
        self.got.put_nowait(envelope)
        return self._answer

    async def next(self) -> Envelope:
        async with asyncio.timeout(BOUND):
            return await self.got.get()


async def dead_letter(relay: Relay, true: Callable[[DeadLetter], bool]) -> DeadLetter:
    """The first that fits, when it is there."""
    async with asyncio.timeout(BOUND):
        while True:
            for letter in await relay.dead_letters.list():
                if true(letter):
                    return letter
            await asyncio.sleep(0.02)
