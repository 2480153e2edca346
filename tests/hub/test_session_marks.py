"""What was read and what is pinned: one person's, on all devices; told to every open page; gone with its session."""

import asyncio
from pathlib import Path

import msgspec
from tests.hub.agents import inside, through
from tests.hub.conftest import Running, caller
from tests.hub.test_usage_routes import a_turn

from tieline.hub.security.access_rules import person_only
from tieline.hub.state.live_state import MARKS
from tieline.hub.state.session_marks import SessionMarks
from tieline.protocol.request_bodies import MarkChange
from tieline.protocol.stream_frames import AnyHubFrame, MarkFrame
from tieline.protocol.views import SessionMark
from tieline.script import Say
from tieline.sessions.records import SESSIONS
from tieline.testing.wait_for import eventually

ALL = "/api/v1/session-marks"


def path(session: str) -> str:
    return f"/api/v1/sessions/{session}/mark"


async def test_what_one_device_reads_is_read_on_all(hub: Running) -> None:
    hub.play([Say("one")], [Say("two")])
    session = await a_turn(hub)
    _, key = await hub.hub.devices.add("page", "phone")
    frames: asyncio.Queue[AnyHubFrame] = asyncio.Queue()
    hub.hub.state.subscribe(frames.put_nowait)
    async with caller(hub.url, key) as phone, asyncio.timeout(30):
        assert (await phone.get(ALL)).json() == []
        read = await phone.patch(path(session), json={"seen_turns": 1})
        assert read.json() == {"id": session, "seen_turns": 1, "pinned": False}
        while not isinstance(frame := await frames.get(), MarkFrame):
            continue
        assert frame.mark == SessionMark(id=session, seen_turns=1)
        assert hub.hub.state.snapshot().marks == (frame.mark,)
        assert (await hub.client.patch(path(session), json={"pinned": True})).json()["seen_turns"] == 1
        for seen in (0, 1, 99):
            mark = (await phone.patch(path(session), json={"seen_turns": seen})).json()
            assert mark == {"id": session, "seen_turns": 1, "pinned": True}, (
                "read stays read, and no more than there is"
            )
        assert (await phone.patch(path(session), json={"pinned": False})).json()["pinned"] is False
        for wrong in ({"seen_turns": -1}, {"seen_turns": "x"}, {"pinned": 1}, {"read": True}):
            assert (await phone.patch(path(session), json=wrong)).status_code == 400
        assert (await phone.patch(path("nobody"), json={"pinned": True})).status_code == 404


async def test_two_devices_at_once_lose_nothing(hub: Running) -> None:
    hub.play([Say("one")])
    record = hub.hub.state.sessions[await a_turn(hub)]
    marks = [SessionMarks(hub.hub.bus, hub.hub.state) for _ in range(2)]
    await asyncio.gather(
        *(marks[0].change(record, MarkChange(pinned=number % 2 == 0)) for number in range(4)),
        marks[1].change(record, MarkChange(seen_turns=1)),
    )
    entry = await hub.hub.bus.table(MARKS).get(record.id)
    assert entry is not None and msgspec.json.decode(entry.value)["seen_turns"] == 1


async def test_marks_of_removed_sessions_go(hub: Running) -> None:
    hub.play([Say("one")], [Say("two")])
    gone, stays = await a_turn(hub), await a_turn(hub)
    for session in (gone, stays):
        await hub.client.patch(path(session), json={"pinned": True})
    table = hub.hub.bus.table(MARKS)
    state = hub.hub.state
    await eventually(lambda: len(state.marks) == 2, "its marks are not told", timeout=30)
    await hub.hub.bus.table(SESSIONS).delete(gone)
    await eventually(lambda: gone not in state.sessions, "its end is not told", timeout=30)
    assert [mark["id"] for mark in (await hub.client.get(ALL)).json()] == [stays]
    assert set(await table.keys()) == {gone, stays}
    await hub.client.patch(path(stays), json={"seen_turns": 1})
    assert await table.keys() == [stays]


async def test_an_agent_says_nothing_about_what_a_person_has_read(hub: Running, tmp_path: Path) -> None:
    async with inside(hub, tmp_path) as agent:
        for way in agent.ways:
            async with through(hub, way) as its_process:
                reply = await its_process.patch(path(agent.session), json={"seen_turns": 1})
                assert reply.status_code == 403
    assert person_only("PATCH", path("x")), "nor may the agent in a person's terminal"
    assert await hub.hub.bus.table(MARKS).keys() == []
