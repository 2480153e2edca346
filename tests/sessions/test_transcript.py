"""A session's events as whole items, each with its place in the log."""

from collections.abc import AsyncIterator

import pytest

from tieline.events import Answer, AnyEvent, Ask, Command, Done, Text, ToolResult, ToolUse, TurnStarted
from tieline.sessions.event_log import LogEntry
from tieline.sessions.transcript import TranscriptItem, fold


async def folded(*events: AnyEvent, limit: int = 100) -> list[TranscriptItem]:
    async def entries() -> AsyncIterator[LogEntry]:
        for number, event in enumerate(events, start=1):
            yield LogEntry(event, seq=number * 10)

    return await fold(entries(), limit=limit)


START = TurnStarted("go", id="p")
CALL = ToolUse("1", "bash", Command("make"))


async def test_an_item_has_its_place_its_kind_and_its_content() -> None:
    user, text, tool, done = await folded(START, Text("I make it."), CALL, Done("success"))
    assert [item.seq for item in (user, text, tool, done)] == [10, 20, 30, 40]
    assert [item.kind for item in (user, text, tool, done)] == ["user", "text", "tool", "done"]
    assert (user.text, text.text, tool.tool) == ("go", "I make it.", CALL)


async def test_a_tool_call_is_completed_by_its_result() -> None:
    (_, running) = await folded(START, CALL)
    assert running.result is None
    result = ToolResult("1", "ok", "made")
    (_, over) = await folded(START, CALL, result)
    assert (over.seq, over.tool, over.result) == (20, CALL, result)


async def test_an_ask_is_completed_by_its_answer() -> None:
    ask, answer = Ask("a", "permission", "bash"), Answer("a", "deny", by="me")
    (_, waiting) = await folded(START, ask)
    (_, over) = await folded(START, ask, answer)
    assert (waiting.answer, over.seq, over.answer) == (None, 20, answer)


async def test_an_id_that_is_used_again_is_another_call() -> None:
    items = await folded(START, CALL, ToolResult("1", "ok"), Done("success"), START, CALL)
    assert [(item.seq, item.result is None) for item in items if item.kind == "tool"] == [(20, False), (60, True)]


async def test_the_last_items_are_kept_and_never_more_than_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [Text(f"{number}") for number in range(5)]
    assert [item.text for item in await folded(*texts, limit=3)] == ["2", "3", "4"]
    monkeypatch.setattr("tieline.sessions.transcript.MAX_MESSAGES", 2)
    assert [item.text for item in await folded(*texts, limit=3)] == ["3", "4"]
