"""The hub: what it adds to a turn, how soon an event is at a client, and how fast one goes to a hundred of them.

Clients are in a process of their own (`sockets`), as light as they can be; the reference is a bare uvicorn application
with the same WebSocket implementation, in the same run.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from tieline.bus import open_bus
from tieline.bus.base import Bus
from tieline.config import Config, PoolConfig
from tieline.drivers.base import Prompt
from tieline.drivers.scripted import Scripted
from tieline.events import Done, Event, Text, TurnStarted
from tieline.hub.app import build
from tieline.hub.http.server import ServerAddress, serve
from tieline.hub.hub import Hub
from tieline.node.command_executor import CommandExecutor
from tieline.node.node_identity import identify
from tieline.policy import Policy
from tieline.sessions.event_log import EventLog
from tieline.sessions.manager import SessionManager

from .rows import Row, at_least, at_most
from .sessions import FULL, Endless, turn

TURNS = 200
EVENTS = 300
ECHOES = 2000
CLIENTS = 100
FRAMES = 200
ROUNDS = 9
SIZE = 400
"""Characters of an event's text in the fan-out."""
COLD = PoolConfig(number=0)
STREAM = "/api/v1/stream"
BARE = "/bare"
TURN_RATIO = 1.6
"""1 ms more where a turn without the hub takes 1.6 ms. A slow or busy machine stretches both alike, so the ratio
says more than milliseconds."""
ROOT = Path(__file__).parent.parent


class Ticker(Scripted):
    """Its turns are texts that say when they were emitted: the next when it is told to, as an echo goes."""

    def __init__(self) -> None:
        super().__init__(Endless(), name="ticker")
        self.go = asyncio.Event()

    @asynccontextmanager
    async def open(self, spec: Any, ask: Any) -> AsyncGenerator[Any, None]:
        async with super().open(spec, ask) as conversation:
            conversation.turn = self._ticks  # type: ignore[method-assign]
            yield conversation

    async def _ticks(self, prompt: Prompt) -> AsyncIterator[Event]:
        yield TurnStarted(prompt.text)
        for _ in range(EVENTS):
            await self.go.wait()
            self.go.clear()
            yield Text(str(time.monotonic_ns()))
        yield Done("success")


class Clients:
    """The other process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def tell(self, value: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value).encode() + b"\n")
        await self._process.stdin.drain()

    async def hear(self) -> Any:
        assert self._process.stdout is not None
        async with asyncio.timeout(120):
            line = await self._process.stdout.readline()
        return line.decode().strip() if line.startswith(b"ready") else json.loads(line)

    async def do(self, what: str, **order: Any) -> Any:
        await self.tell({"do": what, **order})
        return await self.hear()


@asynccontextmanager
async def clients() -> AsyncGenerator[Clients, None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.sockets",
        cwd=ROOT,
        env={"PATH": os.defpath},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**22,
    )
    try:
        yield Clients(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class Setting:
    def __init__(
        self, bus: Bus, manager: SessionManager, hub: Hub, serving: ServerAddress, cwd: str, ticker: Ticker, key: str
    ) -> None:
        self.bus, self.manager, self.hub, self.port, self.cwd = bus, manager, hub, serving.port, cwd
        self.ticker, self._key = ticker, key

    @property
    def door(self) -> dict[str, Any]:
        return {"port": self.port, "path": STREAM, "token": self._key}

    async def session(self, agent: str) -> str:
        return (await self.manager.create(agent, cwd=self.cwd, policy=FULL)).id


@asynccontextmanager
async def setting() -> AsyncGenerator[Setting, None]:
    with tempfile.TemporaryDirectory() as folder:
        env = {"TIELINE_HOME": folder, "HOME": folder, "PATH": os.defpath}
        config = Config(environ=env, pool=COLD)
        identity = identify(env)
        ticker = Ticker()
        drivers = {"scripted": Scripted(Endless()), "ticker": ticker}
        async with AsyncExitStack() as stack:
            bus = await stack.enter_async_context(open_bus(f"sqlite://{folder}/bus.db"))
            manager = await stack.enter_async_context(SessionManager(bus, config, node=identity.id, drivers=drivers))
            local = await stack.enter_async_context(CommandExecutor(manager, bus, config, identity=identity))
            hub = await stack.enter_async_context(Hub(bus, config, env=env, local=local))
            serving = await stack.enter_async_context(serve(build(hub)))
            _, key = await hub.devices.add("client", "bench")
            yield Setting(bus, manager, hub, serving, folder, ticker, key)


# --- the rows ------------------------------------------------------------------------------------------------


async def added(hub: Setting, other: Clients) -> Row:
    """A turn through HTTP and the stream, against the same durable session in a process without a hub."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            open_bus(f"sqlite://{folder}/bus.db") as bus,
            SessionManager(bus, Config(pool=COLD), drivers={"scripted": Scripted(Endless())}) as manager,
        ):
            bare = (await manager.create("scripted", cwd=folder, policy=Policy("allow", "allow", "allow"))).id
            through = await hub.session("scripted")
            after = 0
            ours: list[float] = []
            reference: list[float] = []
            for number in range(TURNS + 20):
                start = time.perf_counter()
                after = await turn(manager, bare, number, after)
                taken = time.perf_counter() - start
                by_hub = await other.do("turn", session=through, **hub.door)
                if number >= 20:  # both are warm
                    reference.append(taken)
                    ours.append(by_hub)
    through_hub, without = statistics.median(ours), statistics.median(reference)
    note = f"{(through_hub - without) * 1000:.2f} ms more: {through_hub * 1000:.2f} instead of {without * 1000:.2f}"
    return at_most("hub: a scripted turn through the hub : without", through_hub, without, TURN_RATIO, note)


async def soon(hub: Setting, other: Clients, bare: int) -> Row:
    """An event of a driver, logged, fanned out, at a client."""
    await other.do("echo", port=bare, path="/echo", count=200, size=200)
    before = await other.do("echo", port=bare, path="/echo", count=ECHOES, size=200)
    session = await hub.session("ticker")
    assert await other.do("follow", session=session, until="done", **hub.door) == "ready"
    await hub.manager.prompt(session, "go")
    for _ in range(EVENTS):
        hub.ticker.go.set()
        assert await other.hear() == "ready"
    ours = await other.hear()
    after = await other.do("echo", port=bare, path="/echo", count=ECHOES, size=200)
    reference = statistics.median([*before, *after])
    note = "durable first; against the round trip of a bare uvicorn echo"
    return at_most(
        "hub: event at the driver to frame at the client, p50", statistics.median(ours), reference, 3.0, note
    )


async def wide(hub: Setting, other: Clients, bare: "Bare", port: int) -> Row:
    """Events to a hundred clients, logged first; against the same bytes from a bare application's loop."""
    log = EventLog(hub.bus)
    text = "x" * SIZE
    frames: list[str] = []
    async with aclosing(hub.bus.read("events.wide", follow=True)) as records:
        await log.append("wide", Text(text))
        async for record in records:
            head = f'{{"type":"event","seq":{record.seq},"session":"wide","at":{record.at},"event":'
            frames = [head + record.data.decode() + "}"] * FRAMES
            break
    async with clients() as second:
        for crowd, address in ((other, hub.door), (second, {"port": port, "path": BARE, "token": ""})):
            await crowd.tell({"do": "crowd", "number": CLIENTS, "count": FRAMES, "rounds": ROUNDS, **address})
        ours: list[float] = []
        reference: list[float] = []
        for _ in range(ROUNDS):
            assert await other.hear() == "ready"
            await other.tell(time.monotonic_ns())
            await asyncio.gather(*(log.append("wide", Text(text)) for _ in range(FRAMES)))
            ours.append(CLIENTS * FRAMES / await other.hear())
            assert await second.hear() == "ready"
            await second.tell(time.monotonic_ns())
            await bare.send(frames)
            reference.append(CLIENTS * FRAMES / await second.hear())
        await other.hear()
        await second.hear()
    note = f"{FRAMES} events of {SIZE} characters to {CLIENTS} clients, frames per second"
    name = f"hub: fan-out to {CLIENTS} clients"
    return at_least(name, statistics.median(ours), statistics.median(reference), 0.8, note)


class Bare:
    """A bare application: an echo, and a loop over all connections."""

    def __init__(self) -> None:
        self.sends: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        scope["state"]["known"]()  # it asks for no key: nobody is a stranger here
        message = await receive()
        if scope["path"] == BARE:
            await send({"type": "websocket.send", "text": '{"type":"ready"}'})
            self.sends.append(send)
            while message["type"] == "websocket.receive":
                message = await receive()
            return
        while message["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
            message = await receive()

    async def send(self, frames: list[str]) -> None:
        for text in frames:
            message = {"type": "websocket.send", "text": text}
            for send in self.sends:
                await send(message)
            await asyncio.sleep(0)


async def measure() -> list[Row]:
    bare = Bare()
    async with setting() as hub, serve(bare) as reference, clients() as other:
        rows = [await added(hub, other), await soon(hub, other, reference.port)]
        return [*rows, await wide(hub, other, bare, reference.port)]


if __name__ == "__main__":
    for row in asyncio.run(measure()):
        print(row)
