"""What `tieline install` wrote, used as a harness uses it: the server in its files is started and the hooks in them are
run, against a real hub. The test is the harness, the process above both."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.mesh.conftest import OWNER
from tests.mesh.mcp_clients import PROGRAM, MeshHub, call, mesh_hub
from tests.mesh.test_desktop_notification import program

from tieline.harnesses import installer, registry
from tieline.harnesses.base import InstallOptions
from tieline.harnesses.instructions import PROTOCOL
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("patient_hook")]


def install(name: str, hub: MeshHub, project: str = "") -> list[str]:
    """Into the hub's home. What the person is told."""
    options = InstallOptions(env=hub.env, program=PROGRAM, python=sys.executable, project=project)
    harness = registry.create(name)
    installer.apply(installer.plan_install(harness, options), options.env)
    return harness.notes(options)


def read(hub: MeshHub, path: str) -> Any:
    return json.loads((Path(hub.env["HOME"]) / path).read_text())


@asynccontextmanager
async def started(entry: Mapping[str, Any]) -> AsyncGenerator[Client, None]:
    """The server of an entry, as a harness starts it: in an environment of its own."""
    env = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin", **entry["env"]}
    parameters = StdioServerParameters(command=entry["command"], args=entry["args"], env=env)
    async with Client(stdio_client(parameters), mode="legacy") as client:
        yield client


async def hook(command: str, **input: Any) -> str:
    """What the hook prints."""
    process = await asyncio.create_subprocess_shell(
        command, env={}, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        stdout, stderr = await process.communicate(json.dumps(input).encode())
    assert (process.returncode, stderr) == (0, b"")
    return stdout.decode()


async def test_any_other_harness_is_told_on_the_desktop_and_fetches(tmp_path: Path) -> None:
    desktop = program(tmp_path, "notify-send") | {"DISPLAY": ":0"}
    async with mesh_hub(tmp_path, desktop, notify_after_s=0.1) as hub:
        (note,) = install("generic", hub, project=str(tmp_path / "project"))
        assert "`fetch_messages`" in (tmp_path / "project/AGENTS.md").read_text()
        entry = json.loads("{" + note.partition(": ")[2] + "}")["tieline"]
        async with started(entry) as windsurf:
            member = (await call(windsurf, "register_agent", name="reviewer"))["member"]
            assert member["harness"] == "generic"
            await hub.mesh.send_message(OWNER, "@reviewer", "are you there?")
            calls = tmp_path / "calls"
            notice = "A message waits for reviewer"
            await eventually(lambda: calls.exists() and notice in calls.read_text(), "nobody was told", timeout=60)
            (message,) = (await call(windsurf, "fetch_messages"))["messages"]
            assert "are you there?" in message["text"]


async def test_the_hook_before_an_mcp_call_says_which_conversation_of_cursor_calls(tmp_path: Path) -> None:
    async with mesh_hub(tmp_path) as hub:
        install("cursor", hub)
        hooks = read(hub, ".cursor/hooks.json")["hooks"]
        async with started(read(hub, ".cursor/mcp.json")["mcpServers"]["tieline"]) as cursor:
            for conversation in ("c-1", "c-2", "c-1"):
                roots = [hub.env["HOME"]]
                output = await hook(
                    hooks["beforeMCPExecution"][0]["command"],
                    hook_event_name="beforeMCPExecution", conversation_id=conversation, workspace_roots=roots,
                    tool_name="get_session_binding", tool_input={},
                )  # fmt: skip
                assert output == "", "it neither allows nor forbids the call"
                bound = await call(cursor, "get_session_binding")
                assert (bound["harness"], bound["session_id"]) == ("cursor", conversation)


async def test_the_hooks_of_kiro_register_its_agent_and_bring_messages_with_a_prompt(tmp_path: Path) -> None:
    async with mesh_hub(tmp_path) as hub:
        install("kiro", hub)
        hooks = {handler["trigger"]: handler["action"] for handler in read(hub, ".kiro/hooks/tieline.json")["hooks"]}
        session = {"session_id": "k-1", "cwd": hub.env["HOME"]}
        assert {action["type"] for action in hooks.values()} == {"command"}
        output = await hook(hooks["SessionStart"]["command"], hook_event_name="SessionStart", **session)
        assert PROTOCOL in output
        async with started(read(hub, ".kiro/settings/mcp.json")["mcpServers"]["tieline"]) as kiro:
            bound = await call(kiro, "get_session_binding")
            assert (bound["harness"], bound["session_id"]) == ("kiro", "k-1")
            await hub.mesh.send_message(OWNER, bound["agent_id"], "the build is red")
            output = await hook(
                hooks["UserPromptSubmit"]["command"], hook_event_name="UserPromptSubmit", prompt="x", **session
            )
            assert "the build is red" in output


QCHAT = """#!/bin/sh
bash -c "$HOOK" < "$1"
read -r go
bash -c "$HOOK" < "$2"
"$TIELINE" mcp
"""


async def test_the_hooks_of_amazon_q_name_no_session_but_are_below_its_process(tmp_path: Path) -> None:
    events: list[str] = []
    for event in ("agentSpawn", "userPromptSubmit"):
        events.append(str(tmp_path / event))
        Path(events[-1]).write_text(json.dumps({"hook_event_name": event, "cwd": str(tmp_path), "prompt": "x"}))
    qchat = tmp_path / "qchat"
    qchat.write_text(QCHAT)
    qchat.chmod(0o755)
    async with mesh_hub(tmp_path) as hub:
        install("amazon-q", hub)
        hooks = read(hub, ".aws/amazonq/cli-agents/tieline.json")["hooks"]
        ((command,),) = {tuple(handler["command"] for handler in group) for group in hooks.values()}
        entry = read(hub, ".aws/amazonq/mcp.json")["mcpServers"]["tieline"]
        process = await asyncio.create_subprocess_exec(
            str(qchat), *events, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 20,
            env={**entry["env"], "HOOK": command, "TIELINE": entry["command"], "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        try:
            async with asyncio.timeout(60):
                output = await process.stdout.readuntil(PROTOCOL.splitlines()[-1].encode())
                assert PROTOCOL.splitlines()[0] in output.decode()
                (member,) = [each for each in hub.mesh.directory.members() if each.harness == "amazon-q"]
                assert member.session.startswith(f"qchat-{process.pid}-")
                await hub.mesh.send_message(OWNER, member.id, "the build is red")
                process.stdin.write(b"go\n")
                await process.stdout.readuntil(b"the build is red")
                for id, (method, parameters) in enumerate(CALLS):
                    request = {"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}
                    process.stdin.write(json.dumps(request).encode() + b"\n")
                await process.stdout.readuntil(f'"session_id":"{member.session}"'.encode())
                process.stdin.close()
                await process.stdout.read()
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()


CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "initialize",
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "q", "version": "1"}},
    ),
    ("tools/call", {"name": "get_session_binding", "arguments": {}}),
)


async def test_the_hooks_of_claude_code_tell_its_agent_what_its_instructions_say(tmp_path: Path) -> None:
    async with mesh_hub(tmp_path) as hub:
        install("claude-code", hub)
        ((handler,),) = (group["hooks"] for group in read(hub, ".claude/settings.json")["hooks"]["SessionStart"])
        output = await hook(
            handler["command"],
            hook_event_name="SessionStart", session_id="s-1", cwd=hub.env["HOME"], source="startup",
        )  # fmt: skip
        context = json.loads(output)["hookSpecificOutput"]["additionalContext"]
        assert PROTOCOL in context
        assert PROTOCOL in (Path(hub.env["HOME"]) / ".claude/CLAUDE.md").read_text()
