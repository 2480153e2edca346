"""The command hook as harnesses start it, against a real hub, and against what may be there instead of one."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from tests.mesh.mcp_clients import MeshHub, mesh_hub

from tieline.harnesses import hook
from tieline.harnesses.base import InstallOptions, hook_command
from tieline.mesh.records import Caller
from tieline.testing.wait_for import eventually

OWNER = Caller(person="owner")


class Ended(Struct, frozen=True):
    status: int
    stdout: str
    stderr: str


async def run(home: Path, input: bytes, event: str = "") -> Ended:
    """The hook, as an installed integration runs it."""
    options = InstallOptions(env={"TIELINE_HOME": str(home)}, program="tieline", python=sys.executable)
    command = hook_command("copilot" if event else "gemini", options, event)
    process = await asyncio.create_subprocess_shell(
        command, env={}, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        stdout, stderr = await process.communicate(input)
    assert process.returncode is not None
    return Ended(process.returncode, stdout.decode(), stderr.decode())


def hook_input(event: str, **more: Any) -> bytes:
    return json.dumps({"hook_event_name": event, "session_id": "g-1", "cwd": "/", **more}).encode()


@asynccontextmanager
async def listener(home: Path, reply: bytes | None) -> AsyncGenerator[None]:
    """Somebody at the hub's place who says this, or nothing."""
    connections: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        if reply is not None:
            writer.write(reply)
            writer.close()

    (home / "own").mkdir(parents=True)
    async with await asyncio.start_unix_server(accept, home / "own" / "hub.sock"):
        yield
        for writer in connections:
            writer.close()


@pytest.mark.usefixtures("patient_hook")
async def test_it_prints_what_the_hub_says_and_confirms_it(tmp_path: Path) -> None:
    async with mesh_hub(tmp_path) as mesh:
        home = Path(mesh.serving.socket).parents[1]
        started = await run(home, hook_input("SessionStart", source="startup"))
        assert "in the Tieline mesh" in json.loads(started.stdout)["hookSpecificOutput"]["additionalContext"]
        assert (started.status, started.stderr) == (0, "")
        member = mesh.mesh.directory.by_session(mesh.mesh.machine, "gemini", "g-1")
        assert member is not None
        sent = await mesh.mesh.send_message(OWNER, member.id, "ünïcode " * 20_000)
        reply = json.loads((await run(home, hook_input("AfterAgent"))).stdout)
        assert reply["decision"] == "deny" and "ünïcode " * 20_000 in reply["reason"]
        await eventually(lambda: mesh.mesh.mailbox.unread(member.address) == 0, "it was not confirmed")
        assert (await _status(mesh, sent.id)) == "injected"
        assert await run(home, hook_input("AfterAgent", stop_hook_active=True)) == Ended(0, "", "")
        large = await run(home, hook_input("AfterTool", tool_response="x" * 3_000_000))
        assert large == Ended(0, "", "")
        nameless = await run(home, json.dumps({"sessionId": "c-1", "cwd": "/"}).encode(), event="agentStop")
        assert nameless == Ended(0, "", "")
        activity = {each.session: each.event for each in mesh.hub.hooks.activity()} if mesh.hub.hooks else {}
        assert activity == {"g-1": "AfterTool", "c-1": "agentStop"}
        refused = await run(home, b"{}")
        assert (refused.status, refused.stdout) == (0, "") and "names no session" in refused.stderr
        assert refused.stderr.startswith("tieline hook: ") and refused.stderr.count("\n") == 1


async def _status(mesh: MeshHub, id: str) -> str:
    assert mesh.hub.relay is not None
    return (await mesh.hub.relay.status(id)).state


async def test_without_a_hub_it_says_nothing(tmp_path: Path) -> None:
    assert await run(tmp_path, hook_input("AfterTool")) == Ended(0, "", "")
    too_much = await run(tmp_path, b"x" * (hook.MAX_INPUT + 1))
    assert (too_much.status, too_much.stdout) == (0, "") and "8 MiB" in too_much.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "reply", [None, b"", b"SSH-2.0-nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"]
)
async def test_a_hub_that_fails_holds_nobody_up(tmp_path: Path, reply: bytes | None) -> None:
    async with listener(tmp_path, reply):
        ended = await run(tmp_path, hook_input("AfterTool"))
    assert (ended.status, ended.stdout) == (0, "")
    assert ended.stderr.startswith("tieline hook: ") and ended.stderr.count("\n") == 1
