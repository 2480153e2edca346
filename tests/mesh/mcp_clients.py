"""A hub with its mesh, and MCP clients of it: the SDK's own, over HTTP and over `tieline mcp`."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2 as httpx
import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from msgspec import Struct

from tieline.bootstrap.daemon import hub_on
from tieline.config import Config, HubConfig, MeshConfig
from tieline.hub.http.server import ServerAddress
from tieline.hub.hub import Hub
from tieline.mesh.mesh import Mesh
from tieline.mesh.records import Caller
from tieline.protocol.mesh import Activity, MemberView
from tieline.testing.wait_for import eventually

Transport = Literal["http", "stdio"]
REVISIONS = ("legacy", "2026-07-28")
"""With `initialize` and a session; sessionless."""
OWNER = Caller(person="owner")
TERMINAL_S = 180.0
"""For an agent in a terminal: some take a minute to start on a busy machine."""
RECEIPT_S = 120.0
PROGRAM = str(Path(sys.executable).with_name("tieline"))


class CalledHub(Struct, frozen=True):
    """In this process or another."""

    serving: ServerAddress
    env: Mapping[str, str]

    @property
    def url(self) -> str:
        return f"{self.serving.url}/mcp"

    def http(self, headers: Mapping[str, str] = {}) -> httpx.AsyncClient:
        """The owner, by the socket."""
        way = httpx.AsyncHTTPTransport(uds=self.serving.socket, verify=False)  # plain HTTP: no CAs to load
        return httpx.AsyncClient(transport=way, timeout=60.0, headers=dict(headers), base_url=self.serving.url)

    @asynccontextmanager
    async def client(
        self,
        session: str,
        *,
        transport: Transport = "http",
        mode: str = "legacy",
        harness: str = "test",
        **more: Any,
    ) -> AsyncGenerator[Client, None]:
        """One harness session's client."""
        if transport == "stdio":
            server = stdio_client(bridge(self.env, session))
            async with Client(server, mode=mode, **more) as client:
                yield client
            return
        headers = {"X-Tieline-Harness": harness, "X-Tieline-Session": session, "X-Tieline-Cwd": self.env["HOME"]}
        async with (
            self.http(headers) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=mode, **more) as client,
        ):
            yield client


class MeshHub(CalledHub, frozen=True):
    hub: Hub

    @property
    def mesh(self) -> Mesh:
        assert self.hub.mesh is not None
        return self.hub.mesh

    @property
    def agents(self) -> list[MemberView]:
        """Those in harnesses, also of sessions that have ended."""
        return [member for member in self.mesh.directory.members(ended=True) if member.kind == "agent"]

    async def like(self, member: MemberView, activity: Activity, *, ended: bool = False) -> None:
        """Until the agent is like that."""

        def now() -> list[tuple[str, bool]]:
            return [(agent.activity, agent.ended) for agent in self.agents if agent.id == member.id]

        await eventually(lambda: now() == [(activity, ended)], f"it is not {activity}", timeout=TERMINAL_S)

    async def only_agent(self) -> MemberView:
        """Once its session has registered by itself and is idle."""
        await eventually(lambda: len(self.agents) == 1, "it does not register", timeout=TERMINAL_S)
        (member,) = self.agents
        await self.like(member, "idle")
        return member

    async def receipt(self, message: str, stage: Literal["injected_at", "seen_at"]) -> None:
        """Until the message has come so far: a terminal shows it before the hub hears of it."""
        async with asyncio.timeout(RECEIPT_S):
            while not getattr(await self.mesh.message_status(OWNER, message), stage):  # noqa: ASYNC110 (looked up)
                await asyncio.sleep(0.1)


def bridge(env: Mapping[str, str], session: str) -> StdioServerParameters:
    """As Claude Code starts it: its session is in the environment."""
    own = {**env, "CLAUDE_CODE_SESSION_ID": session, "CLAUDE_PROJECT_DIR": env["HOME"]}
    return StdioServerParameters(command=PROGRAM, args=["mcp", "--no-start"], env=own)


@asynccontextmanager
async def mesh_hub(path: Path, more: Mapping[str, str] = {}, **mesh: Any) -> AsyncGenerator[MeshHub, None]:
    """`more` variables of its environment; `mesh` are settings of `[mesh]`."""
    home = path / "home"
    home.mkdir(exist_ok=True)
    env = {"HOME": str(home), "TIELINE_HOME": str(path / "state"), "PATH": "/usr/bin:/bin", **more}
    async with hub_on(Config(environ=env, hub=HubConfig(port=0), mesh=MeshConfig(**mesh))) as (hub, serving):
        assert hub.relay is not None
        await hub.relay.until_active()
        running = path / "state" / "hub.json"  # the daemon writes it: bridges find the hub by it
        running.write_text(
            f'{{"url": "{serving.url}", "pid": {os.getpid()}, "version": "", "node": "", "socket": "{serving.socket}"}}'
        )
        yield MeshHub(serving, env, hub)


def text_of(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured value of a call that succeeds."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert result.structured_content is not None
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    """The text of a call that does not."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    return text_of(result)
