"""Web Push end to end on loopback: from what happens on the bus to what a browser decrypts."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from tests.bus.conftest import NatsServer, running
from tests.hub.push.service import PushService, push_service
from tests.hub.streaming import BOUND_S, Served, client, served

from tieline.bus import open_bus
from tieline.bus.base import Bus
from tieline.config import Config, HubConfig
from tieline.events import Ask, Command, Done, Text
from tieline.protocol.teams import TeamRecord, TeamStatus
from tieline.protocol.views import NodeView
from tieline.sessions.event_log import EventLog
from tieline.sessions.records import AskRecord, SessionRecord
from tieline.testing.wait_for import eventually

CONFIG = Config(hub=HubConfig(push_loopback=True))
encode = msgspec.json.encode


@asynccontextmanager
async def pushing(bus: Bus, home: Path, service: PushService) -> AsyncGenerator[Served, None]:
    async with served(bus, home, CONFIG) as hub:
        service.public_key = await hub.hub.push.sender.key()
        yield hub


@pytest.fixture
async def service() -> AsyncGenerator[PushService]:
    async with push_service() as service:
        yield service


@pytest.fixture
async def hub(tmp_path: Path, service: PushService) -> AsyncGenerator[Served]:
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus, pushing(bus, tmp_path, service) as hub:
        yield hub


async def call(hub: Served, method: str, path: str, body: Any = None, token: str = "") -> httpx2.Response:
    headers = {"Authorization": f"Bearer {token or hub.token}"}
    async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=BOUND_S) as web:
        return await web.request(method, f"{hub.url}/api/v1/push/{path}", json=body, headers=headers)


async def subscribe(hub: Served, service: PushService, token: str = "", **more: Any) -> dict[str, Any]:
    answer = await call(hub, "POST", "subscriptions", service.browser().body(**more), token)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def ask(bus: Bus, id: str = "a1") -> AskRecord:
    asked = Ask(id, "permission", title="Run a command", action=Command("cat secret"))
    record = AskRecord(id=id, session="s1", ask=asked, digest="abc", created_at=1.0, expires_at=4e9)
    await bus.table("asks").put(id, encode(record))
    return record


async def test_an_ask_reaches_the_browser(hub: Served, service: PushService) -> None:
    await hub.bus.table("nodes").put("n1", encode(NodeView(id="n1", name="laptop", online=True)))
    await hub.bus.table("sessions").put("s1", encode(SessionRecord(id="s1", agent="codex", cwd="/", node="n1")))
    await subscribe(hub, service)
    await eventually(lambda: "s1" in hub.hub.state.sessions and bool(hub.hub.state.nodes), "not seen", timeout=BOUND_S)
    await ask(hub.bus)
    (post,) = await service.until(1)
    assert post.notice == {
        "kind": "ask",
        "tag": "ask-a1",
        "title": "codex asks for permission",
        "body": "laptop",
        "session": "s1",
        "ask": "a1",
        "digest": "abc",
        "actions": [{"action": "deny", "title": "Deny"}],
        "at": 1.0,
        "expires_at": 4e9,
    }
    assert post.headers["urgency"] == "high"
    assert 0 < int(post.headers["ttl"]) <= 600
    assert 0 < len(post.headers["topic"]) <= 32


async def test_content_only_for_those_who_want_it(hub: Served, service: PushService) -> None:
    await subscribe(hub, service)
    await subscribe(hub, service, content=True)
    await ask(hub.bus)
    by_path = {post.path: post.notice for post in await service.until(2)}
    assert "secret" not in str(by_path["/push/0"])
    assert by_path["/push/1"]["body"] == "request: Run a command\ncommand: cat secret"
    assert (by_path["/push/1"]["allow"], "allow" in by_path["/push/0"]) == (True, False)


async def test_a_finished_turn_and_a_machine_that_stays_away(hub: Served, service: PushService) -> None:
    hub.hub.push.grace_s = 0.05
    await subscribe(hub, service)
    await EventLog(hub.bus).append("s1", Text("not this"))
    await EventLog(hub.bus).append("s1", Done("success", text="the answer"))
    (turn,) = await service.until(1)
    assert (turn.notice["kind"], turn.notice["session"]) == ("turn", "s1")
    assert turn.headers["urgency"] == "normal"
    nodes = hub.bus.table("nodes")
    await nodes.put("n1", encode(NodeView(id="n1", name="laptop", online=True)))
    await eventually(lambda: "n1" in hub.hub.state.nodes, "not seen", timeout=BOUND_S)
    await nodes.put("n1", encode(NodeView(id="n1", name="laptop", online=False, seen_at=5.0)))
    _, node = await service.until(2)
    assert (node.notice["kind"], node.notice["title"]) == ("node", "laptop is offline")


async def test_a_team_tells_when_people_are_needed_and_its_members_turns_are_not_told(
    hub: Served, service: PushService
) -> None:
    await subscribe(hub, service)

    async def now(status: TeamStatus = "running", **changes: Any) -> None:
        record = TeamRecord(id="t1", name="shop", task="Go.", status=status, sessions=("s1",), **changes)
        await hub.bus.table("teams").put("t1", encode(record))
        await eventually(lambda: hub.hub.state.teams.get("t1") == record, "not seen", timeout=BOUND_S)

    await now(rounds=1)
    await EventLog(hub.bus).append("s1", Done("success", text="a member's turn"))
    await now(rounds=1, status="waiting", waiting_for=("alice",))
    await now(rounds=2, status="running", waiting_for=("alice",))  # she has not answered: nothing new
    await now(rounds=2, status="running")
    await now(rounds=3, status="waiting", waiting_for=("alice",))
    await now(rounds=3, status="ended", reason="done, says one")
    await EventLog(hub.bus).append("s1", Done("success", text="on its own, after the end"))
    posts = await service.until(4)
    notices = [(post.notice["kind"], post.notice["title"]) for post in posts]
    wanted = ["shop waits for alice", "shop waits for alice", "shop has ended"]
    assert sorted(notices) == sorted([*(("team", title) for title in wanted), ("turn", "An agent is done")])
    await now(rounds=4)
    await now(rounds=4, status="ended", reason="enough", ended_by="alice")
    await ask(hub.bus)
    assert (await service.until(5))[-1].notice["kind"] == "ask"  # and nothing before it


async def test_a_machine_that_comes_back_in_time_is_no_news(hub: Served, service: PushService) -> None:
    await subscribe(hub, service)
    nodes = hub.bus.table("nodes")
    for online in (True, False, True):
        await nodes.put("n1", encode(NodeView(id="n1", online=online)))
        await eventually(
            lambda online=online: "n1" in hub.hub.state.nodes and hub.hub.state.nodes["n1"].online is online,
            "not seen",
            timeout=BOUND_S,
        )
    assert hub.hub.push._offline_timers == {}  # pyright: ignore[reportPrivateUsage]
    await ask(hub.bus)
    assert [post.notice["kind"] for post in await service.until(1)] == ["ask"]


async def test_not_while_somebody_looks(hub: Served, service: PushService) -> None:
    await subscribe(hub, service)
    async with client(hub) as stream:
        await stream.subscribe(visible=True)
        await ask(hub.bus, "seen")
        await decided(hub.bus, "ask.seen")
        await stream.say("visible", visible=False)
        await eventually(lambda: hub.hub.fanout.visible == 0, "still visible", timeout=BOUND_S)
        await ask(hub.bus, "unseen")
        assert [post.notice["ask"] for post in await service.until(1)] == ["unseen"]


async def test_never_again_after_a_restart(tmp_path: Path, service: PushService) -> None:
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        async with pushing(bus, tmp_path, service) as hub:
            await subscribe(hub, service)
            await ask(bus, "a1")
            await EventLog(bus).append("s1", Done("success"))
            await service.until(2)
        key = service.public_key
        async with pushing(bus, tmp_path, service) as hub:
            assert service.public_key == key  # what browsers subscribed with stays valid
            await ask(bus, "a1")  # said again: by a node that reconnects, by anybody
            await ask(bus, "a2")
            assert [post.notice.get("ask") for post in await service.until(3)][2:] == ["a2"]


async def test_two_hubs_push_once_and_know_who_looks_at_the_other(tmp_path: Path, service: PushService) -> None:
    async with (
        running(NatsServer(tmp_path / "nats")) as server,
        open_bus(server.url) as bus,
        open_bus(server.url) as other_bus,
        pushing(bus, tmp_path / "one", service) as hub,
        pushing(other_bus, tmp_path / "two", service) as other,
    ):
        assert await hub.hub.push.sender.key() == await other.hub.push.sender.key()
        await subscribe(hub, service)
        await eventually(lambda: len(other.hub.push.subscriptions.all()) == 1, "not known", timeout=BOUND_S)
        for number in range(3):
            await ask(bus, f"a{number}")
        assert sorted(post.notice["ask"] for post in await service.until(3)) == ["a0", "a1", "a2"]
        async with client(other) as stream:
            await stream.subscribe(visible=True)
            await until(hub.hub.push.visible)
            await ask(bus, "seen")
            await decided(bus, "ask.seen")
        await until(hub.hub.push.visible, False)
        await until(other.hub.push.visible, False)
        await ask(bus, "last")
        posts = await service.until(4)
        assert sorted(post.notice["ask"] for post in posts) == ["a0", "a1", "a2", "last"]


async def test_dead_subscriptions_are_removed_and_others_stay(hub: Served, service: PushService) -> None:
    for _ in range(3):
        await subscribe(hub, service)
    service.answers = {"/push/0": [410], "/push/1": [404], "/push/2": [503]}
    await ask(hub.bus)
    (post,) = await service.until(1)  # the third at the second try
    assert post.path == "/push/2"

    async def removed() -> bool:
        return len(await hub.bus.table("push").entries()) == 1

    await until(removed)
    assert len(hub.hub.push.subscriptions.all()) == 1


async def test_subscriptions_go_with_their_device(hub: Served, service: PushService) -> None:
    device, key = await hub.hub.devices.add("page", "phone")
    await subscribe(hub, service, key)
    await subscribe(hub, service)
    await hub.hub.devices.revoke(device.id)
    await eventually(lambda: len(hub.hub.push.subscriptions.all()) == 1, "not removed", timeout=BOUND_S)
    await ask(hub.bus)
    assert [post.path for post in await service.until(1)] == ["/push/1"]


async def test_the_routes(hub: Served, service: PushService) -> None:
    assert (await call(hub, "GET", "key")).json() == {"key": service.public_key}
    assert (await call(hub, "POST", "test")).status_code == 404
    _, other = await hub.hub.devices.add("page", "phone")
    browser = service.browser()
    made = (await call(hub, "POST", "subscriptions", browser.body())).json()
    again = (await call(hub, "POST", "subscriptions", browser.body(content=True))).json()
    assert again["id"] == made["id"]
    listed = (await call(hub, "GET", "subscriptions")).json()
    assert [(subscription["id"], subscription["content"], subscription["service"]) for subscription in listed] == [
        (made["id"], True, "127.0.0.1")
    ]
    assert (await call(hub, "GET", "subscriptions", token=other)).json() == []
    assert (await call(hub, "DELETE", f"subscriptions/{made['id']}", token=other)).status_code == 404
    async with client(hub) as stream:
        await stream.subscribe(visible=True)  # a test is sent whoever looks
        assert (await call(hub, "POST", "test")).json() == {"sent": 1}
    assert service.posts[0].notice["kind"] == "test"
    service.answers = {"/push/0": [403]}
    assert (await call(hub, "POST", "test")).json() == {"problems": ["the push service said 403"]}
    service.answers = {"/push/0": [410]}
    assert (await call(hub, "POST", "test")).json() == {"gone": 1}
    assert (await call(hub, "GET", "subscriptions")).json() == []
    await call(hub, "POST", "subscriptions", browser.body())
    assert (await call(hub, "DELETE", f"subscriptions/{made['id']}")).status_code == 204
    assert (await call(hub, "GET", "subscriptions")).json() == []


async def test_bad_subscriptions_are_named(hub: Served, service: PushService) -> None:
    good = service.browser().body()
    cases: list[tuple[dict[str, Any], str]] = [
        ({**good, "endpoint": "https://10.0.0.1/x"}, "endpoint"),
        ({**good, "endpoint": "http://push.example.com/x"}, "endpoint"),
        ({**good, "keys": {}}, "keys.p256dh"),
        ({**good, "keys": {**good["keys"], "p256dh": "AAAA"}}, "keys.p256dh"),
        ({**good, "keys": {**good["keys"], "auth": "!"}}, "keys.auth"),
        ({**good, "more": 1}, "more"),
        ({}, "endpoint"),
    ]
    for body, field in cases:
        answer = await call(hub, "POST", "subscriptions", body)
        assert (answer.status_code, answer.json()["field"]) == (400, field), answer.text
    assert hub.hub.push.subscriptions.all() == []


async def test_a_device_has_only_so_many(hub: Served, service: PushService) -> None:
    ids = [(await subscribe(hub, service))["id"] for _ in range(12)]
    assert [subscription.id for subscription in hub.hub.push.subscriptions.of(hub.device)] == ids[2:]


@pytest.mark.parametrize("library", ["pywebpush", "py_vapid"])
async def test_without_the_library_it_says_what_to_install(
    library: str, hub: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.hub.push.sender._pair = None  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setitem(sys.modules, library, None)
    answer = await call(hub, "GET", "key")
    assert answer.status_code == 422
    assert "tieline[push]" in answer.json()["hint"]


async def decided(bus: Bus, fact: str) -> None:
    """Until a hub has decided about it."""

    async def is_decided() -> bool:
        return await bus.table("pushed").get(fact) is not None

    await until(is_decided)


async def until(holds: Callable[[], Awaitable[bool]], wanted: bool = True) -> None:
    async with asyncio.timeout(BOUND_S):
        while await holds() is not wanted:  # noqa: ASYNC110 (it is on the bus, which others write to)
            await asyncio.sleep(0.02)
