"""`tieline mcp` as a harness starts it: with a hub or without one, and light, since each session starts one."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.mesh.mcp_clients import PROGRAM, call

from tieline import paths
from tieline.bootstrap.process_lock import running_pid
from tieline.testing.cli_process import CliProcess

HEAVY = {"typing", "asyncio", "pathlib", "msgspec", "mcp", "pydantic", "httpx2", "logging", "ssl"}
LISTED = f"""
import sys
sys.path.append({str(Path(paths.__file__).parents[1])!r})
from tieline.cli.mcp.stdio_bridge import run
assert run(["--no-start"]) == 0
print(*sys.modules, file=sys.stderr)
"""


def test_a_bridge_imports_next_to_nothing(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LISTED],
        stdin=subprocess.DEVNULL,
        env={"HOME": str(tmp_path), "PATH": os.defpath},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = set(ended.stderr.split())
    assert "tieline.cli.mcp.stdio_bridge" in loaded
    assert not HEAVY & loaded


@pytest.mark.slow
async def test_a_bridge_that_finds_no_hub_starts_one_that_stays(tmp_path: Path) -> None:
    cli = CliProcess(tmp_path)
    cli.configure("[hub]\nport = 0\n")
    server = StdioServerParameters(command=PROGRAM, args=["mcp"], env={**cli.env, "TIELINE_HARNESS": "cursor"})
    try:
        async with Client(stdio_client(server)) as client, Client(stdio_client(server)) as other_client:
            first, second = await asyncio.gather(*(call(each, "register_agent") for each in (client, other_client)))
            assert first["member"]["id"] != second["member"]["id"]
            await call(client, "send_message", to=second["member"]["id"], text="are you there?")
            assert "are you there?" in json.dumps(await call(other_client, "fetch_messages"))
        assert running_pid(cli.env)
        assert cli.run("status").returncode == 0
    finally:
        cli.run("down")
    assert not running_pid(cli.env)
