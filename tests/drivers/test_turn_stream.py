"""The promises that Turn keeps for a driver."""

import asyncio

import pytest

from tieline.drivers import turn_stream as turns
from tieline.drivers.base import Emit, Prompt
from tieline.drivers.turn_stream import Turn
from tieline.events import (
    Answer,
    Ask,
    Command,
    Done,
    Error,
    OtherAction,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tokens,
    ToolOutput,
    ToolResult,
    ToolUse,
    Usage,
)
from tieline.testing.stream_checks import collect, done, of, the


async def refuse(ask: Ask, emit: Emit) -> Answer:
    return Answer(ask.id, "deny", by="test", reason="no", tool=ask.tool)


def new() -> Turn:
    return Turn(Prompt("go"), refuse)


async def test_only_the_first_done_counts() -> None:
    turn = new()
    turn.done("success")
    turn.done("error")
    turn.emit(Text("too late"))
    seen = await collect(turn)
    assert [event.type for event in seen] == ["turn_started", "done"]
    assert done(seen).status == "success"


async def test_a_cut_stream_still_leaves_the_text() -> None:
    turn = new()
    turn.emit(TextDelta("half a ", "t1"))
    turn.emit(ThinkingDelta("hm", "t2"))
    turn.emit(TextDelta("sentence", "t1"))
    turn.fail("cut")
    seen = await collect(turn)
    assert the(seen, Text) == Text("half a sentence", "t1")
    assert the(seen, Thinking) == Thinking("hm", "t2")
    assert done(seen).error == "cut"
    assert done(seen).text == "half a sentence"


async def test_every_call_gets_its_result() -> None:
    turn = new()
    turn.emit(ToolUse("a", "x", OtherAction()))
    turn.emit(ToolUse("a", "x", OtherAction()))
    turn.emit(ToolUse("b", "x", OtherAction()))
    turn.emit(ToolResult("b", "ok"))
    turn.emit(ToolResult("b", "error"))
    turn.emit(ToolResult("never-called", "ok"))
    turn.done("success")
    seen = await collect(turn)
    assert {result.id: result.status for result in of(seen, ToolResult)} == {"a": "error", "b": "ok"}


async def test_a_hidden_refusal_is_shown() -> None:
    turn = new()
    await turn.ask(Ask("q", "permission", "rm", tool="c", action=Command("rm -rf x")))
    turn.done("success")
    seen = await collect(turn)
    assert the(seen, ToolUse).action == Command("rm -rf x")
    assert the(seen, ToolResult).status == "denied"
    assert "no" in the(seen, ToolResult).output


async def test_a_refusal_told_as_an_error_is_denied() -> None:
    turn = new()
    turn.emit(ToolUse("c", "run", Command("x")))
    turn.mark_denied("c", "by its own rule")
    turn.emit(ToolResult("c", "error", "not permitted"))
    turn.done("success")
    assert the(await collect(turn), ToolResult) == ToolResult("c", "denied", "not permitted")


async def test_deltas_coalesce_while_nobody_reads() -> None:
    turn = new()
    for _ in range(1000):
        turn.emit(TextDelta("x", "t"))
    for _ in range(1000):
        turn.emit(ToolOutput("c", "y"))
    turn.done("success")
    seen = await collect(turn)
    assert [event.type for event in seen] == ["turn_started", "text_delta", "tool_output", "text", "done"]
    assert the(seen, ToolOutput).text == "y" * 1000


async def test_a_slow_reader_holds_the_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MAX_QUEUED", 10)
    turn = new()
    for number in range(20):
        turn.emit(Text(str(number)))
    held = asyncio.create_task(turn.drain())
    await asyncio.sleep(0)
    assert not held.done()
    for _ in range(12):
        await anext(turn)
    async with asyncio.timeout(30):
        await held


async def test_interrupting_frees_a_held_producer_and_kills_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MAX_QUEUED", 1)
    monkeypatch.setattr(turns, "INTERRUPT_GRACE_S", 0.05)
    turn = new()
    turn.emit(Text("a"))
    killed = asyncio.Event()
    turn.interrupt(killed.set)
    async with asyncio.timeout(30):
        await turn.drain()
        await killed.wait()
    seen = await collect(turn)
    assert done(seen).status == "interrupted"


async def test_an_interrupted_turn_ends_as_interrupted() -> None:
    turn = new()
    turn.interrupt(lambda: None)
    turn.emit(Error("[ede_diagnostic] result_type=user", "error_during_execution"))
    turn.fail("the agent complains")
    seen = await collect(turn)
    assert (done(seen).status, done(seen).error) == ("interrupted", "")
    assert not of(seen, Error), "an abort is told once, as an abort"


async def test_usage_is_partial_when_only_seen_on_the_way() -> None:
    turn = new()
    turn.emit(Usage(Tokens(input=3)))
    turn.fail("died")
    ended = done(await collect(turn))
    assert (ended.tokens, ended.usage) == (Tokens(input=3), "partial")


async def test_an_ask_that_nobody_answered_ends_with_its_turn() -> None:
    asked, withdrawn = asyncio.Event(), asyncio.Event()

    async def decide(ask: Ask, emit: Emit) -> Answer:
        emit(ask)
        asked.set()
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            withdrawn.set()
            emit(Answer(ask.id, "deny", by="agent"))  # too late: it has its answer

    turn = Turn(Prompt("go"), decide)
    asking = asyncio.create_task(turn.ask(Ask("a1", "permission", "Run it?", tool="t1")))
    await asked.wait()
    assert turn.asking
    turn.done("success")
    assert (await asking).by == "turn-end"
    assert withdrawn.is_set()
    seen = await collect(turn)
    assert (the(seen, Answer).ask, the(seen, Answer).by) == ("a1", "turn-end")
    assert not turn.asking


async def test_an_ask_that_the_agent_withdraws_is_cancelled() -> None:
    asked = asyncio.Event()

    async def decide(ask: Ask, emit: Emit) -> Answer:
        emit(ask)
        asked.set()
        try:
            return await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            emit(Answer(ask.id, "deny", by="agent"))
            raise

    turn = Turn(Prompt("go"), decide)
    asking = asyncio.create_task(turn.ask(Ask("a1", "permission", "Run it?")))
    await asked.wait()
    assert turn.asking
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    turn.done("success")
    assert the(await collect(turn), Answer).by == "agent"


async def test_an_ask_after_the_end_is_denied() -> None:
    turn = new()
    turn.done("success")
    answer = await turn.ask(Ask("q", "permission"))
    assert (answer.decision, answer.by) == ("deny", "turn-end")


async def test_a_raw_done_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(turns.time, "monotonic", lambda: now)
    turn = new()
    turn.emit(Text("the answer"))
    now = 102.5
    turn.emit(Done("success"))
    monkeypatch.undo()
    events = await collect(turn)
    assert (done(events).text, done(events).duration_s) == ("the answer", 2.5)
