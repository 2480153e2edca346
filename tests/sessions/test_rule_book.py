"""The rules of a node, from its bus: whatever cannot be read, understood or written down leaves the ask to people."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest
from tests.bus.conftest import address

from tieline.bus import Bus, open_bus
from tieline.events import Ask, Command, Edit
from tieline.sessions import rule_book
from tieline.sessions.ask_rules import AskOrigin, AskRule
from tieline.sessions.pending_asks import PendingAsks
from tieline.sessions.records import ASKS, AskRecord
from tieline.sessions.rule_book import RULES, RuleBook, SessionRules

HERE = AskOrigin("scripted", "n1", "/nonexistent")
RUN = Ask("a1", "permission", tool="t1", action=Command("make all"), input={"command": "make all"}, capability="shell")
MAKE = AskRule(id="r1", match="prefix", pattern="make", made_by="anna")


@pytest.fixture(params=["sqlite", "nats"])
async def bus(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Bus, None]:
    async with address(request.param, tmp_path) as url, open_bus(url) as opened:
        yield opened


async def save(bus: Bus, *rules: AskRule) -> None:
    for rule in rules:
        await bus.table(RULES).put(rule.id, msgspec.json.encode(rule))


def session_rules(bus: Bus) -> SessionRules:
    return SessionRules(RuleBook(bus), PendingAsks(bus, expiry_s=60), "s1", HERE)


async def test_what_a_rule_decides_is_kept_with_it(bus: Bus) -> None:
    await save(bus, MAKE)
    answer = await session_rules(bus)(RUN)
    assert answer is not None
    assert (answer.ask, answer.decision, answer.by, answer.rule, answer.tool) == ("a1", "allow", "rule", "r1", "t1")
    reason = "a rule says: allow commands that begin with `make`, in every directory; made by anna"
    assert answer.reason == reason
    entry = await bus.table(ASKS).get("a1")
    assert entry is not None
    record = msgspec.json.decode(entry.value, type=AskRecord)
    assert (record.session, record.status, record.answer) == ("s1", "answered", answer)


async def test_rules_of_the_own_bus_and_of_the_hub_that_it_is_joined_to(bus: Bus) -> None:
    book = RuleBook(bus)
    assert await book.decide(RUN, HERE) is None
    await book.keep_joined("wss://a", (MAKE,))
    assert await book.decide(RUN, HERE) is not None
    await save(bus, msgspec.structs.replace(MAKE, id="r2", decision="deny"))
    answer = await book.decide(RUN, HERE)
    assert answer is not None and answer.decision == "deny", "of whichever hub: a deny rule comes first"
    await book.forget_joined(but="wss://a")
    assert len(await book.rules()) == 2
    await book.forget_joined(but="wss://b")
    assert [rule.id for rule in await book.rules()] == ["r2"]


async def test_what_cannot_be_written_down_is_for_people(bus: Bus) -> None:
    await save(bus, AskRule(id="r1", match="edit", pattern="/nonexistent/"))
    small = Ask("a1", "permission", action=Edit(("x",)), capability="file_write")
    large = Ask("a2", "permission", action=Edit(("x",)), input={"content": "x" * 2_000_000}, capability="file_write")
    assert await session_rules(bus)(small) is not None
    assert await session_rules(bus)(large) is None


async def test_a_rule_that_is_not_understood_leaves_all_to_people(bus: Bus) -> None:
    await save(bus, MAKE)
    await bus.table(RULES).put("r2", b'{"id": "r2", "match": "mood", "pattern": "good"}')
    assert await session_rules(bus)(RUN) is None, "it may be one that denies"


async def test_a_bus_that_does_not_answer(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    await save(bus, MAKE)
    book = RuleBook(bus)

    async def never() -> list[AskRule]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(rule_book, "DECIDE_S", 0.05)
    monkeypatch.setattr(book, "rules", never)
    assert await book.decide(RUN, HERE) is None
