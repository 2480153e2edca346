"""The writer of a turn: whatever the agent says, however large, is in the log whole and in order."""

import time
from pathlib import Path

import pytest

from tieline.bus import open_bus
from tieline.bus.base import MAX_RECORD
from tieline.events import AnyEvent, Error, Other, OtherAction, Plan, PlanStep, Text, ToolUse
from tieline.sessions.event_log import EventLog, last_before

LARGE = "0123456789" * (MAX_RECORD // 4)


@pytest.mark.parametrize(
    "large",
    [
        Text(LARGE),
        Plan((PlanStep(LARGE),)),
        Error(LARGE),
        ToolUse("1", "Write", OtherAction(), {"content": LARGE}),
        Other({"it": LARGE}),
    ],
    ids=lambda event: type(event).__name__,
)
async def test_any_event_may_be_larger_than_a_record(tmp_path: Path, large: AnyEvent) -> None:
    events = [Text("before"), large, Text("between"), large, Text("after")]
    async with open_bus(f"sqlite:///{tmp_path}/bus.db") as bus:
        log = EventLog(bus)
        writer = log.writer("s")
        for event in events:
            await writer.write(event)
        last = await writer.close()
        entries = [entry async for entry in log.read("s", follow=False)]
    assert [entry.event for entry in entries] == events
    assert entries[-1].seq == last


async def test_a_cursor_in_the_middle_of_an_event_gives_the_whole_event(tmp_path: Path) -> None:
    async with open_bus(f"sqlite:///{tmp_path}/bus.db") as bus:
        log = EventLog(bus)
        before = await log.append("s", Text("before"))
        last = await log.append("s", Text(LARGE))
        assert last - before > 2, "it is in several records"
        entries = [entry async for entry in log.read("s", after=before + 1, follow=False)]
    assert [(entry.event, entry.seq) for entry in entries] == [(Text(LARGE), last)]


async def test_a_clock_that_was_ahead_does_not_keep_the_log_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    clock = {"wrong": now + 20 * 365 * 86400, "old": now - 60 * 86400, "new": now}
    seqs: list[int] = []
    async with open_bus(f"sqlite:///{tmp_path}/bus.db") as bus:
        for when in ("old", "wrong", "wrong", "old", "wrong", "new", "old"):
            with monkeypatch.context() as at:
                at.setattr(time, "time", lambda when=when: clock[when])
                seqs.append(await bus.publish("events.s", b"{}"))
        month = now - 30 * 86400
        assert await last_before(bus, month) == seqs[3], "not the one from the future that nothing old follows"
        assert await last_before(bus, month, seqs[2]) == seqs[0], "no further than somebody has read"
        assert await last_before(bus, now - 90 * 86400) == 0
