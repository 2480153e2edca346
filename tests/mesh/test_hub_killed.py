"""A hub that is killed between two calls of an agent: the agent is still who it was, and its mail is there."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from tests.cli.hub_process import HubProcess
from tests.mesh.mcp_clients import bridge, call

from tieline.testing.cli_process import CliProcess


@pytest.mark.slow
def test_identity_and_mail_survive_sigkill(tmp_path: Path) -> None:
    cli = CliProcess(tmp_path)

    async def call_tool(tool: str, **arguments: str) -> dict[str, Any]:
        async with Client(stdio_client(bridge(cli.env, "terminal-1"))) as agent:
            return await call(agent, tool, **arguments)

    with HubProcess(cli) as hub:
        member = asyncio.run(call_tool("register_agent", name="ada", role="backend"))["member"]
        sent = json.loads(cli.run("message", "send", "@ada", "still there?", "--json").stdout)
        hub.kill()
        hub.start()
        fetched = asyncio.run(call_tool("fetch_messages"))
        assert [message["id"] for message in fetched["messages"]] == [sent["receipt"]["id"]]
        again = asyncio.run(call_tool("register_agent"))
        assert again["known"] is True
        assert {**again["member"], "seen_at": 0} == {**member, "seen_at": 0}
