"""The route of hooks, and the MCP tool that hooks of type `mcp_tool` call: on a real hub."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2 as httpx
import pytest
import pytest_asyncio
from tests.mesh.mcp_clients import MeshHub, Transport, mesh_hub, text_of

from tieline.hub.routes.harness_hooks import CONFIRMS_HEADER, DELIVERY_HEADER
from tieline.mesh.records import Caller
from tieline.protocol.mesh import HOOK_TOOL
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "/api/v1/harness-hooks"
OWNER = Caller(person="owner")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mesh(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[MeshHub, None]:
    async with mesh_hub(tmp_path_factory.mktemp("hooks")) as started:
        yield started


def hook(event: str, session: str, **more: Any) -> dict[str, Any]:
    return {"hook_event_name": event, "session_id": session, "cwd": "/", **more}


async def fire(http: httpx.AsyncClient, event: str, session: str, **more: Any) -> httpx.Response:
    return await http.post(PATH, params={"harness": "gemini"}, json=hook(event, session, **more))


async def state(mesh: MeshHub, id: str) -> str:
    assert mesh.hub.relay is not None
    return (await mesh.hub.relay.status(id)).state


async def test_a_session_registers_and_is_handed_its_messages(mesh: MeshHub) -> None:
    async with mesh.http() as http:
        started = (await fire(http, "SessionStart", "g-1", source="startup")).json()
        assert "in the Tieline mesh" in started["hookSpecificOutput"]["additionalContext"]
        member = mesh.mesh.directory.by_session(mesh.mesh.machine, "gemini", "g-1")
        assert member is not None and member.activity == "idle"
        sent = await mesh.mesh.send_message(OWNER, member.id, "look here")
        reply = (await fire(http, "AfterTool", "g-1")).json()["hookSpecificOutput"]
        assert reply["hookEventName"] == "AfterTool" and "look here" in reply["additionalContext"]
        await eventually(lambda: mesh.mesh.mailbox.unread(member.address) == 0, "it was not confirmed")
        assert await state(mesh, sent.id) == "injected"
        ended = await fire(http, "AfterAgent", "g-1")
        assert ended.status_code == 200 and ended.content == b""
        assert await state(mesh, sent.id) == "seen"
        (activity,) = [each for each in (await http.get(PATH)).json() if each["session"] == "g-1"]
        assert activity["fired"] == 3 and activity["event"] == "AfterAgent"


async def test_a_hook_that_confirms_is_waited_for(mesh: MeshHub) -> None:
    async with mesh.http({CONFIRMS_HEADER: "1"}) as http:
        await fire(http, "BeforeAgent", "g-2")
        member = mesh.mesh.directory.by_session(mesh.mesh.machine, "gemini", "g-2")
        assert member is not None
        sent = await mesh.mesh.send_message(OWNER, member.id, "at the end")
        reply = await fire(http, "AfterAgent", "g-2")
        assert reply.json()["decision"] == "deny" and "at the end" in reply.json()["reason"]
        assert await state(mesh, sent.id) == "stored"
        confirmed = await http.post("/mcp/delivered", json={"delivery": reply.headers[DELIVERY_HEADER]})
        assert confirmed.status_code == 204
        assert await state(mesh, sent.id) == "injected"


async def test_which_keys_open_it(mesh: MeshHub) -> None:
    hub = mesh.hub
    (_, node), (_, own) = await hub.devices.add("node", "n", node="n2"), await hub.devices.add("mesh", "laptop")
    async with httpx.AsyncClient(base_url=mesh.serving.url, timeout=30, verify=False) as http:
        for key, status in (("", 401), ("tl_nobody", 401), (node, 403), (own, 200)):
            http.headers = {"Authorization": f"Bearer {key}"} if key else {}
            assert (await fire(http, "SessionStart", "g-1")).status_code == status, key
        assert (await http.get(PATH)).status_code == 403
    machines = {member.machine for member in mesh.mesh.directory.members() if member.session == "g-1"}
    assert {machine.partition("-")[0] for machine in machines} >= {"laptop"}  # another member than the one here


async def test_what_is_wrong_is_said(mesh: MeshHub) -> None:
    async with mesh.http() as http:
        wrong = await http.post(PATH, params={"harness": "nobodys"}, json=hook("Stop", "x"))
        assert wrong.status_code == 400 and "not known" in wrong.json()["detail"]
        assert (await http.post(PATH, params={"harness": "gemini"}, content=b"[1")).status_code == 400
        assert (await http.post(PATH, params={"harness": "gemini"}, json={})).status_code == 400


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_a_hook_that_calls_our_tool(mesh: MeshHub, transport: Transport) -> None:
    id = f"c-{transport}"
    async with mesh.client(id, harness="claude-code", transport=transport) as client:
        assert HOOK_TOOL not in {tool.name for tool in (await client.list_tools()).tools}
        started = await client.call_tool(HOOK_TOOL, {"event": "SessionStart", "session_id": id})
        assert "in the Tieline mesh" in json.loads(text_of(started))["hookSpecificOutput"]["additionalContext"]
        member = mesh.mesh.directory.by_session(mesh.mesh.machine, "claude-code", id)
        assert member is not None
        sent = await mesh.mesh.send_message(OWNER, member.id, "before you stop")
        stop = await client.call_tool(HOOK_TOOL, {"event": "Stop", "session_id": id, "stop_hook_active": "false"})
        decision = json.loads(text_of(stop))
        assert decision["decision"] == "block" and "before you stop" in decision["reason"]
        await eventually(lambda: mesh.mesh.mailbox.unread(member.address) == 0, "it was not confirmed")
        assert await state(mesh, sent.id) == "injected"
        nothing = await client.call_tool(HOOK_TOOL, {"event": "Stop", "session_id": id, "stop_hook_active": "true"})
        assert text_of(nothing) == "{}"
        other = await client.call_tool(HOOK_TOOL, {"event": "Stop", "session_id": "g-1"})
        assert other.is_error and f"this is the session {id}, not g-1" in text_of(other)
