"""Reading a turn and holding it to the promises that every stream keeps."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

from ..events import (
    Done,
    Event,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolResult,
    ToolUse,
    TurnStarted,
    decode,
    encode,
)

TURN_S = 60.0
"""No turn of a test takes longer."""

E = TypeVar("E", bound=Event)


async def collect(events: AsyncIterator[Event], *, timeout: float = TURN_S) -> list[Event]:
    """All events of a turn, checked."""
    seen: list[Event] = []
    async with asyncio.timeout(timeout):
        async for event in events:
            seen.append(event)
    verify(seen)
    return seen


def verify(seen: list[Event]) -> None:
    """Check what every turn promises: one start, one done at the end, a result per tool call, deltas that add up, and a
    JSON round trip."""
    assert seen, "the turn was empty"
    kinds = [event.type for event in seen]
    assert isinstance(seen[0], TurnStarted), f"the turn began with {kinds[0]}"
    assert kinds.count("turn_started") == 1
    assert kinds.count("done") == 1, f"{kinds.count('done')} done in {kinds}"
    assert isinstance(seen[-1], Done), f"the turn ended with {kinds[-1]}"
    calls = [call.id for call in of(seen, ToolUse)]
    results = [result.id for result in of(seen, ToolResult)]
    assert len(set(calls)) == len(calls), f"a tool call was told twice: {calls}"
    assert sorted(calls) == sorted(results), f"calls {calls} but results {results}"
    for call in calls:
        first = next(i for i, e in enumerate(seen) if isinstance(e, ToolUse) and e.id == call)
        last = next(i for i, e in enumerate(seen) if isinstance(e, ToolResult) and e.id == call)
        assert first < last, f"the result of {call} came before the call"
    for delta, whole in ((TextDelta, Text), (ThinkingDelta, Thinking)):
        joined: dict[str, str] = {}
        for piece in of(seen, delta):
            joined[piece.item] = joined.get(piece.item, "") + piece.text
        items = {item.item: item.text for item in of(seen, whole)}
        for item, text in joined.items():
            assert items.get(item) == text, f"the deltas of {item!r} do not add up to its {whole.__name__}"
    for event in seen:
        assert decode(encode(event)) == event


def of(seen: list[Event], kind: type[E]) -> list[E]:
    return [event for event in seen if isinstance(event, kind)]


def the(seen: list[Event], kind: type[E]) -> E:
    """The only event of its kind."""
    events = of(seen, kind)
    assert len(events) == 1, f"{len(events)} {kind.__name__} in {[event.type for event in seen]}"
    return events[0]


def done(seen: list[Event]) -> Done:
    return the(seen, Done)
