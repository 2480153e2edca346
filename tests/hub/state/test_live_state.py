"""The present in memory, on both buses: what was there, what changes, what goes away."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest
from tests.bus.conftest import NatsServer, running

from tieline.bus import open_bus
from tieline.bus.base import Bus
from tieline.events import Ask
from tieline.hub.state.live_state import LiveState
from tieline.protocol.stream_frames import AnyHubFrame, AskFrame, GoneFrame, NodeFrame, SessionFrame, TeamFrame
from tieline.protocol.teams import TeamRecord
from tieline.protocol.views import CommandView, NodeView
from tieline.sessions.records import AskRecord, PromptRecord, SessionRecord

BOUND_S = 30.0
encode = msgspec.json.encode


@pytest.fixture(params=["sqlite", "nats"])
async def bus(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Bus]:
    if request.param == "sqlite":
        async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
            yield bus
    else:
        async with running(NatsServer(tmp_path / "nats")) as server, open_bus(server.url) as bus:
            yield bus


class Recorder:
    """What a subscriber was told."""

    def __init__(self, state: LiveState) -> None:
        self.frames: list[AnyHubFrame] = []
        self._changed = asyncio.Event()
        state.subscribe(self._take)

    def _take(self, frame: AnyHubFrame) -> None:
        self.frames.append(frame)
        self._changed.set()

    async def until(self, count: int) -> list[AnyHubFrame]:
        async with asyncio.timeout(BOUND_S):
            while len(self.frames) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.frames


def session(id: str, **more: object) -> bytes:
    return encode(SessionRecord(id=id, agent="scripted", cwd="/", **more))  # type: ignore[arg-type]


def ask(id: str, status: str = "pending") -> bytes:
    asked = Ask(id, "permission", title="run it")
    return encode(AskRecord(id=id, session="s1", ask=asked, digest="d", status=status))  # type: ignore[arg-type]


async def test_what_is_there_is_known_when_it_is_entered(bus: Bus) -> None:
    for number in range(5):
        await bus.table("sessions").put(f"s{number}", session(f"s{number}"))
    await bus.table("asks").put("a1", ask("a1"))
    await bus.table("asks").put("a2", ask("a2", "answered"))
    waiting = PromptRecord(id="p1", session="s1", text="hello", status="queued")
    await bus.table("prompts").put("s1.p1", encode(waiting))
    await bus.table("prompts").put("s1.p0", encode(msgspec.structs.replace(waiting, id="p0", status="done")))
    await bus.table("nodes").put("n1", encode(NodeView(id="n1", online=True)))
    await bus.table("commands").put("c1", encode(CommandView(id="c1", node="n1", name="abort_session")))
    async with LiveState(bus) as state:
        await state.wait_loaded()
        shown = state.snapshot()
        assert {session.id for session in shown.sessions} == {f"s{number}" for number in range(5)}
        assert [ask.id for ask in shown.asks] == ["a1"]
        assert [(prompt.id, prompt.status) for prompt in shown.prompts] == [("p1", "queued")]
        assert [node.id for node in shown.nodes] == ["n1"]
        assert list(state.commands) == ["c1"]


async def test_changes_are_told_once_and_what_was_there_is_not(bus: Bus) -> None:
    sessions = bus.table("sessions")
    await sessions.put("old", session("old"))
    async with LiveState(bus) as state:
        recorder = Recorder(state)
        await sessions.put("new", session("new"))
        await bus.table("asks").put("a1", ask("a1"))
        await recorder.until(2)
        await bus.table("asks").put("a1", ask("a1", "answered"))
        await recorder.until(3)
        await sessions.delete("old")
        await bus.table("nodes").put("n1", encode(NodeView(id="n1")))
        frames = await recorder.until(5)
        assert state.asks == {}
        assert set(state.sessions) == {"new"}
        assert [frame.session.id for frame in frames if isinstance(frame, SessionFrame)] == ["new"]
        assert [frame.ask.status for frame in frames if isinstance(frame, AskFrame)] == ["pending", "answered"]
        assert [(frame.kind, frame.id) for frame in frames if isinstance(frame, GoneFrame)] == [("session", "old")]
        assert [frame.node.id for frame in frames if isinstance(frame, NodeFrame)] == ["n1"]


async def test_teams_are_told_with_the_first_line_of_their_task(bus: Bus) -> None:
    teams = bus.table("teams")
    await teams.put("t1", encode(TeamRecord(id="t1", name="shop", status="running", task="Build it.\n" + "x" * 90_000)))
    async with LiveState(bus) as state:
        assert [(team.id, team.task) for team in state.snapshot().teams] == [("t1", "Build it.")]
        recorder = Recorder(state)
        await teams.put(
            "t2", encode(TeamRecord(id="t2", name="docs", status="waiting", task="y" * 90_000, waiting_for=("alice",)))
        )
        await recorder.until(1)
        await teams.delete("t1")
        changed, gone = await recorder.until(2)
        assert isinstance(changed, TeamFrame)
        assert (changed.team.waiting_for, changed.team.task) == (("alice",), "y" * 300)
        assert gone == GoneFrame(kind="team", id="t1")


async def test_a_value_that_is_not_understood_is_left_out(bus: Bus) -> None:
    sessions = bus.table("sessions")
    await sessions.put("bad", b"not json")
    async with LiveState(bus) as state:
        recorder = Recorder(state)
        await sessions.put("worse", b'{"id": 3}')
        await sessions.put("good", session("good"))
        await recorder.until(1)
        assert set(state.sessions) == {"good"}


async def test_it_holds_under_changes_from_the_first_moment(bus: Bus) -> None:
    """Values are written and deleted while the state is being read."""
    sessions = bus.table("sessions")
    for number in range(40):
        await sessions.put(f"s{number}", session(f"s{number}"))

    async def churn() -> None:
        for number in range(40):
            if number % 2:
                await sessions.delete(f"s{number}")
            else:
                await sessions.put(f"s{number}", session(f"s{number}", title="changed"))
        await sessions.put("last", session("last"))

    task = asyncio.create_task(churn())
    async with LiveState(bus) as state:
        seen = asyncio.Event()
        state.subscribe(lambda frame: seen.set())
        await task
        async with asyncio.timeout(BOUND_S):
            while "last" not in state.sessions:
                seen.clear()
                await seen.wait()
        assert {id for id in state.sessions if id != "last"} == {f"s{number}" for number in range(0, 40, 2)}
        assert {session.title for id, session in state.sessions.items() if id != "last"} == {"changed"}


async def test_leaving_leaves_nothing_behind(bus: Bus) -> None:
    async with LiveState(bus) as state:
        unsubscribe = state.subscribe(lambda frame: None)
        unsubscribe()
        unsubscribe()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("state-")]
