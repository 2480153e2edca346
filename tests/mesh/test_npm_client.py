"""The MCP server with a client from npm, over both transports at once."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.mesh.mcp_clients import PROGRAM, MeshHub, mesh_hub

from tieline.mesh.mcp_tools import TOOLS

pytestmark = pytest.mark.real

CLIENT = Path(__file__).parents[1] / "agents" / "mcp_client.mjs"
WAIT_S = 60.0


async def talk(mesh: MeshHub) -> dict[str, Any]:
    node = shutil.which("node")
    assert node is not None, "the tests need Node.js"
    _, key = await mesh.hub.devices.add("mesh", "laptop")
    process = await asyncio.create_subprocess_exec(
        *(node, str(CLIENT), mesh.url, key, PROGRAM, "mcp", "--no-start"),
        env={**mesh.env, "CLAUDE_CODE_SESSION_ID": "over-stdio"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(WAIT_S):
            output, problems = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, problems.decode()
    return json.loads(output)


async def test_a_client_from_npm_talks_over_both_transports(tmp_path: Path) -> None:
    async with mesh_hub(tmp_path) as mesh:
        seen = await talk(mesh)
    assert seen["server"] == "tieline"
    assert [set(names) for names in seen["tools"]] == [set(TOOLS), set(TOOLS)]
    (message,) = seen["received"]["value"]["messages"]
    assert message["id"] == seen["sent"]["value"]["id"] and message["sender"] == "anna-of-npm"
    assert "over HTTP" in message["text"]
    (answer,) = seen["answer"]["value"]["messages"]
    assert answer["in_reply_to"] == message["id"] and "over stdio" in answer["text"]
    assert seen["status"]["value"]["state"] == "answered"
    assert [refusal["error"] for refusal in seen["refused"]] == [True, True]
