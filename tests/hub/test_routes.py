"""The routes, over a real hub with a real session manager and the scripted agent."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from tests.hub.conftest import Running, caller, running

from tieline import script
from tieline.drivers.scripted import Scripted
from tieline.hub.nodes.command_helpers import actor_name
from tieline.protocol.views import DeviceView


async def events(hub: Running, session: str, until: str = "done", after: int = 0) -> list[dict[str, Any]]:
    """The session's events, once there is one of a type."""
    async with asyncio.timeout(60):
        async for entry in hub.manager.events(session, after=after):
            if entry.event.type == until:
                break
    reply = await hub.client.get(f"/api/v1/sessions/{session}/events", params={"after": after, "limit": 1000})
    assert reply.status_code == 200, reply.text
    return reply.json()["events"]


async def pending(hub: Running) -> dict[str, Any]:
    """The one ask that waits."""
    while True:
        asks = (await hub.client.get("/api/v1/asks")).json()
        if asks:
            return asks[0]
        await asyncio.sleep(0.02)


async def test_sessions_from_birth_to_rest(hub: Running) -> None:
    hub.play((script.Say("Hello!"),))
    made = await hub.session(title="My work", id="my-own-id")
    assert made["id"] == "my-own-id"
    again = await hub.session(title="My work", id="my-own-id")
    assert again["created_at"] == made["created_at"]
    await hub.session(title="Other", policy={"file_write": "allow", "shell": "deny", "network": "deny"})
    client = hub.client

    listed = (await client.get("/api/v1/sessions")).json()
    assert [session["title"] for session in listed] == ["Other", "My work"]
    for query, expected in (
        ({"q": "my WORK"}, 1),
        ({"agent": "scripted"}, 2),
        ({"agent": "codex"}, 0),
        ({"status": "idle"}, 2),
        ({"status": "working"}, 0),
        ({"node": made["node"]}, 2),
        ({"node": "elsewhere"}, 0),
        ({"limit": 1}, 1),
    ):
        assert len((await client.get("/api/v1/sessions", params=query)).json()) == expected, query

    shown = await client.get("/api/v1/sessions/my-own-id")
    assert shown.json()["policy"]["shell"] == "allow"
    sent = await client.post("/api/v1/sessions/my-own-id/prompts", json={"text": "Hi", "id": "p1"})
    assert sent.status_code == 201
    assert (sent.json()["id"], sent.json()["by"]) == ("p1", "owner")
    entries = await events(hub, "my-own-id")
    assert [entry["event"]["type"] for entry in entries if entry["event"]["type"] in ("text", "done")] == [
        "text",
        "done",
    ]
    messages = (await client.get("/api/v1/sessions/my-own-id/messages")).json()
    assert [message["kind"] for message in messages] == ["user", "text", "done"]
    assert messages[1]["text"] == "Hello!"
    while (await client.get("/api/v1/sessions/my-own-id/prompts")).json():
        pass  # the turn's end is in the log before the prompt is put away
    over = (await client.get("/api/v1/sessions/my-own-id/prompts", params={"over": True})).json()
    assert [prompt["id"] for prompt in over] == ["p1"]
    assert over[0]["status"] == "done"
    changed = await client.patch("/api/v1/sessions/my-own-id", json={"title": "New", "policy": "read-only"})
    assert (changed.json()["title"], changed.json()["policy"]["shell"]) == ("New", "deny")
    assert (await client.get("/api/v1/sessions/my-own-id")).json()["title"] == "New"
    await client.patch("/api/v1/sessions/my-own-id", json={"archived": True})
    assert len((await client.get("/api/v1/sessions")).json()) == 1
    assert len((await client.get("/api/v1/sessions", params={"archived": "true"})).json()) == 2
    assert (await client.post("/api/v1/sessions/my-own-id/abort")).json() is False
    closed = await client.post("/api/v1/sessions/my-own-id/close")
    assert closed.json()["status"] == "closed"


async def test_without_an_agent_it_is_the_default_one(hub: Running) -> None:
    reply = await hub.client.post("/api/v1/sessions", json={"cwd": hub.cwd, "policy": "full"})
    assert (reply.status_code, reply.json()["agent"]) == (201, "scripted")


async def test_a_session_may_begin_with_its_prompt(hub: Running) -> None:
    hub.play((script.Say("At once."),))
    made = await hub.session(prompt="Go")
    entries = await events(hub, made["id"])
    assert "At once." in [entry["event"].get("text") for entry in entries]
    assert [entry["event"]["prompt"] for entry in entries if "prompt" in entry["event"]] == ["Go"]


async def test_what_a_session_changed(hub: Running) -> None:
    hub.play((script.Write("made.txt", "by the agent\n"),), (script.Say("Done."),))
    made = await hub.session(prompt="Go")
    await events(hub, made["id"])
    diff = (await hub.client.get(f"/api/v1/sessions/{made['id']}/diff")).json()["diff"]
    assert "made.txt" in diff
    assert "+by the agent" in diff
    other = await hub.session()
    assert (await hub.client.get(f"/api/v1/sessions/{other['id']}/diff")).json() == {"diff": ""}


async def test_decisions(hub: Running) -> None:
    hub.play((script.Write("a.txt", "one\n"),), (script.Write("b.txt", "two\n"),), (script.Say("Done."),))
    session = (await hub.session(policy="ask"))["id"]
    await hub.client.post(f"/api/v1/sessions/{session}/prompts", json={"text": "Write"})
    async with asyncio.timeout(60):
        ask = await pending(hub)
        assert (await hub.client.get(f"/api/v1/asks/{ask['id']}")).json() == ask
        wrong = await hub.client.post(
            f"/api/v1/asks/{ask['id']}/answer", json={"decision": "allow", "digest": "x" * 32}
        )
        assert (wrong.status_code, wrong.json()["field"]) == (400, "digest"), wrong.text
        body = {"decision": "allow", "digest": ask["digest"]}
        done = await hub.client.post(f"/api/v1/asks/{ask['id']}/answer", json=body)
        assert (done.status_code, done.json()["state"]) == (200, "applied"), done.text
        assert done.json()["name"] == "approve_permission"
        late = await hub.client.post(f"/api/v1/asks/{ask['id']}/answer", json={"decision": "deny"})
        assert (late.status_code, late.json()["code"]) == (409, "AlreadyAnswered")
        assert "owner" in late.json()["detail"]
        answered = (await hub.client.get(f"/api/v1/asks/{ask['id']}")).json()
        assert (answered["status"], answered["answer"]["by"]) == ("answered", "owner")
        while (other := await pending(hub))["id"] == ask["id"]:
            pass
        body = {"decision": "deny", "reason": "not this one"}
        done = await hub.client.post(f"/api/v1/asks/{other['id']}/answer", json=body)
        assert done.json()["name"] == "deny_permission"
        entries = await events(hub, session)
    assert [entry["event"]["decision"] for entry in entries if entry["event"]["type"] == "answer"] == ["allow", "deny"]
    assert Path(hub.cwd, "a.txt").read_text() == "one\n"
    assert not Path(hub.cwd, "b.txt").exists()


async def test_a_question_is_answered(hub: Running) -> None:
    hub.play((script.Inquire("Which?", ("Red", "Blue")),), (script.Say("Thanks."),))
    session = (await hub.session())["id"]
    await hub.client.post(f"/api/v1/sessions/{session}/prompts", json={"text": "Ask me"})
    async with asyncio.timeout(60):
        ask = await pending(hub)
        question = ask["ask"]["questions"][0]["id"]
        body = {"decision": "allow", "answers": {question: ["Blue"]}}
        done = await hub.client.post(f"/api/v1/asks/{ask['id']}/answer", json=body)
        assert done.json()["name"] == "answer_question"
        entries = await events(hub, session)
    answer = next(entry["event"] for entry in entries if entry["event"]["type"] == "answer")
    assert answer["answers"] == {question: ["Blue"]}


async def test_prompts_wait_move_and_are_taken_back(hub: Running) -> None:
    hub.play((script.Write("a.txt", "x"),))
    session = (await hub.session(policy="ask"))["id"]
    path = f"/api/v1/sessions/{session}/prompts"
    for id in ("p1", "p2", "p3"):
        await hub.client.post(path, json={"text": id, "id": id})
    async with asyncio.timeout(60):
        await pending(hub)  # the first one holds the turn
    assert [prompt["id"] for prompt in (await hub.client.get(path)).json()] == ["p1", "p2", "p3"]
    moved = await hub.client.post(f"{path}/p3/move", json={"before": "p2"})
    assert moved.status_code == 200, moved.text
    assert [prompt["id"] for prompt in (await hub.client.get(path)).json()] == ["p1", "p3", "p2"]
    gone = await hub.client.delete(f"{path}/p2")
    assert gone.json()["status"] == "cancelled"
    assert (await hub.client.delete(f"{path}/p1")).status_code == 400
    assert (await hub.client.post(f"{path}/none/move", json={})).status_code == 400
    assert (await hub.client.post(f"/api/v1/sessions/{session}/abort")).json() is True
    entries = await events(hub, session)
    assert next(entry["event"]["status"] for entry in entries if entry["event"]["type"] == "done") == "interrupted"


PNG = b"\x89PNG\r\n\x1a\n and what follows"
GIVEN = {
    "note.txt": ("text/plain", b"the content", {"text": "the content"}),
    "dot.png": ("image/png", PNG, {"data": base64.b64encode(PNG).decode(), "media_type": "image/png"}),
    "named.png": ("image/png", b"<svg onload=alert(1)>", {"text": "<svg onload=alert(1)>"}),
    "page.svg": ("image/svg+xml", b"<svg/>", {"text": "<svg/>"}),
    "raw.gif": ("image/gif", b"\0\1", {"media_type": "application/octet-stream"}),
}
"""A file's name: its type as the sender says, its content, and what is shown of it."""


@pytest.mark.parametrize("with_session", [False, True], ids=["prompt", "first prompt of a session"])
async def test_attachments_arrive_and_are_shown(tmp_path: Path, with_session: bool) -> None:
    inputs: list[str] = []
    driver = Scripted([(script.Say("Seen."),)], attachments=("*/*",), on_model_input=inputs.append)
    async with running(tmp_path, drivers={"scripted": driver}) as hub:
        files = [
            {"name": name, "media_type": kind, "data": base64.b64encode(content).decode()}
            for name, (kind, content, _) in GIVEN.items()
        ]
        if with_session:
            session = (await hub.session(prompt="Look", attachments=files))["id"]
        else:
            session = (await hub.session())["id"]
            body = {"text": "Look", "attachments": files}
            reply = await hub.client.post(f"/api/v1/sessions/{session}/prompts", json=body)
            assert reply.json()["attachments"] == [*GIVEN]
        started = next(
            entry["event"] for entry in await events(hub, session) if entry["event"]["type"] == "turn_started"
        )
        assert {attachment["name"]: attachment["media_type"] for attachment in started["attachments"]} == {
            name: kind for name, (kind, _, _) in GIVEN.items()
        }
        assert inputs == ["Look", *(content.decode(errors="replace") for _, content, _ in GIVEN.values())]
        messages = (await hub.client.get(f"/api/v1/sessions/{session}/messages")).json()
        assert messages[0]["attachments"] == started["attachments"]
        path = f"/api/v1/sessions/{session}/prompts/{started['id']}/attachments"
        for number, (name, (_, _, shown)) in enumerate(GIVEN.items()):
            assert (await hub.client.get(f"{path}/{number}")).json() == {"path": name, **shown}
        for wrong in (
            f"{path}/5",
            f"{path}/-1",
            f"{path}/%C2%B2",
            f"{path}/x",
            path.replace(started["id"], "no") + "/0",
        ):
            assert (await hub.client.get(wrong)).status_code == 404, wrong


async def test_an_agent_without_files_refuses_them(hub: Running) -> None:
    session = (await hub.session())["id"]
    file = {"name": "dot.png", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    reply = await hub.client.post(f"/api/v1/sessions/{session}/prompts", json={"text": "Look", "attachments": [file]})
    assert (reply.status_code, reply.json()["code"]) == (422, "Unsupported")


async def test_nodes_and_agents(hub: Running) -> None:
    nodes = (await hub.client.get("/api/v1/nodes")).json()
    assert len(nodes) == 1
    node = nodes[0]
    assert (node["online"], node["local"]) == (True, True)
    assert (await hub.client.get(f"/api/v1/nodes/{node['id']}")).json()["id"] == node["id"]
    assert (await hub.client.get("/api/v1/nodes/none")).status_code == 404
    refreshed = await hub.client.post(f"/api/v1/nodes/{node['id']}/refresh")
    assert refreshed.status_code == 200
    names = {agent["name"] for agent in refreshed.json()}
    assert "scripted" in names
    listed = (await hub.client.get("/api/v1/agents", params={"node": node["id"]})).json()
    assert {agent["name"] for agent in listed} == names
    own = await hub.client.delete(f"/api/v1/nodes/{node['id']}")
    assert own.status_code == 409
    assert (await hub.client.delete("/api/v1/nodes/none")).status_code == 404


async def test_pages_of_events(hub: Running) -> None:
    hub.play(*[(script.Say(f"line {number}"),) for number in range(5)])
    session, other = (await hub.session())["id"], (await hub.session())["id"]
    after = 0
    for number in range(5):
        await hub.client.post(f"/api/v1/sessions/{session}/prompts", json={"text": f"{number}"})
        entries = await events(hub, session, after=after)
        after = entries[-1]["seq"]
        await hub.client.post(f"/api/v1/sessions/{other}/prompts", json={"text": "between"})
    path = f"/api/v1/sessions/{session}/events"
    whole = (await hub.client.get(path, params={"after": 0, "limit": 1000})).json()
    seqs = [entry["seq"] for entry in whole["events"]]
    assert seqs == sorted(seqs)
    assert (whole["first"], whole["last"], whole["more"]) == (seqs[0], seqs[-1], False)
    assert {entry["session"] for entry in whole["events"]} == {session}
    back: list[int] = []
    before: int | None = None
    while True:
        query = {"limit": 4} if before is None else {"limit": 4, "before": before}
        page = (await hub.client.get(path, params=query)).json()
        page_seqs = [entry["seq"] for entry in page["events"]]
        back = page_seqs + back
        if not page["more"]:
            break
        assert len(page_seqs) == 4
        before = page_seqs[0]
    assert back == seqs
    onward: list[int] = []
    while True:
        page = (await hub.client.get(path, params={"limit": 3, "after": onward[-1] if onward else 0})).json()
        onward += [entry["seq"] for entry in page["events"]]
        if not page["more"]:
            break
    assert onward == seqs
    empty = (await hub.client.get(path, params={"after": seqs[-1]})).json()
    assert (empty["events"], empty["more"]) == ([], False)
    part = (await hub.client.get(path, params={"after": seqs[0], "before": seqs[3]})).json()
    assert [entry["seq"] for entry in part["events"]] == seqs[1:3]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        ("POST", "/sessions", {"agnt": "scripted"}, 400, "agnt"),
        ("POST", "/sessions", {"agent": 1}, 400, "agent"),
        ("POST", "/sessions", {"agent": "none"}, 400, "agent"),
        ("POST", "/sessions", {"agent": "scripted", "policy": "sloppy"}, 400, "policy"),
        ("POST", "/sessions", {"agent": "scripted", "policy": {"shell": "maybe"}}, 400, "policy.shell"),
        ("POST", "/sessions", {"agent": "scripted", "id": "not/an id"}, 400, "id"),
        ("POST", "/sessions", {"agent": "scripted", "node": "none"}, 404, "node"),
        ("POST", "/sessions", {"agent": "scripted", "cwd": "work"}, 400, "cwd"),
        ("POST", "/sessions", {"agent": "scripted", "cwd": "/home/../etc"}, 400, "cwd"),
        ("POST", "/sessions", {"agent": "scripted", "cwd": "/a\0b"}, 400, "cwd"),
        ("POST", "/sessions", "no object", 400, "body"),
        ("PATCH", "/sessions/none", {"title": "x"}, 404, "session"),
        ("GET", "/sessions/none", None, 404, "session"),
        ("GET", "/sessions/none/events", None, 404, "session"),
        ("GET", "/sessions/none/messages", None, 404, "session"),
        ("GET", "/sessions/none/diff", None, 404, "session"),
        ("GET", "/sessions/none/prompts", None, 404, "session"),
        ("POST", "/sessions/none/abort", None, 404, "session"),
        ("POST", "/sessions/none/prompts", {"text": "x"}, 404, "session"),
        ("GET", "/sessions?limit=0", None, 400, "limit"),
        ("GET", "/sessions?limit=many", None, 400, "limit"),
        ("GET", "/sessions?status=tired", None, 400, "status"),
        ("GET", "/asks/none", None, 404, "ask"),
        ("POST", "/asks/none/answer", {"decision": "allow"}, 404, "ask"),
        ("POST", "/asks/none/answer", {"decision": "perhaps"}, 400, "decision"),
        ("GET", "/commands/none", None, 404, "command"),
        ("POST", "/pairings", {"kind": "toaster"}, 400, "kind"),
        ("POST", "/pair", {}, 400, "secret"),
        ("DELETE", "/devices/none", None, 404, "device"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_bad_input_names_the_field(
    shared: Running, method: str, path: str, body: Any, status: int, field: str
) -> None:
    reply = await shared.client.request(method, f"/api/v1{path}", json=body)
    problem = reply.json()
    assert (reply.status_code, problem.get("field", "")) == (status, field), problem
    assert reply.headers["content-type"] == "application/problem+json"
    assert problem["detail"]
    assert problem["instance"]


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_no_json_is_refused(shared: Running) -> None:
    for data in (b"", b"{", b"\xff\xfe", b'{"agent": NaN}', b"null"):
        reply = await shared.client.post("/api/v1/sessions", content=data)
        assert (reply.status_code, reply.json()["field"] in ("body", "agent")) == (400, True), data
    assert (await shared.client.get("/api/v1/none")).json()["status"] == 404
    wrong = await shared.client.put("/api/v1/sessions")
    assert (wrong.status_code, wrong.headers["content-type"]) == (405, "application/problem+json")


@pytest.mark.asyncio(loop_scope="module")
async def test_the_hub_says_how_it_is(shared: Running) -> None:
    async with caller(shared.url) as stranger:
        health = await stranger.get("/healthz")
    assert (health.status_code, health.json()["status"]) == (200, "ok")


def test_who_did_it_cannot_be_mistaken() -> None:
    assert actor_name(DeviceView(id="owner", name="this machine")) == "owner"
    assert actor_name(DeviceView(id="0123456789abcdef", name="owner")) == "owner (abcdef)"
