"""Several nodes on one bus: each session manager has its own sessions and leaves the others' state alone."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.bus.conftest import address
from tests.sessions.test_manager import ENV, FULL, pending, settled

from tieline.bus import Bus, open_bus
from tieline.config import Config
from tieline.drivers.scripted import Scripted
from tieline.errors import UsageError
from tieline.events import Answer
from tieline.policy import Policy
from tieline.script import Reply, Run, Say, Stall
from tieline.sessions.manager import SessionManager
from tieline.sessions.records import SessionRecord
from tieline.sessions.store import SessionStore
from tieline.testing.wait_for import eventually

ASKING = Policy("ask", "ask", "ask")


@pytest.fixture(params=["sqlite", "nats"])
async def bus(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Bus]:
    async with address(request.param, tmp_path) as url, open_bus(url) as bus:
        yield bus


def node(bus: Bus, name: str, *replies: Reply, stalled: asyncio.Event | None = None) -> SessionManager:
    driver = Scripted(replies, on_stall=stalled.set if stalled else lambda: None)
    config = Config(default_agent="scripted", environ=ENV)
    return SessionManager(bus, config, node=name, drivers={"scripted": driver})


async def test_another_manager_leaves_state_alone(bus: Bus, tmp_path: Path) -> None:
    """It starts while the first has a running prompt, a waiting one and an open ask."""
    stalled = asyncio.Event()
    async with node(bus, "one", [Stall()], stalled=stalled) as manager:
        runs = await manager.create(cwd=str(tmp_path), policy=FULL, id="runs")
        first, second = await manager.prompt("runs", "go", id="p1"), await manager.prompt("runs", "then", id="p2")
        async with asyncio.timeout(30):
            await stalled.wait()
        async with node(bus, "two", [Say("two")]) as other:
            assert other.sessions() == []
            with pytest.raises(UsageError, match="no session"):
                other.get("runs")
            with pytest.raises(UsageError, match="in use on another node"):
                await other.create(cwd=str(tmp_path), id="runs")
            own = await other.create(cwd=str(tmp_path), policy=FULL)
            prompt = await other.prompt(own.id, "go")
            assert (await settled(other, own.id, prompt.id)).status == "done"
            assert [session.id for session in manager.sessions()] == [runs.id]
        statuses = [(await manager.prompts.get("runs", id)).status for id in (first.id, second.id)]
        assert statuses == ["running", "queued"]


async def test_an_ask_belongs_to_its_node(bus: Bus, tmp_path: Path) -> None:
    async with node(bus, "one", [Run("touch asked")], [Say("done")]) as manager:
        session = await manager.create(cwd=str(tmp_path), policy=ASKING)
        prompt = await manager.prompt(session.id, "go")
        ask = await pending(manager)
        async with node(bus, "two") as other:
            assert other.asks.pending() == []
            with pytest.raises(UsageError, match="no session"):
                await other.answer(ask.id, Answer("", "allow"))
        assert (await manager.asks.get(ask.id))[0].status == "pending", "the other session manager did not expire it"
        await manager.answer(ask.id, Answer("", "allow", by="me"))
        assert (await settled(manager, session.id, prompt.id)).status == "done"
        assert (tmp_path / "asked").exists()


async def test_the_last_change_stays(bus: Bus, tmp_path: Path) -> None:
    """Many changes at once: what is kept is what is shown."""
    async with node(bus, "one") as manager:
        session = await manager.create(cwd=str(tmp_path))
        await asyncio.gather(*(manager.update(session.id, title=f"title {number}") for number in range(50)))
        shown = manager.get(session.id)
    async with node(bus, "one") as again:
        assert again.get(session.id) == shown
        await eventually(lambda: again.sessions() == [shown], "another record is kept")


async def test_several_agents_side_by_side(bus: Bus, tmp_path: Path) -> None:
    """Each session is its agent's, the list has all of them, and an abort or an answer reaches the right one."""
    stalled = asyncio.Event()
    drivers = {
        "talker": Scripted([[Say("by the talker")]], name="talker"),
        "asker": Scripted([[Run("touch asked")], [Say("by the asker")]], name="asker"),
        "sleeper": Scripted([[Stall()]], name="sleeper", on_stall=stalled.set),
    }
    async with SessionManager(bus, Config(default_agent="talker", environ=ENV), drivers=drivers) as manager:
        for name in ("", "asker", "sleeper"):
            await manager.create(name, cwd=str(tmp_path), policy=ASKING, id=name or "first")
            await manager.prompt(name or "first", "go", id="p")
        assert {session.id: session.agent for session in manager.sessions()} == {
            "first": "talker",
            "asker": "asker",
            "sleeper": "sleeper",
        }
        again = await manager.create("asker", cwd=str(tmp_path), policy=ASKING, id="first")
        assert again.agent == "talker", "an id is one session, whichever agent is named"
        assert (await settled(manager, "first", "p")).status == "done"
        ask = await pending(manager)
        assert ask.session == "asker"
        await manager.answer(ask.id, Answer("", "allow", by="me"))
        assert (await settled(manager, "asker", "p")).status == "done"
        async with asyncio.timeout(60):
            await stalled.wait()
        assert manager.prompts.running("sleeper") is not None
        await manager.abort("sleeper")
        assert (await settled(manager, "sleeper", "p")).outcome == "interrupted"
        lines = {session.id: session.last_line for session in manager.sessions()}
        assert (lines["first"], lines["asker"]) == ("by the talker", "by the asker")


async def test_a_session_that_was_being_added_is_found_again(tmp_path: Path) -> None:
    """Its maker was cancelled after the write: whoever adds it again gets what was written."""
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        first = SessionRecord(id="one", agent="scripted", cwd="/home/me/shop", node="here", title="first")
        assert await SessionStore(bus, "here").add(first) == first
        again = SessionStore(bus, "here")
        assert await again.add(replace(first, title="again")) == first
        assert again.get("one") == first
        with pytest.raises(UsageError, match="another node"):
            await SessionStore(bus, "there").add(replace(first, node="there"))
