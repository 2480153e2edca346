"""Commands survive whoever carries them out, on either bus: at once, in their order, each once."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.bus.conftest import address
from tests.node.conftest import executor_at, until

from tieline.bus import Bus, open_bus
from tieline.node.command_executor import CommandExecutor
from tieline.node.command_inbox import INBOX, CommandInbox
from tieline.protocol import commands as c
from tieline.protocol.commands import CommandEnvelope, Result


@pytest.fixture(params=["sqlite", "nats"])
async def bus(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Bus]:
    async with address(request.param, tmp_path) as url, open_bus(url) as bus:
        yield bus


@pytest.fixture
async def executor(tmp_path: Path) -> AsyncGenerator[CommandExecutor]:
    async with executor_at(tmp_path / "node") as (executor, _):
        yield executor


def envelopes(*numbers: int) -> list[tuple[int, CommandEnvelope]]:
    """All for one session: they follow each other."""
    return [(number, CommandEnvelope(id=f"o{number}", command=c.AbortSession(session="s"))) for number in numbers]


async def loaded(bus: Bus) -> CommandInbox:
    inbox = CommandInbox(bus, "link.n")
    await inbox.load()
    return inbox


@asynccontextmanager
async def at_work(inbox: CommandInbox, executor: CommandExecutor, *, slow: bool = False) -> AsyncGenerator[list[str]]:
    """The commands that came to their end. With `slow` none does: its end is never written down."""
    over: list[str] = []

    async def done(result: Result) -> None:
        over.append(result.id)
        if slow:
            await asyncio.Event().wait()

    work = asyncio.create_task(inbox.run(executor, done))
    try:
        yield over
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_the_next_one_goes_on_at_once(bus: Bus, executor: CommandExecutor) -> None:
    inbox = await loaded(bus)
    await inbox.take("hub", envelopes(4, 5))
    async with at_work(inbox, executor, slow=True) as over:
        await until(lambda: _is(over, ["o4"]), "it did not begin")
        await inbox.take("hub", envelopes(9, 11))
    following = await loaded(bus)
    assert (following.position.log, following.position.seq) == ("hub", 11)
    async with at_work(following, executor) as over:
        await until(lambda: _is(over, ["o4", "o5", "o9", "o11"]), "not all, or not in their order")
        await until(lambda: _empty(bus), "what was done is still there")


async def test_what_comes_twice_is_taken_once(bus: Bus, executor: CommandExecutor) -> None:
    inbox = await loaded(bus)
    await inbox.take("hub", envelopes(1, 2))
    await inbox.take("hub", envelopes(2, 3))
    assert len(await bus.table(INBOX).entries()) == 3
    async with at_work(inbox, executor) as over:
        await until(lambda: _is(over, ["o1", "o2", "o3"]), "not each once")


async def test_what_came_without_being_noted_is_known(bus: Bus) -> None:
    """We died after a command was kept and before it was written down how far we are."""
    inbox = await loaded(bus)
    await inbox.take("hub", envelopes(1))
    position = inbox.position
    await inbox.take("hub", envelopes(2))
    await inbox.move(position)
    assert (await loaded(bus)).position.seq == 2
    await inbox.take("another", envelopes(1))
    assert (await loaded(bus)).position.seq == 1, "the numbers of another log"


async def test_there_is_so_much_room(bus: Bus, executor: CommandExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.node.command_inbox.MOST_HELD", 2)
    inbox = await loaded(bus)
    await inbox.take("hub", envelopes(1, 2))
    more = asyncio.create_task(inbox.take("hub", envelopes(3)))
    await asyncio.sleep(0)
    assert not more.done() and len(await bus.table(INBOX).entries()) == 2
    async with at_work(inbox, executor) as over, asyncio.timeout(30):
        await more
        await until(lambda: _is(over, ["o1", "o2", "o3"]), "not all")


async def _is(over: list[str], wanted: list[str]) -> bool:
    return over == wanted


async def _empty(bus: Bus) -> bool:
    return not await bus.table(INBOX).entries()
