"""Every turn counts once, after a crash at any moment, with several hubs, on both buses; what is not known is told."""

import asyncio
import sys
from pathlib import Path

import pytest
from tests.hub.indexing.conftest import add_session

from tieline.bus import open_bus
from tieline.bus.base import Bus
from tieline.errors import UsageError
from tieline.events import Done, Text, Tokens, encode
from tieline.hub.indexing import log_indexer, usage_counter
from tieline.hub.indexing.log_indexer import LogIndexer
from tieline.hub.indexing.session_lookup import SessionLookup
from tieline.hub.indexing.usage_counter import UsageCounter
from tieline.hub.stream.retention import Retention
from tieline.protocol.usage import UsageBy, UsageReport
from tieline.sessions.event_log import AT, EventLog, subject

CRASHER = Path(__file__).with_name("crasher.py")
NOON = 1_794_916_800.0  # 2026-11-17 12:00 UTC


def turn(cost: float | None = 0.5, turns: int | None = None) -> Done:
    tokens = Tokens(input=100, output=10, cache_read=40, cost_usd=cost)
    return Done("success", tokens=tokens, usage="complete", duration_s=2.0, turns=turns)


async def ended(bus: Bus, session: str, done: Done, at: float = NOON) -> int:
    return await bus.publish(subject(session), encode(done), headers={AT: f"{at:.6f}"})


async def counter(bus: Bus) -> UsageCounter:
    made = UsageCounter(bus, SessionLookup(bus, "here"))
    await made.load()
    return made


async def counted(bus: Bus, usage: UsageCounter | None = None) -> UsageCounter:
    """All that is in the log by now."""
    usage = usage or await counter(bus)
    async with LogIndexer(bus, "events.>", (usage,)) as indexer:
        assert await indexer.sync(60)
    return usage


async def report(usage: UsageCounter, by: UsageBy = "day", **more: object) -> UsageReport:
    return await usage.report(by, sessions={}, time_zone=str(more.pop("time_zone", "UTC")), **more)  # type: ignore[arg-type]


async def test_turns_add_up_by_day_agent_project_and_session(bus: Bus) -> None:
    await add_session(bus, "s1", agent="codex", cwd="/home/someone/shop")
    await add_session(bus, "s2", agent="claude-code", cwd="/home/me/Site")
    await EventLog(bus).append("s1", Text("not a turn's end"))
    for at in (NOON, NOON + 60, NOON + 86400):
        await ended(bus, "s1", turn(turns=3), at)
    await ended(bus, "s2", turn(cost=4.0))
    usage = await counted(bus)

    days = await report(usage)
    assert [(row.key, row.turns, row.tokens.input) for row in days.rows] == [
        ("2026-11-17", 3, 300),
        ("2026-11-18", 1, 100),
    ]
    assert days.total.tokens == Tokens(input=400, output=40, cache_read=160, cost_usd=5.5)
    assert (days.total.turns, days.total.duration_s, days.total.model_calls) == (4, 8.0, 9)
    assert days.total.cost_complete
    agents = await report(usage, "agent")
    assert [(row.key, row.turns) for row in agents.rows] == [("claude-code", 1), ("codex", 3)], "the dearest first"
    assert [row.key for row in (await report(usage, "project")).rows] == ["site", "shop"]
    sessions = await report(usage, "session")
    assert [(row.key, row.agent, row.project) for row in sessions.rows] == [
        ("s2", "claude-code", "site"),
        ("s1", "codex", "shop"),
    ]


async def test_what_is_not_known_is_told(file_bus: Bus) -> None:
    await add_session(file_bus, "s1")
    await ended(file_bus, "s1", turn())
    await ended(file_bus, "s1", Done("error", error="boom"))
    await ended(file_bus, "s1", Done("interrupted", tokens=Tokens(input=7), usage="partial"))
    total = (await report(await counted(file_bus))).total
    assert (total.turns, total.partial_turns, total.unknown_turns, total.turns_with_cost) == (3, 1, 1, 1)
    assert not total.complete and not total.cost_complete
    assert total.tokens == Tokens(input=107, output=10, cache_read=40, cost_usd=0.5)
    assert total.tokens.reasoning is None, "what nobody told is no zero"


async def test_days_are_those_of_the_time_zone(file_bus: Bus) -> None:
    await add_session(file_bus, "s1")
    await ended(file_bus, "s1", turn(), NOON + 11.5 * 3600)  # 23:30 UTC
    usage = await counted(file_bus)
    assert [row.key for row in (await report(usage)).rows] == ["2026-11-17"]
    assert [row.key for row in (await report(usage, time_zone="Europe/Berlin")).rows] == ["2026-11-18"]
    assert [row.key for row in (await report(usage, time_zone="Asia/Kathmandu")).rows] == ["2026-11-18"]
    for wrong in ("Mars/Base", "../../etc/passwd", "/etc/localtime", "Europe", "a\0b"):
        with pytest.raises(UsageError, match="unknown time zone"):
            await report(usage, time_zone=wrong)


async def test_only_what_is_asked_for(file_bus: Bus) -> None:
    await add_session(file_bus, "s1")
    await add_session(file_bus, "s2", agent="gemini", cwd="/x/other")
    for session in ("s1", "s2"):
        for hours in (0, 1, 48):
            await ended(file_bus, session, turn(), NOON + hours * 3600)
    usage = await counted(file_bus)
    assert (await report(usage)).total.turns == 6
    assert (await report(usage, since=NOON + 3600)).total.turns == 4
    assert (await report(usage, since=NOON, until=NOON + 3600)).total.turns == 2
    assert (await report(usage, agent="gemini")).total.turns == 3
    assert (await report(usage, project="shop", until=NOON + 1)).total.turns == 1
    assert (await report(usage, session="s2", since=NOON + 86400)).total.turns == 1


async def test_several_hubs_count_the_same_rows(bus: Bus) -> None:
    await add_session(bus, "s1")
    for number in range(20):
        await ended(bus, "s1", turn(), NOON + number)
    counters = [await counter(bus) for _ in range(3)]
    await asyncio.gather(*(counted(bus, counter) for counter in counters))
    assert (await report(counters[0])).total.turns == 20


async def test_an_event_in_parts_counts_once(file_bus: Bus) -> None:
    await add_session(file_bus, "s1")
    large = Done("success", text="x" * 3_000_000, tokens=Tokens(input=5), usage="complete")
    await EventLog(file_bus).append("s1", large)
    assert (await report(await counted(file_bus))).total.tokens.input == 5


async def test_no_turn_is_trimmed_before_it_is_counted(file_bus: Bus) -> None:
    await add_session(file_bus, "s1")
    await ended(file_bus, "s1", turn())
    usage = await counter(file_bus)
    retention = Retention(file_bus, 1.0)
    retention.keep_after = lambda: usage.cursor
    future = 4e9
    assert await retention.trim(future) == 0
    await counted(file_bus, usage)
    assert await retention.trim(future) == 1
    assert (await report(await counted(file_bus))).total.turns == 1, "the rows outlive the log"


class Crash(BaseException):
    pass


@pytest.mark.parametrize("moment", ["row", "counted"])
async def test_a_turn_that_was_counted_before_the_cursor_was_saved_counts_once(file_bus: Bus, moment: str) -> None:
    for session in ("s1", "s2"):
        await add_session(file_bus, session)
        await ended(file_bus, session, turn())

    def crash(now: str) -> None:
        if now == moment:
            raise Crash

    first = await counter(file_bus)
    first.probe = crash
    records = [record async for record in file_bus.read("events.>", follow=False)]
    with pytest.raises(Crash):
        await first.take(records, records[-1].seq)
    assert (await report(await counted(file_bus))).total.turns == 2
    assert (await report(await counted(file_bus))).total.turns == 2


@pytest.mark.slow
async def test_killed_at_any_moment_each_turn_counts_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_bus(url) as bus:
        for session in ("s1", "s2", "s3"):
            await add_session(bus, session)
            for number in range(5):
                await ended(bus, session, turn(), NOON + number)
    for moment, count in (("row", 1), ("row", 3), ("counted", 1)):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(CRASHER),
            url,
            moment,
            str(count),
            env={"PATH": "/usr/bin:/bin"},
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await asyncio.wait_for(process.communicate(), 120)
        assert (process.returncode, output) == (-9, b""), moment
        async with open_bus(url) as bus:
            await ended(bus, "s1", turn())
    async with open_bus(url) as bus:
        assert (await report(await counted(bus))).total.turns == 18


async def test_a_log_that_is_long_is_read_in_batches(file_bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_indexer, "BATCH", 3)
    monkeypatch.setattr(usage_counter, "SAVE_EVERY_S", 1e9)
    await add_session(file_bus, "s1")
    for _ in range(10):
        await ended(file_bus, "s1", turn())
    taken: list[int] = []
    usage = await counter(file_bus)
    usage.probe = lambda moment: taken.append(1) if moment == "counted" else None
    assert (await report(await counted(file_bus, usage))).total.turns == 10
    assert len(taken) == 4
