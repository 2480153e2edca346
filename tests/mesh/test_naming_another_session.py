"""A command in one terminal names the session of another, in every way that a request has: it gets nothing of it.

The victim's member, its messages and its name stay its own, whether the command is still below its harness or has
detached itself.
"""

import base64
import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from msgspec import Struct
from tests.mesh.mcp_clients import OWNER, MeshHub, mesh_hub, refusal
from tests.mesh.standin_terminals import Request, Start, Terminal, terminal

from tieline.hub.security.access_rules import TERMINAL_ONLY
from tieline.protocol.mesh import HOOK_TOOL, MemberView, SentMessage
from tieline.testing.wait_for import eventually

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(sys.platform != "linux", reason="descent is read from /proc"),
]

VERSION = "2026-07-28"
SECRET, FORGED = "the secret of the victim", "forged in its name"
HOOKS, PLUGINS = "/api/v1/harness-hooks", "/api/v1/harness-plugins"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mesh(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[MeshHub, None]:
    async with mesh_hub(tmp_path_factory.mktemp("mesh")) as started:
        yield started


def tool(name: str, headers: dict[str, str], meta: Any = None, **arguments: Any) -> Request:
    """A call without an MCP session."""
    whole: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
        **(meta or {}),
    }
    body = {"name": name, "arguments": arguments, "_meta": whole}
    fields = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Mcp-Protocol-Version": VERSION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
        **headers,
    }
    return "POST", "/mcp", fields, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": body}


def hook(harness: str, event: str, session: str, **more: Any) -> Request:
    body = {"hook_event_name": event, "session_id": session, **more}
    return "POST", f"{HOOKS}?harness={harness}", {"Content-Type": "application/json"}, body


def body_of(answer: str) -> Any:
    head, _, body = answer.partition("\r\n\r\n")
    assert " 200 " in head.split("\r\n")[0], answer
    if "chunked" in head.lower():
        body = body.split("\r\n")[1]
    return json.loads(body)


class Victim(Struct):
    member: MemberView
    token: str
    unread: SentMessage
    own: Callable[..., Request]  # a call of its own


Way = Callable[[Victim], list[Request]]
"""How an attack names the victim."""


def with_tools(call: Callable[..., Request]) -> Way:
    """All that could be had of a session, once it is taken for the caller's."""

    def requests(victim: Victim) -> list[Request]:
        def named(tool_name: str, **arguments: Any) -> Request:
            return call(victim, tool_name, **arguments)

        return [
            named("fetch_messages"),
            named("wait_for_messages", timeout_s=0),
            named("fetch_message_history"),
            named("message_status", message_id=victim.unread.id),
            named("send_message", to="owner", text=FORGED),
            named("reply", message_id=victim.unread.id, text=FORGED),
            named("update_agent_profile", description="stolen"),
            named("bind_session", agent_id=victim.member.id),
            named("register_agent", description="stolen"),
        ]

    return requests


def by_headers(more: Mapping[str, str] = {}, *, written: Callable[[str], str] = str) -> Way:
    def call(victim: Victim, name: str, **arguments: Any) -> Request:
        headers = {"X-Tieline-Session": victim.member.session, "X-Tieline-Harness": victim.member.harness}
        return tool(name, {**{header: written(value) for header, value in headers.items()}, **more}, **arguments)

    return with_tools(call)


def in_base64(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def by_meta(meta: Callable[[str], dict[str, Any]]) -> Way:
    def call(victim: Victim, name: str, **arguments: Any) -> Request:
        headers = {"X-Tieline-Harness": victim.member.harness, "X-Tieline-Bridge": uuid4().hex}
        return tool(name, headers, meta(victim.member.session), **arguments)

    return with_tools(call)


def by_argument(victim: Victim) -> list[Request]:
    def call(victim: Victim, name: str, **arguments: Any) -> Request:
        headers = {"X-Tieline-Harness": victim.member.harness, "X-Tieline-Bridge": "b" * 32}
        if name != "bind_session":
            arguments["session_id"] = victim.member.session
        return tool(name, headers, **arguments)

    return with_tools(call)(victim)


def by_connection(header: str) -> Way:
    """Others see what its session is called, and so what it was made of."""

    def call(victim: Victim, name: str, **arguments: Any) -> Request:
        seen = victim.member.session.partition("-")[2] or victim.member.session
        return tool(name, {"X-Tieline-Harness": victim.member.harness, header: seen}, **arguments)

    return with_tools(call)


def by_harness_argument(victim: Victim) -> list[Request]:
    member = victim.member
    named = {"session_id": member.session, "harness": member.harness}
    return [
        tool("register_agent", {"X-Tieline-Harness": "other"}, description="stolen", **named),
        tool("register_agent", {}, description="stolen", **named),
        tool("bind_session", {}, agent_id=member.id, **named),
        tool("bind_session", {"X-Tieline-Session": "mine"}, agent_id=member.id),
        tool("bind_session", {"X-Tieline-Session": "mine"}, agent_id=member.id, harness=member.harness),
    ]


def by_hook(victim: Victim) -> list[Request]:
    """Which of them has messages in its answer differs by harness."""
    events = ("SessionStart", "UserPromptSubmit", "BeforeAgent", "PostToolUse", "AfterTool", "Stop", "AfterAgent")
    return [hook(victim.member.harness, event, victim.member.session) for event in (*events, "SessionEnd")]


def by_hook_tool(victim: Victim) -> list[Request]:
    requests: list[Request] = []
    for event in ("SessionStart", "PostToolUse", "Stop", "SessionEnd"):
        arguments = {"hook_event_name": event, "session_id": victim.member.session}
        headers = {"X-Tieline-Harness": victim.member.harness, "X-Tieline-Bridge": "c" * 32}
        requests += [
            tool(HOOK_TOOL, headers, **arguments),
            tool(HOOK_TOOL, {**headers, "X-Tieline-Hook": "1"}, **arguments),
            tool(
                HOOK_TOOL, {**headers, "X-Tieline-Hook": "1", "X-Tieline-Session": victim.member.session}, **arguments
            ),
        ]
    return requests


def by_rest(victim: Victim) -> list[Request]:
    member, json_type = victim.member, {"Content-Type": "application/json"}
    sent = {"to": "owner", "text": FORGED, "session": member.session}
    return [
        ("GET", f"/api/v1/inboxes/{member.address}", {}, None),
        ("GET", f"/api/v1/inboxes/@{member.name}", {}, None),
        ("POST", f"/api/v1/inboxes/{member.address}/read", json_type, {}),
        ("GET", "/api/v1/messages", {}, None),
        ("GET", f"/api/v1/messages/{victim.unread.id}/trace", {}, None),
        ("GET", "/api/v1/dead", {}, None),
        ("POST", "/api/v1/messages", json_type, sent),
    ]


WAYS: dict[str, tuple[str, Way]] = {
    "the header of a bridge": ("header", by_headers({"X-Tieline-Bridge": "d" * 32})),
    "the header without a bridge": ("header", by_headers()),
    "the header in base64": ("header", by_headers(written=in_base64)),
    "the header, of a session that a model named": ("argument", by_headers()),
    "the header, of a thread": ("meta", by_headers()),
    "the header, of a session that a hook named": ("hook", by_headers()),
    "the header, of what has no session": ("bridge", by_headers()),
    "the bridge of what has no session": ("bridge", by_connection("X-Tieline-Bridge")),
    "the MCP session of what has no session": ("bridge", by_connection("Mcp-Session-Id")),
    "threadId in _meta": ("meta", by_meta(lambda session: {"threadId": session})),
    "sessionId in _meta": ("meta", by_meta(lambda session: {"sessionId": session})),
    "turn metadata in _meta": ("meta", by_meta(lambda session: {"x-codex-turn-metadata": {"thread_id": session}})),
    "_meta, of a session of a header": ("header", by_meta(lambda session: {"threadId": session})),
    "session_id in a call": ("argument", by_argument),
    "session_id in a call, of a thread": ("meta", by_argument),
    "session_id in a call, of a session of a hook": ("hook", by_argument),
    "harness and session_id in a call": ("header", by_harness_argument),
    "a hook": ("hook", by_hook),
    "a hook, of a session of a header": ("header", by_hook),
    "the tool of hooks": ("header", by_hook_tool),
    "the REST interface": ("header", by_rest),
}


async def victim_of(mesh: MeshHub, kind: str, terminal: Terminal) -> Victim:
    session = f"{kind}-{uuid4().hex}"
    bridge = {"X-Tieline-Bridge": uuid4().hex}

    def own(name: str, **arguments: Any) -> Request:
        match kind:
            case "header":
                return tool(
                    name, {**bridge, "X-Tieline-Session": session, "X-Tieline-Harness": "claude-code"}, **arguments
                )
            case "meta":
                return tool(name, {**bridge, "X-Tieline-Harness": "codex"}, {"threadId": session}, **arguments)
            case "argument":
                return tool(name, {**bridge, "X-Tieline-Harness": "opencode"}, session_id=session, **arguments)
            case "bridge":
                return tool(name, {**bridge, "X-Tieline-Harness": "cursor"}, **arguments)
            case _:  # its hooks say which session its bridge has
                return tool(name, {**bridge, "X-Tieline-Harness": "gemini"}, **arguments)

    if kind == "hook":
        await terminal.send([hook("gemini", "SessionStart", session)])
        member = mesh.mesh.directory.by_session(mesh.mesh.machine, "gemini", session)
        assert member is not None
        made, token = mesh.mesh.directory.view(member), ""
    else:
        (answer,) = await terminal.send([own("register_agent")])
        value = body_of(answer)["result"]["structuredContent"]
        token, made = value["token"], mesh.mesh.directory.resolve(value["member"]["id"])
    unread = await mesh.mesh.send_message(OWNER, made.id, SECRET)
    return Victim(made, token, unread, own)


STARTS: tuple[Start, ...] = ("child", "detached")
TRIES = [(way, start) for way in WAYS for start in STARTS if (way, start) != ("the REST interface", "detached")]
"""What has left every terminal looks like the person at the REST interface: docs/security.md says so."""


@pytest.mark.parametrize(("way", "start"), TRIES)
async def test_a_command_in_another_terminal_gets_nothing_of_a_session_that_it_names(
    mesh: MeshHub, way: str, start: Start
) -> None:
    kind, attack = WAYS[way]
    async with terminal(mesh.serving.socket) as home, terminal(mesh.serving.socket) as elsewhere:
        victim = await victim_of(mesh, kind, home)
        own = {"X-Tieline-Session": uuid4().hex, "X-Tieline-Harness": "claude-code", "X-Tieline-Bridge": "e" * 32}
        await elsewhere.send([tool("register_agent", own)])
        requests = attack(victim)
        answers = await elsewhere.send(requests, start)
        assert len(answers) == len(requests)
        for request, answer in zip(requests, answers, strict=True):
            assert SECRET not in answer, request
            assert '"token":"tm_' not in answer or victim.member.id not in answer, request
        await is_unharmed(mesh, victim, home)


async def is_unharmed(mesh: MeshHub, victim: Victim, home: Terminal) -> None:
    now = mesh.mesh.directory.resolve(victim.member.id)
    kept = ("session", "harness", "name", "description", "ended", "unread")
    assert {name: getattr(now, name) for name in kept} == {name: getattr(victim.member, name) for name in kept} | {
        "unread": 1
    }
    history = await mesh.mesh.fetch_message_history(OWNER)
    assert [message.sender for message in history if message.text == FORGED and message.sender_id == now.id] == []
    (fetched,) = await home.send([victim.own("fetch_messages")])
    assert SECRET in fetched and victim.unread.id in fetched
    if victim.token:
        (proved,) = await home.send([victim.own("heartbeat", token=victim.token)])
        assert not body_of(proved)["result"].get("isError"), proved


async def test_what_a_members_command_has_detached_gets_no_lasting_power(mesh: MeshHub) -> None:
    async with terminal(mesh.serving.socket) as home:
        await victim_of(mesh, "header", home)
        wanted: list[Request] = [
            (method, path.format(session="x", schedule="x", rule="x"), {"Content-Type": "application/json"}, {})
            for method, path in sorted(TERMINAL_ONLY)
        ]
        refusals: dict[Start, str] = {
            "child": "from an agent in a terminal",
            "detached": "cannot tell whether a person asks",
        }
        for start, why in refusals.items():
            for request, answer in zip(wanted, await home.send(wanted, start), strict=True):
                assert " 403 " in answer.partition("\r\n")[0] and why in answer, (start, request)


async def test_a_bridge_that_is_given_anothers_session_in_its_environment_is_refused(mesh: MeshHub) -> None:
    async with terminal(mesh.serving.socket) as home:
        victim = await victim_of(mesh, "header", home)
        async with mesh.client(victim.member.session, transport="stdio") as stolen:  # a process of the tests, not of it
            for name in ("fetch_messages", "register_agent"):
                assert "in another terminal" in await refusal(stolen, name)
        await is_unharmed(mesh, victim, home)
    assert f"as {victim.member.name}" in Path(mesh.env["TIELINE_HOME"], "audit.jsonl").read_text()


async def test_whose_session_it_is_survives_a_restart_of_the_hub(tmp_path: Path) -> None:
    async with AsyncExitStack() as terminals:
        async with mesh_hub(tmp_path) as before:
            home, elsewhere = [await terminals.enter_async_context(terminal(before.serving.socket)) for _ in range(2)]
            victim = await victim_of(before, "header", home)
        async with mesh_hub(tmp_path) as after:
            for answer in await elsewhere.send(by_headers()(victim)):
                assert SECRET not in answer and "in another terminal" in answer
            await is_unharmed(after, victim, home)


async def test_a_session_that_is_resumed_in_another_terminal_is_the_same_member(mesh: MeshHub) -> None:
    async with terminal(mesh.serving.socket) as elsewhere:
        async with terminal(mesh.serving.socket) as home:
            victim = await victim_of(mesh, "header", home)
            (refused,) = await elsewhere.send([victim.own("fetch_messages")])
            assert SECRET not in refused
            (proved,) = await elsewhere.send([victim.own("heartbeat", token=victim.token)])
            assert not body_of(proved)["result"].get("isError"), "its token shows that it is the same"
        await is_unharmed(mesh, victim, elsewhere)
        async with terminal(mesh.serving.socket) as third:
            (refused,) = await third.send([victim.own("fetch_messages")])
            assert "in another terminal" in refused, "now it is that terminal's"


async def test_a_session_that_its_harness_has_left_is_resumed_in_another_terminal(mesh: MeshHub) -> None:
    async with terminal(mesh.serving.socket) as home, terminal(mesh.serving.socket) as elsewhere:
        victim = await victim_of(mesh, "header", home)
        await home.send([hook(victim.member.harness, "SessionEnd", victim.member.session)])
        (welcome,) = await elsewhere.send([hook(victim.member.harness, "SessionStart", victim.member.session)])
        assert victim.member.name in welcome
        await is_unharmed(mesh, Victim(victim.member, "", victim.unread, victim.own), elsewhere)
        (refused,) = await home.send([victim.own("fetch_messages")])
        assert "in another terminal" in refused, "its former harness still runs, with another session"


async def test_the_session_that_a_member_had_before_does_not_lead_to_it(mesh: MeshHub) -> None:
    async with terminal(mesh.serving.socket) as home, terminal(mesh.serving.socket) as elsewhere:
        victim = await victim_of(mesh, "bridge", home)
        session, cursor = uuid4().hex, {"X-Tieline-Harness": "cursor"}
        bind = tool(
            "bind_session", cursor, agent_id=victim.member.id, session_id=session, harness="cursor", token=victim.token
        )
        (bound,) = await home.send([bind])
        assert not body_of(bound)["result"].get("isError"), bound
        former = {"X-Tieline-Session": victim.member.session, **cursor}
        (made,) = await elsewhere.send([tool("register_agent", former)])
        assert body_of(made)["result"]["structuredContent"]["member"]["id"] != victim.member.id
        (fetched,) = await home.send([tool("fetch_messages", {"X-Tieline-Session": session, **cursor})])
        assert SECRET in fetched


async def test_a_plugin_that_names_anothers_session_gets_none_of_its_messages(mesh: MeshHub) -> None:
    reach = mesh.hub.plugin_connectors["opencode"]
    async with terminal(mesh.serving.socket) as home, mesh.http() as http:
        victim = await victim_of(mesh, "argument", home)
        async with http.stream("GET", f"{PLUGINS}?harness=opencode") as stream:
            lines = stream.aiter_lines()
            welcome = json.loads((await anext(lines)).removeprefix("data: "))
            session = {"id": victim.member.session, "activity": "idle"}
            body = {"link": welcome["link"], "sessions": [session]}
            await http.post(f"{PLUGINS}/opencode/sessions", json=body)
            await eventually(lambda: reach.link_of(victim.member.session) is not None, "it is not connected")
            again = await mesh.mesh.send_message(OWNER, victim.member.id, "for the victim alone")
            (fetched,) = await home.send([victim.own("fetch_messages")])
            assert again.id in fetched and SECRET in fetched, "none is on its way to the plugin"
        await eventually(lambda: reach.link_of(victim.member.session) is None, "it does not go")
        assert not mesh.mesh.directory.resolve(victim.member.id).ended


async def test_what_runs_in_a_terminal_is_no_session_and_reads_its_persons_messages_only(mesh: MeshHub) -> None:
    json_type = {"Content-Type": "application/json"}
    async with terminal(mesh.serving.socket) as home, terminal(mesh.serving.socket) as elsewhere:
        victim = await victim_of(mesh, "header", home)
        await victim_of(mesh, "header", elsewhere)
        driven = {"to": "owner", "text": FORGED, "session": "0123456789ab"}
        requests: list[Request] = [
            ("POST", "/api/v1/messages", json_type, driven),
            ("GET", f"/api/v1/messages/{victim.unread.id}", {}, None),
            ("GET", "/api/v1/inboxes/relay.user.owner", {}, None),
        ]
        forged, own, inbox = await elsewhere.send(requests)
        assert " 403 " in forged and "not a session of this hub" in forged
        assert " 200 " in own, "the owner sent it"
        assert " 200 " in inbox
