"""What the tests of the stream share: a served hub on a real bus, and a client that keeps what it was told."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import websockets
from websockets.asyncio.client import ClientConnection, connect

from tieline.bus import open_bus
from tieline.bus.base import Bus
from tieline.config import Config
from tieline.hub.app import build
from tieline.hub.http.server import ServerAddress, serve
from tieline.hub.hub import Hub

BOUND_S = 30.0


class Served:
    def __init__(self, hub: Hub, serving: ServerAddress, device: str, token: str) -> None:
        self.hub = hub
        self.bus = hub.bus
        self.url = serving.url
        self.stream = serving.url.replace("http", "ws", 1) + "/api/v1/stream"
        self.device = device
        self.token = token


@asynccontextmanager
async def served(bus: Bus, home: Path, config: Config | None = None) -> AsyncGenerator[Served, None]:
    async with (
        Hub(bus, config or Config(), env={"TIELINE_HOME": str(home)}) as hub,
        serve(build(hub)) as serving,
    ):
        device, token = await hub.devices.add("client", "tests")
        yield Served(hub, serving, device.id, token)


@asynccontextmanager
async def on_sqlite(home: Path) -> AsyncGenerator[Served, None]:
    async with open_bus(f"sqlite://{home}/bus.db") as bus, served(bus, home) as hub:
        yield hub


class Client:
    """A WebSocket client. `frames` is all that it heard, in order."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.frames: list[dict[str, Any]] = []

    async def say(self, type: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": type, **fields}))

    async def hear(self) -> dict[str, Any]:
        async with asyncio.timeout(BOUND_S):
            frame = json.loads(await self.socket.recv())
        self.frames.append(frame)
        return frame

    async def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while not wanted(frame := await self.hear()):
            pass
        return frame

    async def until_type(self, type: str) -> dict[str, Any]:
        return await self.until(lambda frame: frame["type"] == type)

    async def until_seq(self, seq: int) -> list[dict[str, Any]]:
        """All events so far, when that one has come."""
        if not any(frame.get("seq") == seq for frame in self.frames):
            await self.until(lambda frame: frame.get("seq") == seq)
        return self.events

    async def subscribe(self, **fields: Any) -> dict[str, Any]:
        await self.say("subscribe", **fields)
        return await self.until_type("ready")

    async def closed(self) -> int:
        """Until the hub hangs up: with which code."""
        async with asyncio.timeout(BOUND_S):
            try:
                while True:
                    self.frames.append(json.loads(await self.socket.recv()))
            except websockets.ConnectionClosed as error:
                return error.rcvd.code if error.rcvd else 1006

    @property
    def events(self) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame["type"] == "event"]

    @property
    def seqs(self) -> list[int]:
        return [frame["seq"] for frame in self.events]


@asynccontextmanager
async def client(served: Served, token: str | None = None, **options: Any) -> AsyncGenerator[Client, None]:
    """Connected and, with a token (a device's when none is given, none for ""), welcome."""
    async with connect(served.stream, max_size=None, proxy=None, open_timeout=BOUND_S, **options) as socket:
        stream = Client(socket)
        if token != "":
            await stream.say("authenticate", token=served.token if token is None else token)
            await stream.until_type("welcome")
        yield stream
