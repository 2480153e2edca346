"""A prompt that was running when Tieline stopped gets the end that the log knows of, and no other."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tieline.bus import open_bus
from tieline.drivers.base import Prompt
from tieline.events import Answer, Ask, Command, Done, TurnStarted
from tieline.sessions.crash_recovery import STOPPED, UNWRITTEN, close_turn, expire_ask
from tieline.sessions.event_log import EventLog
from tieline.sessions.prompt_queue import PromptQueue
from tieline.sessions.records import AskRecord, PromptRecord, SessionRecord

RECORD = SessionRecord(id="s", agent="scripted", cwd="/home/me/shop", status="working", turns=4)


class Stopped(Struct):
    """What the last owner left: a prompt that was running, and the beginning of its turn in the log."""

    log: EventLog
    prompts: PromptQueue
    prompt: PromptRecord

    async def status(self) -> str:
        return (await self.prompts.get("s", self.prompt.id)).status

    async def close(self, record: SessionRecord = RECORD) -> SessionRecord:
        return await close_turn(self.log, self.prompts, self.prompt, record)


@pytest.fixture
async def stopped(tmp_path: Path) -> AsyncGenerator[Stopped, None]:
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        log, prompts = EventLog(bus), PromptQueue(bus)
        await prompts.receive("s", Prompt("go"), id="p")
        prompt = await prompts.start("s")
        assert prompt is not None
        await log.append("s", TurnStarted("go", "p"))
        yield Stopped(log, prompts, prompt)


async def test_a_turn_that_had_ended_in_the_log_has_that_end(stopped: Stopped) -> None:
    await stopped.log.append("s", Done("success", native_id="n"))
    assert await stopped.close() == replace(RECORD, status="idle", outcome="success", turns=5, native_id="n")
    assert await stopped.status() == "done"


async def test_a_turn_that_the_record_counts_already_is_not_counted_again(stopped: Stopped) -> None:
    counted = replace(RECORD, status="idle", turns=5, seq=await stopped.log.append("s", Done("success")))
    assert await stopped.close(counted) == counted
    assert await stopped.status() == "done"


@pytest.mark.parametrize("problem", [STOPPED, UNWRITTEN])
async def test_a_turn_that_was_being_closed_stays_indeterminate(stopped: Stopped, problem: str) -> None:
    """Its end in the log is that of an earlier recovery, not the agent's."""
    await stopped.log.append("s", Done("error", error=problem))
    closed = await stopped.close()
    assert (closed.status, closed.problem, closed.turns) == ("failed", STOPPED, RECORD.turns)
    assert await stopped.status() == "indeterminate"
    ends = [entry async for entry in stopped.log.read("s", follow=False) if isinstance(entry.event, Done)]
    assert len(ends) == 1


@pytest.mark.parametrize("decided", ["allow", ""])
async def test_an_ask_whose_answer_was_not_written_down_gets_it(stopped: Stopped, decided: str) -> None:
    """A person had answered, or it had expired, when Tieline was killed before the log said so."""
    ask = Ask("a", "permission", title="Run", action=Command("ls"), input={"command": "ls"})
    await stopped.log.append("s", ask)

    async def answered(asked: Ask) -> Answer | None:
        assert asked == ask
        return Answer("a", "allow", by="owner") if decided else None

    for _ in range(2):  # also when it is done again
        await close_turn(stopped.log, stopped.prompts, stopped.prompt, RECORD, answered=answered)
    events = [entry.event async for entry in stopped.log.read("s", follow=False)]
    (answer,) = [event for event in events if isinstance(event, Answer)]
    assert (answer.ask, answer.decision, answer.by) == ("a", *(("allow", "owner") if decided else ("deny", "restart")))
    assert isinstance(events[-1], Done)


@pytest.mark.parametrize("written", [False, True], ids=["only on record", "in the log"])
async def test_an_expired_ask_is_in_the_log_once_before_its_answer(stopped: Stopped, written: bool) -> None:
    ask = Ask("a", "permission", title="Run", action=Command("ls"), input={"command": "ls"})
    if written:
        await stopped.log.append("s", ask)
    for _ in range(2):  # also when it is done again
        await expire_ask(stopped.log, AskRecord(id="a", session="s", ask=ask, digest=""))
    events = [entry.event async for entry in stopped.log.read("s", follow=False)]
    assert [type(event) for event in events] == [TurnStarted, Ask, Answer]
