"""A change that loses against other hubs at every try: refused as a conflict, and nothing is changed."""

from typing import Any

import pytest
from tests.hub.conftest import Running

from tieline.errors import Conflict
from tieline.schedules.manager import ScheduleManager

RULE = {"match": "exact", "pattern": "make test"}
SCHEDULE = {"cron": "0 9 * * 1-5", "agent": "scripted", "prompt": "look around", "zone": "Europe/Berlin"}


@pytest.mark.parametrize("what", ["rule", "schedule", "mark"])
async def test_refused_with_409(what: str, hub: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.hub.schedules = ScheduleManager(hub.hub.bus)
    if what == "mark":
        id = (await hub.session())["id"]
    else:
        new = RULE if what == "rule" else {**SCHEDULE, "cwd": hub.cwd}
        added = await hub.client.post(f"/api/v1/{what}s", json=new)
        assert added.status_code == 201, added.text
        id = added.json()["id"]
    method, path, body = {
        "rule": ("DELETE", f"/api/v1/rules/{id}", None),
        "schedule": ("PATCH", f"/api/v1/schedules/{id}", {"paused": True}),
        "mark": ("PATCH", f"/api/v1/sessions/{id}/mark", {"pinned": True}),
    }[what]
    tables = type(hub.hub.bus.table("any"))
    put = tables.put

    async def lose(table: Any, key: str, value: bytes, **more: Any) -> int:
        if key == id:
            raise Conflict(what, key, 1)
        return await put(table, key, value, **more)

    with monkeypatch.context() as patched:
        patched.setattr(tables, "put", lose)
        refused = await hub.client.request(method, path, json=body)
    problem = refused.json()
    assert (refused.status_code, problem["code"]) == (409, "ConcurrentChange"), refused.text
    assert problem["detail"] == f"the {what} was changed concurrently; try again"
    assert (await hub.client.request(method, path, json=body)).status_code == 200, "a moment later"
