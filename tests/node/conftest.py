"""A node of its own beside a real hub: its own bus, session manager and agents, joined over a real WebSocket."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from tests.hub.conftest import Running, running

from tieline.backoff import Backoff
from tieline.bus import Bus, open_bus
from tieline.config import Config
from tieline.drivers.base import Driver
from tieline.drivers.scripted import Scripted
from tieline.events import AnyEvent, decode
from tieline.hub.hub import Hub
from tieline.node.command_executor import CommandExecutor
from tieline.node.hub_link import HubLink
from tieline.node.node_identity import NodeIdentity, identify
from tieline.script import Reply
from tieline.sessions.manager import SessionManager
from tieline.testing.wait_for import eventually


class Node(Struct):
    id: str
    bus: Bus
    manager: SessionManager
    executor: CommandExecutor
    link: HubLink
    cwd: str
    task: "asyncio.Task[None]"

    async def joined(self) -> None:
        await eventually(lambda: self.link.situation.state == "joined", "it did not join", timeout=30)


def settings(path: Path, **more: Any) -> Config:
    path.mkdir(parents=True, exist_ok=True)
    (path / "work").mkdir(exist_ok=True)
    env = {"HOME": str(path), "TIELINE_HOME": str(path / "state"), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    return Config(environ=env, **more)


@asynccontextmanager
async def executor_at(
    path: Path, replies: Sequence[Reply] = (), *, drivers: Mapping[str, Driver] | None = None, **config: Any
) -> AsyncGenerator[tuple[CommandExecutor, Bus]]:
    """A node that nobody is joined to."""
    own = settings(path, **config)
    identity = identify(own.environ)
    agents = drivers or {"scripted": Scripted(replies)}
    async with (
        open_bus(f"sqlite://{path}/node.db") as bus,
        SessionManager(bus, own, node=identity.id, drivers=agents) as manager,
        CommandExecutor(manager, bus, own, identity=identity) as executor,
    ):
        yield executor, bus


async def key_of(hub: Hub, identity: NodeIdentity) -> str:
    """Pair it: the key of a new device."""
    secret, _ = await hub.devices.offer("node")
    _, key = await hub.devices.claim(secret, ("node",), name=identity.name, node=identity.id)
    return key


@asynccontextmanager
async def node_at(
    path: Path,
    url: str,
    key: str,
    replies: Sequence[Reply] = (),
    **config: Any,
) -> AsyncGenerator[Node]:
    async with executor_at(path, replies, **config) as (executor, bus):
        link = HubLink(bus, executor, url=url, key=key, backoff=Backoff(0.05, 0.5))
        task = asyncio.create_task(link.run())
        try:
            yield Node(executor.identity.id, bus, executor.manager, executor, link, str(path / "work"), task)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def joined_to(
    hub: Running, path: Path, replies: Sequence[Reply] = (), *, url: str = "", **config: Any
) -> AsyncGenerator[Node]:
    """Paired, dialled and welcomed."""
    identity = identify(settings(path, **config).environ)
    key = await key_of(hub.hub, identity)
    async with node_at(path, url or hub.url, key, replies, **config) as node:
        await node.joined()
        yield node


async def events_of(bus: Bus, session: str) -> list[AnyEvent]:
    return [decode(record.data) async for record in bus.read(f"events.{session}", follow=False)]


async def until_done(bus: Bus, session: str, turns: int = 1) -> list[AnyEvent]:
    """The session's events on a bus, once so many turns are over there."""
    events: list[AnyEvent] = []
    async with asyncio.timeout(60):
        async for record in bus.read(f"events.{session}"):
            events.append(decode(record.data))
            if sum(event.type == "done" for event in events) >= turns:
                return events
    raise AssertionError("the log ended")


async def until(true: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    """Like `eventually`, for what has to be asked for."""
    try:
        async with asyncio.timeout(30):
            while not await true():  # noqa: ASYNC110 (what is asked has no events to wait for)
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(otherwise) from None


@asynccontextmanager
async def hub_at(path: Path, **more: Any) -> AsyncGenerator[Running]:
    path.mkdir(exist_ok=True)
    async with running(path, **more) as started:
        yield started


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncGenerator[Running]:
    async with hub_at(tmp_path / "hub") as started:
        yield started
