"""A real hub for a test: a free loopback port, a SQLite file, the scripted agent through a real session manager."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import pytest_asyncio
from msgspec import Struct
from starlette.types import ASGIApp, Receive, Scope, Send

from tieline.bus import Bus, open_bus
from tieline.config import Config, HubConfig
from tieline.drivers.base import Driver
from tieline.drivers.scripted import Scripted
from tieline.hub.app import build
from tieline.hub.http.request_context import RequestContext
from tieline.hub.http.server import ServerAddress, serve
from tieline.hub.hub import Hub
from tieline.node.command_executor import CommandExecutor
from tieline.node.node_identity import identify
from tieline.paths import socket_file
from tieline.script import Reply
from tieline.sessions.manager import SessionManager


class Running(Struct, frozen=True):
    """A hub that serves; a client that is its owner, by the socket; and the key of a device, for all else."""

    hub: Hub
    serving: ServerAddress
    client: httpx.AsyncClient
    manager: SessionManager
    env: Mapping[str, str]
    cwd: str
    token: str
    replies: list[Reply]  # what the scripted agent plays next; empty: the demo

    @property
    def url(self) -> str:
        return self.serving.url

    def play(self, *replies: Reply) -> None:
        self.replies.extend(replies)

    def headers(self, token: str = "") -> dict[str, str]:
        return {"Authorization": f"Bearer {token or self.token}"}

    async def session(self, **more: Any) -> dict[str, Any]:
        body = {"agent": "scripted", "cwd": self.cwd, "policy": "full", **more}
        reply = await self.client.post("/api/v1/sessions", json=body)
        assert reply.status_code == 201, reply.text
        return reply.json()


def environment(path: Path) -> dict[str, str]:
    home = path / "home"
    home.mkdir(exist_ok=True)
    return {"HOME": str(home), "TIELINE_HOME": str(path / "state"), "PATH": "/usr/bin:/bin"}


@asynccontextmanager
async def running(
    path: Path,
    *,
    config: HubConfig | None = None,
    drivers: Mapping[str, Driver] | None = None,
    bus: Bus | None = None,
    head_s: float = 15.0,
    agents_env: Mapping[str, str] | None = None,
) -> AsyncGenerator[Running, None]:
    """`async with running(tmp_path) as hub`: for tests that need a hub of their own kind."""
    env = environment(path) | dict(agents_env or {})
    settings = Config(environ=env, default_agent="scripted", hub=config or HubConfig())
    cwd = path / "work"
    cwd.mkdir(exist_ok=True)
    async with AsyncExitStack() as stack:
        if bus is None:
            bus = await stack.enter_async_context(open_bus(f"sqlite:///{path / 'bus.db'}"))
        identity = identify(env)
        replies: list[Reply] = []
        agents = drivers or {"scripted": Scripted(replies)}
        manager = SessionManager(bus, settings, node=identity.id, drivers=agents)
        await stack.enter_async_context(manager)
        executor = await stack.enter_async_context(CommandExecutor(manager, bus, settings, identity=identity))
        hub = await stack.enter_async_context(Hub(bus, settings, env=env, local=executor))
        serving = await stack.enter_async_context(
            serve(build(hub), port=0, config=settings.hub, socket_path=socket_file(env), head_s=head_s)
        )
        client = await stack.enter_async_context(owner(serving))
        _, token = await hub.devices.add("client", "tests")
        yield Running(hub, serving, client, manager, env, str(cwd), token, replies)


def owner(serving: ServerAddress) -> httpx.AsyncClient:
    """Whoever runs the hub, by the socket of its machine."""
    return httpx.AsyncClient(
        base_url=serving.url, transport=httpx.AsyncHTTPTransport(uds=serving.socket, verify=False), timeout=30.0
    )


def caller(url: str, token: str = "") -> httpx.AsyncClient:
    """Somebody who talks to the hub; without a token, a stranger."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=30.0, verify=False)  # plain HTTP: no CAs to load


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncGenerator[Running, None]:
    async with running(tmp_path) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Running, None]:
    """One hub for a whole file of tests that leave it as it was (with `pytest.mark.asyncio(loop_scope="module")`)."""
    async with running(tmp_path_factory.mktemp("shared")) as started:
        yield started


def without_middleware(app: ASGIApp) -> ASGIApp:
    """As if the security middleware had let everybody in."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["context"] = RequestContext()
        await app(scope, receive, send)

    return call
