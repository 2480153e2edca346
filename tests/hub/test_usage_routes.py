"""Usage at a real hub: a turn that ended is counted in the next answer; who may not ask is refused."""

from pathlib import Path

from tests.hub.conftest import Running, caller, running

from tieline.script import Say
from tieline.testing.wait_for import eventually


async def a_turn(hub: Running, **more: str) -> str:
    id = (await hub.session(prompt="hello", **more))["id"]
    await eventually(lambda: hub.hub.state.sessions[id].turns == 1, "its turn does not end", timeout=60)
    return id


async def test_a_turn_is_counted_at_once_and_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        hub.play([Say("hi")])
        session = await a_turn(hub, title="Say hi")
        usage = (await hub.client.get("/api/v1/usage", params={"by": "session"})).json()
        (row,) = usage["rows"]
        assert (row["key"], row["title"], row["agent"], row["project"], row["turns"]) == (
            session, "Say hi", "scripted", "work", 1,
        )  # fmt: skip
        assert usage["up_to_date"] and usage["total"]["turns"] == 1
    async with running(tmp_path) as hub:
        hub.play([Say("hi")])
        await a_turn(hub)
        usage = (await hub.client.get("/api/v1/usage", params={"by": "agent"})).json()
        assert [(row["key"], row["turns"]) for row in usage["rows"]] == [("scripted", 2)]
        none = (await hub.client.get("/api/v1/usage", params={"agent": "codex"})).json()
        assert none["rows"] == []


async def test_wrong_questions_are_refused_by_their_field(hub: Running) -> None:
    for field, value in (
        ("by", "week"),
        ("since", "-1"),
        ("until", "soon"),
        ("time_zone", "Mars"),
        ("agent", "x" * 201),
    ):
        reply = await hub.client.get("/api/v1/usage", params={field: value})
        assert (reply.status_code, reply.json()["field"]) == (400, field), reply.text


async def test_a_stranger_is_told_nothing(hub: Running) -> None:
    async with caller(hub.url) as stranger:
        assert (await stranger.get("/api/v1/usage")).status_code == 401
