"""A turn at the hub when the connection to it is lost: for good, or for a while."""

import asyncio
import os
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.client.proxy import Proxy
from tests.hub.conftest import Running, running

from tieline.client import Client, HubUnreachable
from tieline.client.hub_session import HubSession, with_local_author
from tieline.drivers.base import Prompt
from tieline.events import Answer, Ask, Done, Event, Status, Text
from tieline.ids import new_id
from tieline.policy import PRESETS
from tieline.protocol.request_bodies import NewSession, SessionChange
from tieline.script import Inquire, Run, Say, Stall
from tieline.sessions.ask_decisions import OnAsk, allow
from tieline.testing.wait_for import eventually

BOUND_S = 30.0


def visit(client: Client, hub: Running, on_ask: OnAsk = lambda ask: allow(ask), **more: Any) -> HubSession:
    new = NewSession(id=new_id(), node=hub.hub.dispatcher.local, agent="scripted", cwd=hub.cwd, policy="full")
    return HubSession(client, new, on_ask, **more)


async def test_a_hub_that_stays_away(tmp_path: Path) -> None:
    """It is waited for, and then there is a clear error; the turn is not said to have ended."""
    async with running(tmp_path) as hub:
        hub.play([Say("The beginning."), Stall()])
        seen: list[Event] = []
        async with Proxy(hub.serving.port) as proxy, Client(proxy.url, hub.token, patience_s=0.5) as client:
            with pytest.raises(HubUnreachable) as away:
                async with (
                    asyncio.timeout(BOUND_S),
                    visit(client, hub, patience_s=0.5) as session,
                ):
                    async for event in session.turn(Prompt("go")):
                        seen.append(event)
                        if isinstance(event, Text):
                            proxy.refuse = True
                            proxy.cut()
            assert proxy.url in away.value.message and "tieline up" in away.value.hint
            (record,) = hub.hub.state.sessions.values()
            assert f"tieline tail {record.id}" in away.value.hint
    assert any(isinstance(event, Status) and event.state == "reconnecting" for event in seen)
    assert not any(isinstance(event, Done) for event in seen)


async def test_a_connection_that_is_lost_again_and_again(tmp_path: Path) -> None:
    """Nothing is missing, nothing doubled, and the ask is answered once."""
    async with running(tmp_path) as hub:
        turns = [[Say(f"part {number}"), Run(f"echo {number}")] for number in range(20)]
        hub.play(*turns, [Inquire("Which?", ("Red", "Blue"))], [Say("end")])
        asked: list[Ask] = []

        async def on_ask(ask: Ask) -> Any:
            asked.append(ask)
            proxy.cut()
            return allow(ask, answers={ask.questions[0].id: ("Blue",)})

        texts: list[str] = []
        async with (
            asyncio.timeout(BOUND_S),
            Proxy(hub.serving.port) as proxy,
            Client(proxy.url, hub.token) as client,
            visit(client, hub, on_ask) as session,
        ):
            async for event in session.turn(Prompt("go")):
                if isinstance(event, Text):
                    texts.append(event.text)
                    if len(texts) % 7 == 0:
                        proxy.cut()
                if isinstance(event, Done):
                    assert event.status == "success"
    assert texts == [*(f"part {number}" for number in range(20)), "(Choice: Blue)", "end"]
    assert len(asked) == 1


@pytest.mark.parametrize("reply", [None, Answer("", "allow", remember="always")], ids=["nothing", "not offered"])
async def test_an_answer_that_nobody_may_give_does_not_leave_the_agent_waiting(reply: Any, tmp_path: Path) -> None:
    async with running(tmp_path) as hub, Client(hub.url, hub.token) as client:
        hub.play([Run("echo never")], [Say("end")])
        new = NewSession(agent="scripted", cwd=hub.cwd, policy="ask")
        async with asyncio.timeout(BOUND_S):
            seen = [event async for event in client.turn(new, "go", on_ask=lambda ask: reply)]
        (answer,) = [event for event in seen if isinstance(event, Answer)]
        assert answer.decision == "deny"
        assert "it must give True, False or an Answer" in answer.reason or "cannot be remembered" in answer.reason


async def test_an_interrupt_that_comes_early(tmp_path: Path) -> None:
    """Before the session has begun with the prompt: it is ended when it does."""
    async with running(tmp_path) as hub, Client(hub.url, hub.token) as client:
        hub.play([Stall()])
        async with asyncio.timeout(BOUND_S), visit(client, hub) as session:
            await session.interrupt()
            last = [event async for event in session.turn(Prompt("go"))][-1]
        assert isinstance(last, Done) and last.status == "interrupted"


async def test_whoever_leaves_ends_the_turn(tmp_path: Path) -> None:
    async with running(tmp_path) as hub, Client(hub.url, hub.token) as client:
        hub.play([Say("The beginning."), Stall()])
        async with asyncio.timeout(BOUND_S), visit(client, hub) as session:
            events = session.turn(Prompt("go"))
            async for event in events:
                if isinstance(event, Text):
                    break
            await events.aclose()
        async with asyncio.timeout(BOUND_S), aclosing(client.stream(by="sse")) as frames:
            async for _ in frames:  # whatever comes: look again
                (record,) = await client.sessions()
                if record.turns:
                    assert record.status == "idle"
                    break


RESUMED: dict[str, tuple[dict[str, Any], str, str]] = {
    "as it was": ({}, "same", "idle"),
    "on whatever machine it is": ({"node": ""}, "same", "idle"),
    "with another policy": ({"policy": PRESETS["read-only"]}, "new", "closed"),
    "with another system prompt": ({"system": "Be short."}, "new", "closed"),
    "with another model": ({"model": "other"}, "new", "closed"),
    "in another directory": ({"cwd": "/"}, "new", "closed"),
    "as a fork": ({"fork": True, "policy": PRESETS["read-only"]}, "new", "idle"),
    "another conversation": ({"resume": "another"}, "new", "idle"),
    "another agent's": ({"agent": "other"}, "new", "idle"),
    "another machine's": ({"node": "elsewhere"}, "new", "idle"),
    "from the archive": ({}, "same", "idle"),
}
"""What is wanted → whether the session that holds the conversation is used, and how that one is then."""


@pytest.mark.parametrize("name", RESUMED)
async def test_a_conversation_is_held_by_one_session(name: str, tmp_path: Path) -> None:
    wanted, which, then = RESUMED[name]
    async with running(tmp_path) as hub, Client(hub.url, hub.token) as client:
        hub.play([Say("The beginning.")])
        async with asyncio.timeout(BOUND_S), visit(client, hub) as session:
            assert isinstance([event async for event in session.turn(Prompt("go"))][-1], Done)
        known = hub.hub.state.sessions
        await eventually(lambda: [each.status for each in known.values()] == ["idle"], "it does not end")
        (earlier,) = await client.sessions()
        assert earlier.native_id
        if name == "from the archive":
            await client.change_session(earlier.id, SessionChange(archived=True))
        fields: dict[str, Any] = {
            "id": new_id(),
            "node": earlier.node,
            "agent": "scripted",
            "cwd": hub.cwd,
            "policy": PRESETS["full"],
            "resume": earlier.native_id,
        }
        new = NewSession(**(fields | wanted))
        async with asyncio.timeout(BOUND_S), HubSession(client, new, allow) as again:
            used = again._id  # pyright: ignore[reportPrivateUsage]
        assert used == (earlier.id if which == "same" else new.id)
        (record,) = [each for each in await client.sessions(archived=True) if each.id == earlier.id]
        assert (record.status, record.archived) == (then, False)


@pytest.mark.parametrize(
    ("via", "author"),
    [
        ("pid {here} tieline run", ("person", "")),
        ("device laptop", ("person", "")),
        ("pid 1 tieline approve", ("owner", "pid 1 tieline approve")),
        ("pid ", ("owner", "pid ")),
    ],
)
def test_whoever_was_faster_is_told(via: str, author: tuple[str, str]) -> None:
    """With the same answer as the person here: the log says from which process it came."""
    answer = Answer("ask", "allow", by="owner", via=via.format(here=os.getpid()))
    authored = with_local_author(answer, Answer("ask", "allow", by="person"))
    assert (authored.by, authored.via) == author
