"""The MCP server is loaded at the first request, for everybody who waits for it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from starlette.types import Message, Receive, Scope, Send
from tests.mesh.conftest import harness, within

from tieline.mesh import mcp_endpoint
from tieline.mesh.mcp_caller import McpRequest
from tieline.mesh.mcp_endpoint import McpEndpoint
from tieline.mesh.mesh import Mesh


class SlowServer:
    """Counts its starts, and starts when it is told to."""

    def __init__(self) -> None:
        self.starts = self.running = 0
        self.begun = asyncio.Event()
        self.may_start = asyncio.Event()
        self.problem: Exception | None = None

    def __call__(self, *_: object) -> "SlowServer":
        return self

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        self.starts += 1
        self.begun.set()
        await self.may_start.wait()
        if self.problem is not None:
            raise self.problem
        self.running += 1
        yield
        self.running -= 1

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> SlowServer:
    server = SlowServer()

    async def loaded(name: str) -> SimpleNamespace:
        return SimpleNamespace(MeshMcpServer=server)

    monkeypatch.setattr(mcp_endpoint, "import_in_thread", loaded)
    return server


async def ask(endpoint: McpEndpoint) -> int:
    """The status of the response."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await endpoint.handle(
        {"type": "http", "state": {}}, receive, send, connected=lambda: True,
        request=lambda hand_over: McpRequest(
            principal="p", caller=harness("s"), hand_over=hand_over, refused=lambda who, why: None
        ),
    )  # fmt: skip
    return sent[0]["status"]


async def test_a_client_that_hangs_up_does_not_end_the_start_for_others(mesh: Mesh, server: SlowServer) -> None:
    async with McpEndpoint(mesh) as endpoint:
        first = asyncio.create_task(ask(endpoint))
        await within(server.begun.wait())
        others = [asyncio.create_task(ask(endpoint)) for _ in range(2)]
        first.cancel()
        await asyncio.wait((first,))
        assert first.cancelled()
        server.may_start.set()
        assert await within(asyncio.gather(*others)) == [200, 200]
        assert (server.starts, server.running) == (1, 1)
    assert server.running == 0, "it ended with the endpoint"


async def test_after_a_start_that_failed_the_next_client_starts_it_again(mesh: Mesh, server: SlowServer) -> None:
    server.may_start.set()
    server.problem = OSError("no memory")
    async with McpEndpoint(mesh) as endpoint:
        with pytest.raises(OSError, match="no memory"):
            await within(ask(endpoint))
        server.problem = None
        assert await within(ask(endpoint)) == 200


async def test_the_hub_may_end_while_it_starts(mesh: Mesh, server: SlowServer) -> None:
    async with McpEndpoint(mesh) as endpoint:
        waiting = asyncio.create_task(ask(endpoint))
        await within(server.begun.wait())
        asyncio.get_running_loop().call_soon(server.may_start.set)
    await asyncio.wait((waiting,))
    assert waiting.cancelled()
    assert server.running == 0
