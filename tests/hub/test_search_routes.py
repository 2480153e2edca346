"""Search at a real hub: sessions, messages and asks; who may not search is refused."""

from pathlib import Path

from tests.hub.agents import inside, through
from tests.hub.conftest import Running, caller, running
from tests.hub.test_usage_routes import a_turn

from tieline.envelopes import Payload
from tieline.hub.security.access_rules import person_only
from tieline.relay import Relay
from tieline.script import Say

SEARCH = "/api/v1/search"
MARKUP = "the <img src=x onerror=alert(1)> quokka sleeps"


async def test_messages_sessions_and_events_are_found(hub: Running) -> None:
    hub.play([Say(MARKUP)])
    session = await a_turn(hub, title="Feed the quokka")
    async with Relay(hub.hub.bus, hub.hub.config) as relay:
        relay.inbox("relay.user.me")
        await relay.send("relay.user.me", Payload("a quokka for you"), sender="relay.user.you")
    assert await hub.hub.event_indexer.sync(60) and await hub.hub.message_indexer.sync(60)
    results = (await hub.client.get(SEARCH, params={"q": "quokka"})).json()
    by_kind = {hit["kind"]: hit for hit in results["hits"]}
    assert set(by_kind) == {"message", "text"}
    assert by_kind["text"]["session"] == session and by_kind["text"]["seq"] > 0
    assert "".join(part["text"] for part in by_kind["text"]["snippet"]) == MARKUP
    assert by_kind["message"]["thread"] == by_kind["message"]["message"] != ""
    assert [row["session"] for row in results["sessions"]] == [session]
    assert (results["more"], results["indexed"]) == (False, 1.0)
    page = (await hub.client.get(SEARCH, params={"q": "quokka", "limit": "1"})).json()
    assert page["more"] and len(page["hits"]) == 1


async def test_wrong_searches_are_refused_by_their_field(hub: Running) -> None:
    for field, value in (("q", '"*" ('), ("q", "x" * 501), ("kind", "week"), ("limit", "0"), ("before", "-1")):
        reply = await hub.client.get(SEARCH, params={"q": "x", field: value})
        assert (reply.status_code, reply.json()["field"]) == (400, field), reply.text


async def test_no_agent_and_no_stranger_may_search(hub: Running, tmp_path: Path) -> None:
    async with caller(hub.url) as stranger:
        assert (await stranger.get(SEARCH, params={"q": "x"})).status_code == 401
    for kind in ("node", "mesh"):
        _, key = await hub.hub.devices.add(kind, "limited")
        async with caller(hub.url, key) as limited:
            assert (await limited.get(SEARCH, params={"q": "x"})).status_code == 403
    (tmp_path / "in").mkdir()
    async with inside(hub, tmp_path / "in") as agent, through(hub, agent.away) as its_process:
        for path in (SEARCH, "/api/v1/usage"):
            assert (await its_process.get(path, params={"q": "x"})).status_code == 403
            assert person_only("GET", path), "nor may the agent in a person's terminal"


async def test_a_hub_without_an_index_runs(tmp_path: Path) -> None:
    (tmp_path / "state" / "search.db").mkdir(parents=True)
    async with running(tmp_path) as hub:
        await a_turn(hub)
        reply = await hub.client.get(SEARCH, params={"q": "x"})
        assert (reply.status_code, reply.json()["code"]) == (422, "Unsupported")
        assert (await hub.client.get("/api/v1/usage")).json()["total"]["turns"] == 1
