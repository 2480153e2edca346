"""Deltas overtake events on their way; the view gets both in the order in which they were said."""

from hypothesis import given
from hypothesis import strategies as st

from tieline.cli.order import Order
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
)
from tieline.events import ToolUse as Use

DELTAS = (TextDelta, ThinkingDelta, ToolOutput)
START: list[Event] = [TurnStarted("go"), Init("agent")]
END: list[Event] = [Done("success")]


def said(kind: str, name: str) -> list[Event]:
    if kind == "text":
        return [TextDelta("a", name), TextDelta("b", name), Text("ab", name)]
    if kind == "thinking":
        return [ThinkingDelta("h", name), Thinking("h", name)]
    return [Use(name, "sh", Command("x")), ToolOutput(name, "1"), ToolOutput(name, "2"), ToolResult(name, "ok", "12")]


turns = st.lists(st.sampled_from(["text", "thinking", "tool"]), max_size=6).map(
    lambda kinds: [*START, *(event for place, kind in enumerate(kinds) for event in said(kind, str(place))), *END]
)


def shown(events: list[Event]) -> list[Event]:
    order = Order()
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
    for place, event in enumerate(out):
        if isinstance(event, ToolOutput):
            assert any(isinstance(one, Use) and one.id == event.id for one in out[:place])
            assert any(isinstance(one, ToolResult) and one.id == event.id for one in out[place:])


@given(turns)
def test_deltas_that_came_too_late_are_left_out(turn: list[Event]) -> None:
    deltas = [event for event in turn if isinstance(event, DELTAS)]
    events = [event for event in turn if not isinstance(event, DELTAS)]
    assert shown([*events, *deltas]) == events


def test_one_voice_does_not_wait_for_another() -> None:
    mine, other = TextDelta("a", "1"), TextDelta("b", "2", parent="task")
    assert shown([*START, mine, other]) == [*START, mine, other]


def test_a_turn_that_goes_on_already() -> None:
    assert Order(open=True).delta(TextDelta("a", "1")) == [TextDelta("a", "1")]
