"""Deltas overtake events on their way; whoever reads the stream gets both in the order in which they were said."""

import asyncio
from contextlib import aclosing
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hub.conftest import Running

from tieline.client import Client
from tieline.client.event_reorder import MAX_SESSIONS, EventReorderer, SessionOrder
from tieline.events import (
    Command,
    Done,
    Event,
    Init,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolOutput,
    ToolResult,
    TurnStarted,
    encode,
)
from tieline.events import ToolUse as Use
from tieline.protocol.stream_frames import Beat, DeltaFrame, EventFrame, GoneFrame, Ready
from tieline.protocol.views import Snapshot
from tieline.sessions.event_log import EventLog
from tieline.sessions.records import SessionRecord

DELTAS = (TextDelta, ThinkingDelta, ToolOutput)
START: list[Event] = [TurnStarted("go"), Init("agent")]
END: list[Event] = [Done("success")]


def events_of(kind: str, name: str) -> list[Event]:
    if kind == "text":
        return [TextDelta("a", name), TextDelta("b", name), Text("ab", name)]
    if kind == "thinking":
        return [ThinkingDelta("h", name), Thinking("h", name)]
    return [Use(name, "sh", Command("x")), ToolOutput(name, "1"), ToolOutput(name, "2"), ToolResult(name, "ok", "12")]


turns = st.lists(st.sampled_from(["text", "thinking", "tool"]), max_size=6).map(
    lambda kinds: [*START, *(event for index, kind in enumerate(kinds) for event in events_of(kind, str(index))), *END]
)


def shown(events: list[Event], order: SessionOrder | None = None) -> list[Event]:
    order = order or SessionOrder()
    out: list[Event] = []
    for event in events:
        out += order.delta(event) if isinstance(event, DELTAS) else order.event(event)
    return out


@given(turns)
def test_what_is_in_order_stays_so(turn: list[Event]) -> None:
    assert shown(turn) == turn


@given(turns, st.data())
def test_deltas_that_came_too_early_wait(turn: list[Event], data: st.DataObject) -> None:
    """Each kind keeps its own order, and a delta is never behind its item: nothing is lost, each in its place."""
    deltas = [event for event in turn if isinstance(event, DELTAS)]
    events = [event for event in turn if not isinstance(event, DELTAS)]
    mixed: list[Event] = []
    while deltas or events:
        # A delta must come before the first event that followed it; it may come as much earlier as it likes.
        behind = deltas and events and turn.index(events[0]) > turn.index(deltas[0])
        if deltas and (behind or not events or data.draw(st.booleans())):
            mixed.append(deltas.pop(0))
        else:
            mixed.append(events.pop(0))
    out = shown(mixed)
    for early in (True, False):
        kept = [[event for event in some if isinstance(event, DELTAS) is early] for some in (out, turn)]
        assert kept[0] == kept[1]
    words = [event for event in out if not isinstance(event, Use | ToolOutput | ToolResult)]
    assert words == [event for event in turn if not isinstance(event, Use | ToolOutput | ToolResult)]
    for index, event in enumerate(out):
        if isinstance(event, ToolOutput):
            assert any(isinstance(earlier, Use) and earlier.id == event.id for earlier in out[:index])
            assert any(isinstance(later, ToolResult) and later.id == event.id for later in out[index:])


@given(turns)
def test_deltas_that_came_too_late_are_left_out(turn: list[Event]) -> None:
    deltas = [event for event in turn if isinstance(event, DELTAS)]
    events = [event for event in turn if not isinstance(event, DELTAS)]
    assert shown([*events, *deltas]) == events


def test_one_voice_does_not_wait_for_another() -> None:
    mine, other = TextDelta("a", "1"), TextDelta("b", "2", parent="task")
    assert shown([*START, mine, other]) == [*START, mine, other]


def test_a_turn_that_goes_on_already() -> None:
    assert SessionOrder(open=True).delta(TextDelta("a", "1")) == [TextDelta("a", "1")]
    assert SessionOrder(open=True).delta(ToolOutput("t", "1")) == [ToolOutput("t", "1")], "of a call that came before"


def test_only_the_first_turn_says_who_the_agent_is() -> None:
    again: list[Event] = [TurnStarted("again"), TextDelta("a", "1"), Text("a", "1"), *END]
    first: list[Event] = [*START, TextDelta("a", "1"), Text("a", "1"), *END]
    assert shown([*first, *again]) == [*first, *again]
    assert shown(again, SessionOrder(known=True)) == again, "the first was before our time"


# --- the frames of a stream ---


def ready(state: Literal["ok", "gap", "reset"], *sessions: SessionRecord) -> Ready:
    return Ready(state=state, epoch="e", cursor=0, snapshot=Snapshot(sessions=sessions))


def record(id: str, **more: Any) -> SessionRecord:
    return SessionRecord(id=id, agent="codex", cwd="/", **more)


def event(session: str, event: Any) -> EventFrame:
    return EventFrame(seq=1, session=session, at=1.0, event=event)


def delta(session: str, text: str = "a") -> DeltaFrame:
    return DeltaFrame(session=session, event=TextDelta(text, "1"))


def test_sessions_do_not_wait_for_each_other() -> None:
    order = EventReorderer()
    order.reorder(ready("reset", record("working", status="working"), record("had", turns=1)))
    assert order.reorder(delta("new")) == []
    assert order.reorder(delta("had")) == []
    assert order.reorder(delta("working")) == [delta("working")]
    begins = event("had", TurnStarted("go"))
    assert order.reorder(begins) == [begins, delta("had")]
    assert order.reorder(event("new", TurnStarted("go"))) == [event("new", TurnStarted("go"))]
    assert order.reorder(event("new", Init("agent"))) == [event("new", Init("agent")), delta("new")]
    assert order.reorder(Beat()) == [Beat()]


def test_what_is_known_of_sessions_survives_a_reconnect_and_goes_with_them() -> None:
    order = EventReorderer()
    order.reorder(event("s", Init("agent")))
    order.reorder(ready("ok"))
    assert order.reorder(delta("s")) == [delta("s")]
    order.reorder(GoneFrame(kind="session", id="s"))
    assert order.reorder(delta("s")) == []
    order.reorder(event("t", Init("agent")))
    order.reorder(ready("reset"))  # another log
    assert order.reorder(delta("t")) == []


def test_there_is_room_for_so_many_sessions() -> None:
    order = EventReorderer()
    for number in range(MAX_SESSIONS + 1):
        order.reorder(event(str(number), Init("agent")))
    assert order.reorder(delta("1")) == [delta("1")]
    assert order.reorder(delta("0")) == [], "the one that was quiet for longest is forgotten"


@pytest.mark.parametrize("by", ["websocket", "sse"])
async def test_a_stream_is_in_order(by: Literal["websocket", "sse"], hub: Running, client: Client) -> None:
    log, bus = EventLog(hub.hub.bus), hub.hub.bus
    seen: list[Event] = []
    async with asyncio.timeout(30), aclosing(client.stream(by=by)) as frames:
        async for frame in frames:
            if isinstance(frame, Ready):
                for event in (*START, Text("x", "0"), *END):
                    await log.append("s", event)
            elif isinstance(frame, EventFrame | DeltaFrame):
                seen.append(frame.event)
                if isinstance(frame.event, Done):
                    await bus.announce("deltas.s", encode(TextDelta("a", "1")))
                    await log.append("s", TurnStarted("again"))
                elif isinstance(frame.event, TextDelta):
                    break
    assert seen == [*START, Text("x", "0"), *END, TurnStarted("again"), TextDelta("a", "1")]
