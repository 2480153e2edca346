"""Schedules by the API: who may change them, and that it is written down."""

from pathlib import Path

import pytest
from tests.hub.agents import inside, through
from tests.hub.conftest import Running, caller

from tieline.schedules.manager import ScheduleManager
from tieline.schedules.records import ScheduleStore

NEW = {"cron": "0 9 * * 1-5", "agent": "scripted", "prompt": "look around", "zone": "Europe/Berlin", "policy": "full"}


@pytest.fixture
def hub(hub: Running) -> Running:
    hub.hub.schedules = ScheduleManager(hub.hub.bus)
    return hub


async def added(hub: Running, **more: object) -> str:
    reply = await hub.client.post("/api/v1/schedules", json={**NEW, "cwd": hub.cwd, **more})
    assert reply.status_code == 201, reply.text
    return str(reply.json()["id"])


async def test_from_adding_it_to_its_end(hub: Running) -> None:
    id = await added(hub)
    assert await added(hub, id=id) == id, "sent twice"
    (listed,) = (await hub.client.get("/api/v1/schedules")).json()
    assert listed["name"] == "look-around" and len(listed["next"]) == 1
    assert listed["node"] == hub.hub.dispatcher.local, "the machine is chosen once, for every hub"
    assert listed["policy"]["shell"] == "allow"
    changed = await hub.client.patch(f"/api/v1/schedules/{id}", json={"paused": True, "policy": "ask"})
    assert changed.json()["paused"] is True and changed.json()["next"] == []
    headers = {"Idempotency-Key": "abc"}
    runs = [await hub.client.post(f"/api/v1/schedules/{id}/run", headers=headers) for _ in range(2)]
    assert [run.status_code for run in runs] == [201, 201] and runs[0].json() == runs[1].json()
    assert len((await hub.client.get(f"/api/v1/schedules/{id}")).json()["runs"]) == 1
    assert (await hub.client.delete(f"/api/v1/schedules/{id}")).status_code == 200
    assert (await hub.client.get(f"/api/v1/schedules/{id}")).status_code == 404
    assert await ScheduleStore(hub.hub.bus).runs.keys() == []
    lines = (await hub.client.get("/api/v1/audit?kind=schedule")).json()
    assert [line["details"]["done"] for line in lines] == ["removed", "changed", "added", "added"]
    assert lines[1]["details"]["shell"] == "ask" and lines[2]["details"]["shell"] == "allow"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"cron": "x"}, "cron"),
        ({"cwd": "relative"}, "cwd"),
        ({"cwd": "/a/../b"}, "cwd"),
        ({"agent": "nobody"}, "agent"),
        ({"node": "nowhere"}, "node"),
        ({"policy": "everything"}, "policy"),
        ({"id": "a.b"}, "id"),
        ({"handled_at": 0}, "handled_at"),
        ({"overlap": "both"}, "overlap"),
    ],
)
async def test_what_is_wrong_is_named(hub: Running, wrong: dict[str, object], field: str) -> None:
    reply = await hub.client.post("/api/v1/schedules", json={**NEW, **wrong})
    assert reply.status_code in (400, 404), reply.text
    assert reply.json()["field"] == field
    assert (await hub.client.get("/api/v1/schedules")).json() == []


async def test_the_coming_times_of_what_is_not_added_yet(hub: Running) -> None:
    """As those of the schedule that is added then."""
    when = {"cron": NEW["cron"], "zone": NEW["zone"]}
    response = await hub.client.get("/api/v1/schedule-times", params={**when, "count": "5"})
    made = (await hub.client.get(f"/api/v1/schedules/{await added(hub)}")).json()
    assert response.json()["next"] == made["next"] and len(made["next"]) == 5
    assert len((await hub.client.get("/api/v1/schedule-times", params=when)).json()["next"]) == 3
    over = await hub.client.get("/api/v1/schedule-times", params={"once": "2020-01-01 09:00"})
    assert over.json() == {"next": []}
    for wrong, field in (
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({}, "cron"),
        ({"cron": "@daily", "once": "2030-01-01 09:00"}, "cron"),
        ({"once": "tomorrow"}, "once"),
        ({"cron": "@daily", "zone": "../etc/passwd"}, "zone"),
        ({"cron": "@daily", "count": "21"}, "count"),
        ({"cron": "x" * 201}, "cron"),
    ):
        reply = await hub.client.get("/api/v1/schedule-times", params=wrong)
        assert (reply.status_code, reply.json()["field"]) == (400, field), reply.text


async def test_an_agent_schedules_nothing(hub: Running, tmp_path: Path) -> None:
    id = await added(hub, policy="read-only")
    async with inside(hub, tmp_path) as agent:
        for way in agent.ways:
            async with through(hub, way) as client:
                for method, path, body in (
                    ("GET", "/api/v1/schedules", None),
                    ("POST", "/api/v1/schedules", NEW),
                    ("GET", f"/api/v1/schedules/{id}", None),
                    ("PATCH", f"/api/v1/schedules/{id}", {"policy": "full"}),
                    ("DELETE", f"/api/v1/schedules/{id}", None),
                    ("POST", f"/api/v1/schedules/{id}/run", None),
                ):
                    refused = await client.request(method, path, json=body)
                    assert refused.status_code == 403, (method, path)
    (view,) = (await hub.client.get("/api/v1/schedules")).json()
    assert view["id"] == id and view["policy"]["shell"] == "deny" and view["runs"] == []


async def test_nor_do_the_keys_of_nodes_and_harnesses(hub: Running) -> None:
    for kind in ("node", "mesh"):
        _, token = await hub.hub.devices.add(kind, "other")  # type: ignore[arg-type]
        async with caller(hub.url, token) as client:
            assert (await client.post("/api/v1/schedules", json=NEW)).status_code == 403
            assert (await client.get("/api/v1/schedules")).status_code == 403


async def test_a_hub_without_schedules_says_so(hub: Running) -> None:
    hub.hub.schedules = None
    reply = await hub.client.get("/api/v1/schedules")
    assert reply.status_code == 503 and "do not run" in reply.text
