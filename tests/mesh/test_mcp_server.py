"""The MCP server with the SDK's own client: both transports, both revisions of the protocol."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import httpx2 as httpx
import mcp_types as types
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from tests.mesh.mcp_clients import REVISIONS, MeshHub, Transport, call, mesh_hub, refusal, text_of

from tieline.mesh.mcp_tools import TOOLS
from tieline.mesh.records import Caller
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]  # each client over stdio is a process

ACCEPT = {"Accept": "application/json, text/event-stream"}
WAYS = [(transport, mode) for transport in ("http", "stdio") for mode in REVISIONS]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mesh(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[MeshHub, None]:
    async with mesh_hub(tmp_path_factory.mktemp("mesh")) as started:
        yield started


def state(mesh: MeshHub, id: str) -> str:
    assert mesh.hub.relay is not None
    live = mesh.hub.relay.dispatcher.in_flight.get(id)
    return live.receipt.state if live else "over"


@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_two_agents_find_each_other_and_talk(mesh: MeshHub, transport: Transport, mode: str) -> None:
    own = f"{transport}-{mode}"
    async with (
        mesh.client(f"a-{own}", transport=transport, mode=mode) as alice,
        mesh.client(f"b-{own}", transport=transport, mode=mode) as bob,
    ):
        listed = {tool.name: tool for tool in (await alice.list_tools()).tools}
        assert set(listed) == set(TOOLS)
        assert listed["list_agents"].annotations and listed["list_agents"].annotations.read_only_hint
        me = await call(alice, "register_agent", name=f"alice-{own}", description="writes the parser", role="backend")
        again = await call(alice, "register_agent", name=f"alice-{own}")
        assert again["known"] and again["member"]["id"] == me["member"]["id"]
        await call(bob, "register_agent", name=f"bob-{own}", description="reviews the stylesheets")
        matches = await call(alice, "find_agents", query=f"stylesheets bob-{own}")
        assert matches["matches"][0]["member"]["name"] == f"bob-{own}"

        waiting = asyncio.create_task(call(bob, "wait_for_messages", timeout_s=30))
        sent = await call(alice, "send_message", to=f"bob-{own}", text="please look at main.css")
        (message,) = (await waiting)["messages"]
        assert message["id"] == sent["id"] and message["sender"] == f"alice-{own}"
        assert "please look at main.css" in message["text"] and message["text"].startswith("<peer-message-")
        await eventually(lambda: state(mesh, sent["id"]) == "over", "it was not confirmed")
        assert (await call(alice, "message_status", message_id=sent["id"]))["state"] == "injected"
        assert (await call(bob, "fetch_messages"))["messages"] == []
        assert (await call(alice, "message_status", message_id=sent["id"]))["state"] == "seen"

        await call(bob, "reply", message_id=sent["id"], text="it is fine")
        (answer,) = (await call(alice, "fetch_messages"))["messages"]
        assert answer["in_reply_to"] == sent["id"] and "it is fine" in answer["text"]
        assert (await call(alice, "message_status", message_id=sent["id"]))["state"] == "answered"
        history = await call(alice, "fetch_message_history", **{"with": f"bob-{own}"})
        assert {message["id"] for message in history["messages"]} == {sent["id"], answer["id"]}


async def test_an_answer_is_waited_for(mesh: MeshHub) -> None:
    async with mesh.client("ask-a") as alice, mesh.client("ask-b") as bob:
        await call(alice, "register_agent", name="asker")
        await call(bob, "register_agent", name="answerer")
        asking = asyncio.create_task(call(alice, "ask_agent", to="answerer", text="how much?", timeout_s=60))
        (question,) = (await call(bob, "wait_for_messages", timeout_s=30))["messages"]
        await call(bob, "reply", message_id=question["id"], text="forty-two")
        assert "forty-two" in (await asking)["answer"]["text"]
        assert (await call(alice, "fetch_messages"))["messages"] == []  # it was handed over as the answer
        late = await call(alice, "ask_agent", to="answerer", text="and now?", timeout_s=1)
        assert late["reason"] == "timeout" and late["question"]["state"] == "stored"


async def test_what_members_of_a_project_share(mesh: MeshHub) -> None:
    async with mesh.client("share-a") as alice, mesh.client("share-b") as bob:
        await call(alice, "register_agent", name="sharer", project="atlas", role="docs")
        await call(bob, "register_agent", name="taker", project="atlas", role="docs")
        await call(alice, "shared_notes", action="put", key="api", text="frozen until friday")
        note = (await call(bob, "shared_notes", action="get", key="api"))["notes"][0]
        assert note["by"] == "sharer" and "\nfrozen until friday\n</peer-message-" in note["text"]
        (listed,) = (await call(bob, "shared_notes", action="list"))["notes"]
        assert listed["key"] == "api" and "text" not in listed
        assert (await call(alice, "reserve_paths", patterns=["src/api/**"], note="rewriting"))["leases"]
        result = await bob.call_tool("reserve_paths", {"patterns": ["src/api/routes.py"]})
        assert "sharer" in text_of(result) and "rewriting" in text_of(result)
        assert (await call(alice, "release_paths"))["released"]
        assert (await call(bob, "reserve_paths", patterns=["src/api/routes.py"]))["leases"]
        done = await call(alice, "broadcast_message", text="done", project="atlas", role="docs")
        assert [delivery["to"] for delivery in done["results"]] == ["taker"]
        assert len((await call(bob, "fetch_messages"))["messages"]) == 1
        assert (await call(bob, "heartbeat", activity="idle"))["activity"] == "idle"
        assert (await call(bob, "get_session_binding"))["session_id"] == "share-b"
        assert (await call(bob, "update_agent_profile", role="tests"))["role"] == "tests"


@pytest.mark.parametrize(
    ("tool", "arguments", "answer"),
    [
        ("wait_for_messages", {}, "No message within 1 s."),
        ("ask_agent", {"to": "owner", "text": "is it done?"}, "No answer yet."),
    ],
)
@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_a_call_that_waits_says_so(
    mesh: MeshHub,
    transport: Transport,
    mode: str,
    tool: str,
    arguments: dict[str, Any],
    answer: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tieline.mesh import mcp_server

    monkeypatch.setattr(mcp_server, "PROGRESS_S", 0.1)
    heard: list[tuple[float, float | None, str | None]] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with mesh.client(f"progress-{transport}-{mode}-{tool}", transport=transport, mode=mode) as client:
        await call(client, "register_agent")
        result = await client.call_tool(tool, {**arguments, "timeout_s": 1}, progress_callback=progress)
        assert answer in text_of(result)
    assert len(heard) >= 2 and heard == sorted(heard, key=lambda each: each[0])
    assert {(total, message) for _, total, message in heard} == {(1.0, f"{tool}: waiting")}


# --- told without being asked --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:resources/")  # the newer revision has no subscriptions; clients in the field do
@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_a_subscriber_is_told_of_a_message(mesh: MeshHub, transport: Transport) -> None:
    notified = asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification) and str(message.params.uri) == "tieline://inbox":
            notified.set()

    own = f"told-{transport}"
    async with (
        mesh.client(own, transport=transport, message_handler=hear) as listener,
        mesh.client(f"{own}-b") as sender,
    ):
        await call(listener, "register_agent", name=own)
        await call(sender, "register_agent")
        (inbox,) = (await listener.list_resources()).resources
        await listener.session.subscribe_resource(str(inbox.uri))  # pyright: ignore[reportDeprecated]
        async with asyncio.timeout(30):
            while not notified.is_set():  # the client opens its stream in its own time
                await call(sender, "send_message", to=own, text="hello")
                try:
                    await asyncio.wait_for(notified.wait(), 1)
                except TimeoutError:
                    continue
        (content,) = (await listener.read_resource("tieline://inbox")).contents
        assert isinstance(content, types.TextResourceContents) and "unread" in content.text
        await listener.session.unsubscribe_resource("tieline://inbox")  # pyright: ignore[reportDeprecated]


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_a_listener_without_a_session_is_told_of_a_message(mesh: MeshHub, transport: Transport) -> None:
    own = f"listen-{transport}"
    async with (
        mesh.client(own, transport=transport, mode="2026-07-28") as listener,
        mesh.client(f"{own}-b") as sender,
    ):
        await call(listener, "register_agent", name=own)
        await call(sender, "register_agent")
        async with asyncio.timeout(30), listener.listen(resource_subscriptions=["tieline://inbox"]) as events:
            await call(sender, "send_message", to=own, text="hello")
            async for event in events:
                assert "inbox" in str(event)
                break


async def test_only_the_own_inbox_is_a_resource(mesh: MeshHub) -> None:
    async with mesh.client("stranger") as client:
        for uri in ("tieline://inbox/mb-0", "file:///etc/passwd"):
            with pytest.raises(Exception, match="no resource"):
                await client.read_resource(uri)
        with pytest.raises(Exception, match="not registered"):
            await client.read_resource("tieline://inbox")


# --- nothing is lost -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", REVISIONS)
async def test_a_client_that_vanishes_while_it_waits_loses_nothing(mesh: MeshHub, mode: str) -> None:
    own = f"vanish-{mode}"
    async with mesh.client(f"{own}-b") as sender, mesh.client(own) as registered:
        address = (await call(registered, "register_agent", name=own))["member"]["address"]
        await call(sender, "register_agent")
        async with mesh.client(own, mode=mode) as vanishing:
            waiting = asyncio.create_task(vanishing.call_tool("wait_for_messages", {"timeout_s": 30}))
            await eventually(lambda: mesh.mesh.mailbox.is_awaited(address), "it does not wait")
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        sent = await call(sender, "send_message", to=own, text="still there?")
        async with asyncio.timeout(30):
            (message,) = (await call(registered, "wait_for_messages", timeout_s=20))["messages"]
        assert message["id"] == sent["id"]


async def test_a_bridge_confirms_what_it_wrote(mesh: MeshHub) -> None:
    """Over HTTP with a bridge's header: until it confirms, the message is not handed over."""
    headers = {"X-Tieline-Harness": "test", "X-Tieline-Session": "confirming", "X-Tieline-Bridge": "b1"}
    async with mesh.client("confirming-b") as sender, mesh.http({**headers, **ACCEPT}) as http:
        await call(sender, "register_agent")
        await modern(http, "register_agent", name="confirming")
        sent = await call(sender, "send_message", to="confirming", text="hello")
        result = await modern(http, "fetch_messages")
        delivery = result["_meta"]["tieline/delivery"]
        assert state(mesh, sent["id"]) == "stored"
        assert (await call(sender, "message_status", message_id=sent["id"]))["state"] == "stored"
        assert (await modern(http, "fetch_messages"))["structuredContent"]["messages"] == []  # it is on its way
        assert (await http.post("/mcp/delivered", json={"delivery": delivery})).status_code == 204
        assert (await call(sender, "message_status", message_id=sent["id"]))["state"] == "injected"
        again = await http.post("/mcp/delivered", json={"delivery": delivery})
        assert (again.status_code, again.json()["field"]) == (404, "delivery")


async def test_the_same_request_again_happens_once(mesh: MeshHub) -> None:
    headers = {"X-Tieline-Harness": "test", "X-Tieline-Session": "again", "X-Tieline-Bridge": "b2"}
    async with mesh.http({**headers, **ACCEPT}) as http:
        await modern(http, "register_agent", name="again")
        http.headers["X-Tieline-Key"] = "b2-7"
        first = await modern(http, "send_message", to="again", text="once")
        second = await modern(http, "send_message", to="again", text="once")
        assert first["structuredContent"]["id"] == second["structuredContent"]["id"]
        del http.headers["X-Tieline-Key"]
        assert len((await modern(http, "fetch_messages"))["structuredContent"]["messages"]) == 1


async def modern(http: httpx.AsyncClient, tool: str, **arguments: Any) -> dict[str, Any]:
    reply = await http.post("/mcp", json=envelope(tool, arguments), headers=modern_headers("tools/call", tool))
    return reply.json()["result"]


def envelope(tool: str, arguments: object) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params: dict[str, Any] = {"name": tool, "arguments": arguments, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def modern_headers(method: str, name: str) -> dict[str, str]:
    return {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}


# --- who may -------------------------------------------------------------------------------------------------


async def test_every_kind_of_key_at_the_endpoint(mesh: MeshHub) -> None:
    hub = mesh.hub
    (_, node), (_, own) = await hub.devices.add("node", "n", node="n1"), await hub.devices.add("mesh", "laptop")
    async with httpx.AsyncClient(base_url=mesh.serving.url, headers=ACCEPT, timeout=30, verify=False) as http:
        body = envelope("register_agent", {"name": "from-afar"})
        headers = modern_headers("tools/call", "register_agent")
        for key, status in (("", 401), ("tl_nobody", 401), (node, 403)):
            known = {"Authorization": f"Bearer {key}"} if key else {}
            for method, path in (("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("POST", "/mcp/delivered")):
                reply = await http.request(method, path, json=body, headers={**headers, **known})
                assert reply.status_code == status, (key, method, path)
        known = {"Authorization": f"Bearer {own}"}
        made = (await http.post("/mcp", json=body, headers={**headers, **known})).json()["result"]
        member = made["structuredContent"]["member"]
        assert member["machine"].startswith("laptop-")  # another machine's sessions are others, whatever it says


async def test_nobody_is_somebody_else(mesh: MeshHub) -> None:
    async with mesh.client("honest") as honest, mesh.client("mallory") as mallory:
        victim = await call(honest, "register_agent", name="honest")
        assert "this is the session mallory, not honest" in await refusal(
            mallory, "register_agent", name="x", session_id="honest"
        )
        await call(mallory, "register_agent", name="mallory")
        assert "belongs to honest" in await refusal(
            mallory, "send_message", to="honest", text="x", token=victim["token"]
        )
        assert "token" in await refusal(mallory, "fetch_messages", token="tm_guessed")
        assert "is not you" in await refusal(mallory, "bind_session", agent_id=victim["member"]["id"])
        assert "taken by" in await refusal(mallory, "register_agent", name="honest")
        assert "person" in await refusal(mallory, "register_agent", name="owner")
        note = await call(honest, "send_message", to="honest", text="secret")
        assert "secret" not in await refusal(mallory, "message_status", message_id=note["id"])
        await call(honest, "fetch_messages")
    audit = Path(mesh.env["TIELINE_HOME"], "audit.jsonl")
    assert "this is the session mallory, not honest" in audit.read_text()


async def test_a_session_is_for_the_device_that_opened_it(mesh: MeshHub) -> None:
    (_, own_key), (_, other_key) = [await mesh.hub.devices.add("mesh", name) for name in ("one", "other")]
    async with httpx.AsyncClient(base_url=mesh.serving.url, headers=ACCEPT, timeout=30, verify=False) as http:
        session = await opened(http, own_key)
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        for key, status in ((own_key, 200), (other_key, 404)):
            headers = {"Authorization": f"Bearer {key}", "Mcp-Session-Id": session}
            assert (await http.post("/mcp", json=ping, headers=headers)).status_code == status


async def test_revoking_ends_an_open_stream(mesh: MeshHub) -> None:
    device, key = await mesh.hub.devices.add("mesh", "lost")
    async with httpx.AsyncClient(base_url=mesh.serving.url, headers=ACCEPT, timeout=30, verify=False) as http:
        session = await opened(http, key)
        headers = {"Authorization": f"Bearer {key}", "Mcp-Session-Id": session}
        async with asyncio.timeout(30), http.stream("GET", "/mcp", headers=headers) as stream:
            assert stream.status_code == 200
            await mesh.hub.devices.revoke(device.id)
            try:
                async for _ in stream.aiter_bytes():
                    pass
            except httpx.RemoteProtocolError:
                pass  # cut off in the middle


async def opened(http: httpx.AsyncClient, key: str) -> str:
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    headers = {"Authorization": f"Bearer {key}"}
    reply = await http.post("/mcp", json=body, headers=headers)
    session = reply.headers["mcp-session-id"]
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    await http.post("/mcp", json=ready, headers={**headers, "Mcp-Session-Id": session})
    return session


# --- malformed calls -----------------------------------------------------------------------------------------

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
names = st.sampled_from([*sorted(TOOLS), "", "nonsense", "__class__"])
arguments = st.dictionaries(
    st.sampled_from(["odd", *sorted({name for tool in TOOLS.values() for name in tool.schema()["properties"]})]),
    anything,
    max_size=5,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=names, given_arguments=arguments | anything)
async def test_odd_calls_get_clear_answers(mesh: MeshHub, name: str, given_arguments: Any) -> None:
    if isinstance(given_arguments, dict) and "timeout_s" in given_arguments:
        given_arguments["timeout_s"] = "soon"  # else it waits
    headers = {"X-Tieline-Harness": "test", "X-Tieline-Session": "fuzz", **ACCEPT}
    async with mesh.http(headers) as http:
        if name == "wait_for_messages":
            name = "fetch_messages"
        if name == "ask_agent":
            given_arguments = {"to": 3}
        reply = await http.post(
            "/mcp", json=envelope(name, cast(object, given_arguments)), headers=modern_headers("tools/call", name)
        )
    assert reply.status_code in (200, 400, 404)
    body = reply.json()
    if "error" in body:
        assert body["error"]["code"] in (-32602, -32600, -32601, -32020, -32001)
    elif body["result"].get("isError"):
        assert body["result"]["structuredContent"]["error"]["message"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=200) | anything.map(lambda value: json.dumps(value).encode()), new=st.booleans())
async def test_odd_bodies_break_nothing(mesh: MeshHub, body: bytes, new: bool) -> None:
    headers = {**ACCEPT, "Content-Type": "application/json", **(modern_headers("ping", "") if new else {})}
    async with mesh.http(headers) as http:
        reply = await http.post("/mcp", content=body)
        assert 200 <= reply.status_code < 500
        assert (await http.get("/healthz")).status_code == 200


async def test_limits_are_clear_when_they_are_hit(mesh: MeshHub) -> None:
    async with mesh.client("limits") as client:
        await call(client, "register_agent", name="limits")
        too_long = "the message has 778,241 bytes as JSON, the most is 778,240"
        refused = await refusal(client, "send_message", to="limits", text="x" * 778_239)
        assert too_long in refused and "takes 1 MiB at once" in refused and "path of a file" in refused
        assert "<= 50" in await refusal(client, "fetch_messages", limit=51)
        assert "is empty" in await refusal(client, "send_message", to="limits", text=" ")
        sent = await call(client, "send_message", to="limits", text="y" * (200 * 1024))
        assert sent["state"] == "stored"
        (message,) = (await call(client, "fetch_messages"))["messages"]
        assert len(message["text"]) > 200 * 1024
        for text in ("x" * 778_238, "\n" * 100 + "é" * 389_000, "last"):
            await call(client, "send_message", to="limits", text=text)
            result = await client.call_tool("fetch_messages", {})
            assert text in text_of(result)  # the longest goes through, its text being there once
        assert result.structured_content is not None


REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "register_agent": [
        ({"name": "x" * 65}, "at most 64"),
        ({"name": "a b"}, "cannot be a name"),
        ({"name": "table-peer"}, "is taken by"),
        ({"name": "owner"}, "cannot register as a person"),
        ({"session_id": "table-peer"}, "this is the session table-me, not table-peer"),
    ],
    "update_agent_profile": [({"name": "table-peer"}, "is taken by"), ({"role": 3}, "Expected `str`")],
    "list_agents": [({"limit": 101}, "<= 100"), ({"limit": 0}, ">= 1"), ({"activity": "lazy"}, "'lazy'")],
    "find_agents": [({"query": "x", "limit": 101}, "<= 100"), ({}, "`query`")],
    "send_message": [
        ({"to": "nobody", "text": "x"}, "no member 'nobody'"),
        ({"to": "table-peer", "text": " "}, "is empty"),
        ({"to": "table-peer", "text": "x" * 778_239}, "the most is 778,240"),
        ({"to": "table-peer", "text": "x", "thread": "a b"}, "not a valid thread name"),
        ({"to": "table-peer", "text": "x", "sender": "owner"}, "unknown field `sender`"),
        ({"to": "table-peer", "text": "x", "token": "tm_guessed"}, "the token is not valid"),
    ],
    "broadcast_message": [({"text": ""}, "is empty"), ({"text": "x", "kind": "person"}, "unknown field `kind`")],
    "reply": [
        ({"message_id": "nope", "text": "x"}, "there is no message 'nope'"),
        ({"message_id": "", "text": "x"}, "there is no message ''"),
        ({"message_id": "relay.>/../*", "text": "x"}, "there is no message"),
        ({"message_id": "x" * 5000, "text": "x"}, "there is no message"),
    ],
    "ask_agent": [
        ({"to": "table-peer", "text": "x", "timeout_s": 101}, "<= 100"),
        ({"to": "nobody", "text": "x"}, "no member 'nobody'"),
        ({"to": "table-me", "text": "x"}, "an answer of your own"),
    ],
    "fetch_messages": [({"limit": 51}, "<= 50"), ({"limit": 0}, ">= 1")],
    "wait_for_messages": [
        ({"timeout_s": 101}, "<= 100"),
        ({"timeout_s": -1}, ">= 0"),
        ({"timeout_s": 0, "limit": 51}, "<= 50"),
    ],
    "fetch_message_history": [
        ({"limit": 51}, "<= 50"),
        ({"with": "nobody"}, "no member 'nobody'"),
        ({"before": "a b"}, "there is no message 'a b'"),
    ],
    "message_status": [({"message_id": "a b"}, "there is no message 'a b'"), ({}, "`message_id`")],
    "bind_session": [({"agent_id": "nope"}, "no member has the id 'nope'"), ({}, "`agent_id`")],
    "get_session_binding": [({"agent_id": "nope"}, "no member 'nope'")],
    "heartbeat": [({"activity": "asleep"}, "'asleep'")],
    "shared_notes": [
        ({"action": "put", "text": "x"}, "needs a key"),
        ({"action": "put", "key": "k" * 201, "text": "x"}, "1 to 200 characters"),
        ({"action": "put", "key": "k", "text": "x" * 65_537}, "at most 65,536 bytes"),
        ({"action": "burn"}, "'burn'"),
    ],
    "reserve_paths": [
        ({"patterns": []}, ">= 1"),
        ({"patterns": ["a"] * 51}, "<= 50"),
        ({"patterns": ["a" * 301]}, "1 to 300 characters"),
        ({"patterns": ["a"], "ttl_s": 86_401}, "<= 86400"),
        ({"patterns": ["../x"]}, "outside the project"),
    ],
    "release_paths": [({"patterns": ["a"] * 51}, "<= 50"), ({"patterns": ["/etc"]}, "outside the project")],
}
"""Of each tool what is wrong, forged or too much, and what its caller is told."""
OPEN = {"register_agent", "list_agents", "find_agents"}
"""They show members to whoever is let in; all others are for members."""


@pytest.mark.parametrize("mode", REVISIONS)
async def test_every_tool_says_what_is_wrong(mesh: MeshHub, mode: str) -> None:
    async with (
        mesh.client("table-me", mode=mode) as me,
        mesh.client("table-peer", mode=mode) as peer,
        mesh.client("table-stranger", mode=mode) as stranger,
    ):
        await call(me, "register_agent", name="table-me", project="shop")
        await call(peer, "register_agent", name="table-peer", project="shop")
        assert set(REFUSED) == set(TOOLS)
        for tool, rows in REFUSED.items():
            for given_arguments, problem in rows:
                assert problem in await refusal(me, tool, **given_arguments), (tool, str(given_arguments)[:80])
            assert "unknown field `odd`" in await refusal(me, tool, odd=1)
        for tool in set(TOOLS) - OPEN:
            whole = {name: "list" if name == "action" else ["a"] if name == "patterns" else "x"
                     for name in TOOLS[tool].schema().get("required", ())}  # fmt: skip
            assert "register_agent" in await refusal(stranger, tool, **whole), tool
        assert (await call(peer, "fetch_messages"))["messages"] == []


async def test_a_session_in_any_call_is_who_calls(tmp_path: Path) -> None:
    """One server for all sessions of a harness: its plugin adds the session to each call."""
    async with (
        mesh_hub(tmp_path) as hub,
        hub.http({"X-Tieline-Harness": "opencode"}) as http,
        Client(streamable_http_client(hub.url, http_client=http), mode="legacy") as client,
    ):
        for name in ("one", "two"):
            await call(client, "register_agent", name=name, session_id=f"ses_{name}")
        for name in ("one", "two"):
            await call(client, "send_message", to="owner", text=f"from {name}", session_id=f"ses_{name}")
        history = await hub.mesh.fetch_message_history(Caller(person="owner"))
        assert {message.text: message.sender for message in history} == {"from one": "one", "from two": "two"}


async def test_every_tool_answers_the_same_over_both_transports(mesh: MeshHub) -> None:
    http, stdio = [await everything(mesh, transport) for transport in ("http", "stdio")]
    assert set(http) == set(TOOLS) | {"tools", "capabilities"}
    assert http == stdio
    capabilities = http["capabilities"]
    assert not capabilities.get("experimental") and not capabilities.get("extensions"), "standard MCP only"


async def everything(mesh: MeshHub, transport: Transport) -> dict[str, Any]:
    """What each tool answers; words that differ by session are the same word, and numbers are left out."""
    me, peer = f"every-{transport}", f"every-{transport}-peer"
    answers: dict[str, Any] = {}
    async with (
        mesh.client(me, transport=transport, harness="claude-code") as client,
        mesh.client(peer) as other,
    ):
        answers["tools"] = [tool.model_dump() for tool in (await client.list_tools()).tools]
        assert client.server_capabilities is not None
        answers["capabilities"] = client.server_capabilities.model_dump(exclude_none=True)

        async def answer(tool: str, **arguments: Any) -> dict[str, Any]:
            value = await call(client, tool, **arguments)
            answers[tool] = shape(value)
            return value

        id = (await answer("register_agent", name=me, project=me, role="docs"))["member"]["id"]
        await call(other, "register_agent", name=peer, project=me, role="docs")
        binding = await answer("get_session_binding")
        assert (binding["session_id"], binding["harness"]) == (me, "claude-code")
        await answer("bind_session", agent_id=id)
        await answer("update_agent_profile", specialisation="all of it")
        await answer("heartbeat", activity="working")
        await answer("list_agents", project=me)
        await answer("find_agents", query=peer, project=me)
        sent = await answer("send_message", to=peer, text="hello")
        await answer("broadcast_message", text="hello all", project=me)
        await answer("message_status", message_id=sent["id"])
        await answer("ask_agent", to=peer, text="now?", timeout_s=1)
        question = await call(other, "send_message", to=me, text="and you?")
        await answer("wait_for_messages", timeout_s=30)
        await answer("reply", message_id=question["id"], text="me too")
        await answer("fetch_messages")
        await answer("fetch_message_history", **{"with": peer})
        await answer("shared_notes", action="put", key="k", text="t")
        await answer("reserve_paths", patterns=["src/**"])
        await answer("release_paths")
    return answers


def shape(value: Any) -> Any:
    """Keys and types."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [shape(each) for each in cast("list[Any]", value)]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
