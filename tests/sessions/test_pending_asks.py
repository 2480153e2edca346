"""Asks on the bus: kept with what people see, and decided only as they may be."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from tieline.ask_parts import Part
from tieline.bootstrap.relay import ask_note
from tieline.bus import open_bus
from tieline.channels.telegram.ask_card import card
from tieline.errors import UsageError
from tieline.events import Answer, Ask, Command
from tieline.sessions.pending_asks import PendingAsks
from tieline.sessions.records import AskRecord

RUN = Ask("q1", "permission", "run", action=Command("make"), remember=("session",))


@asynccontextmanager
async def waiting(ask: Ask) -> AsyncGenerator[tuple[PendingAsks, AskRecord, "asyncio.Task[Answer]"], None]:
    shown = asyncio.Event()
    async with open_bus("sqlite://:memory:") as bus:
        asks = PendingAsks(bus, expiry_s=60, changed=lambda session, waits: shown.set())
        task = asyncio.create_task(asks.wait("s", ask))
        await asyncio.wait_for(shown.wait(), 10)
        try:
            yield asks, (await asks.get(ask.id))[0], task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_an_ask_is_kept_with_what_people_see() -> None:
    async with waiting(RUN) as (_, record, _):
        assert record.parts == (Part("request", "run"), Part("command", "make", "code"))


async def test_what_is_withheld_can_only_be_denied() -> None:
    async with waiting(replace(RUN, withheld="the end of it")) as (asks, record, task):
        with pytest.raises(UsageError, match="can only be denied: the end of it"):
            await asks.answer("q1", Answer("q1", "allow", by="me"))
        assert (await asks.get("q1"))[0] == record, "it still waits"
        await asks.answer("q1", Answer("q1", "deny", by="me"))
        assert (await task).decision == "deny"


async def test_only_what_is_offered_is_remembered() -> None:
    async with waiting(RUN) as (asks, _, task):
        with pytest.raises(UsageError, match="cannot be remembered for always") as refused:
            await asks.answer("q1", Answer("q1", "allow", by="me", remember="always"))
        assert "session" in refused.value.hint
        await asks.answer("q1", Answer("q1", "allow", by="me", remember="session"))
        assert (await task).remember == "session"


async def test_an_ask_that_fills_a_record_is_kept_without_its_second_copy() -> None:
    """Its parts are made of it; whoever lacks them makes them again."""
    async with waiting(replace(RUN, action=Command("x" * 700_000))) as (_, record, _):
        assert record.parts == ()
        assert record.ask.action == Command("x" * 700_000)


async def test_what_a_restart_denied_says_so_everywhere() -> None:
    """To whoever answers it too late, and in a chat."""
    async with waiting(RUN) as (asks, _, _):
        (record,) = await asks.load(lambda session: True)
        why = "Tieline was restarted before anyone answered"
        assert (record.status, record.answer) == ("expired", Answer("q1", "deny", by="restart", reason=why))
        with pytest.raises(UsageError, match=f"this ask is over: {why}"):
            await asks.answer("q1", Answer("q1", "allow", by="me"))
    assert ask_note(record, None).outcome == f"Denied: {why}"
    assert f"Denied: {why}" in card(ask_note(record, None), content=True).text
    allowed = replace(record, status="answered", answer=Answer("q1", "allow", by="restart"))
    assert ask_note(allowed, None).outcome == "Approved by restart", "somebody's name proves nothing"


async def test_a_session_waits_as_long_as_its_ask_does() -> None:
    """Until it is decided, expires or is withdrawn; one that nobody saw never made it wait."""
    async with open_bus("sqlite://:memory:") as bus:
        told: list[tuple[str, bool]] = []
        shown = asyncio.Event()

        def changed(session: str, waits: bool) -> None:
            told.append((session, waits))
            shown.set()

        asks = PendingAsks(bus, expiry_s=60, changed=changed)
        for end in ("decided", "withdrawn"):
            shown.clear()
            task = asyncio.create_task(asks.wait("s", replace(RUN, id=end)))
            await asyncio.wait_for(shown.wait(), 10)
            assert told == [("s", True)]
            if end == "decided":
                await asks.answer(end, Answer(end, "deny", by="me"))
            else:
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert told == [("s", True), ("s", False)]
            told.clear()
        short = PendingAsks(bus, expiry_s=0.05, changed=changed)
        assert (await short.wait("s", replace(RUN, id="expired"))).decision == "deny"
        assert told in ([], [("s", True), ("s", False)]), "it may expire before it is shown"
