"""Copilot CLI's record, read: what each of its events means, in the orders in which they were seen to come."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tieline.events import Done, Error, Event, Status, Text, ToolResult, TurnStarted
from tieline.harnesses.copilot.connector import CopilotConnector
from tieline.harnesses.copilot.transcript import CopilotEvents, CopilotTranscriptFile, head_of
from tieline.harnesses.terminals.transcript_file import TranscriptCursor
from tieline.sessions.attached_session import MODE, SAID

AT = "2026-11-19T05:01:33.260Z"
Line = tuple[str, dict[str, Any]]


def answer(text: str, *calls: str, **more: Any) -> Line:
    requests = [{"toolCallId": id, "name": "bash", "arguments": {"command": f"run {id}"}} for id in calls]
    return "assistant.message", {"messageId": text, "content": text, "model": "m", "toolRequests": requests, **more}


def user(text: str, delivery: str = "idle") -> Line:
    return "user.message", {"content": text, "delivery": delivery}


def result(id: str, **more: Any) -> Line:
    return "tool.execution_complete", {"toolCallId": id, "success": True, "result": {"content": "out"}, **more}


def asked(id: str) -> Line:
    return "permission.requested", {"requestId": f"r-{id}", "permissionRequest": {"kind": "shell", "toolCallId": id}}


def decided(id: str, kind: str) -> Line:
    return "permission.completed", {"requestId": f"r-{id}", "toolCallId": id, "result": {"kind": kind}}


def used(tokens: int) -> Line:
    return "session.usage_record", {"usage": {"inputTokens": tokens, "outputTokens": 1, "cacheReadTokens": 2}}


OVER: Line = ("assistant.turn_end", {})
ABORT: Line = ("abort", {"reason": "user_initiated"})


def read(path: Path, *entries: Line) -> list[Event]:
    with path.open("wb") as file:
        for number, (kind, data) in enumerate(entries):
            line = {"type": kind, "id": f"id-{number}", "timestamp": AT, "data": data}
            file.write(msgspec.json.encode(line) + b"\n")
    events = CopilotEvents("session", "/project", TranscriptCursor())
    lines, _ = CopilotTranscriptFile(path, TranscriptCursor()).read()
    return [event for line in lines for event, _ in events.feed(line)]


def done(events: list[Event]) -> Done:
    (ended,) = [event for event in events if isinstance(event, Done)]
    return ended


def test_a_turn_of_several_model_calls_is_one_and_its_tokens_add_up(tmp_path: Path) -> None:
    events = read(
        tmp_path / "r",
        user("go"),
        used(10),
        answer("I will.", "a"),
        result("a"),
        OVER,
        used(20),
        answer("It is."),
        OVER,
    )
    assert isinstance(events[0], TurnStarted) and events[0].prompt == "go"
    assert [event.text for event in events if isinstance(event, Text)] == ["I will.", "It is."]
    ended = done(events)
    assert (ended.status, ended.text, ended.turns) == ("success", "It is.", 2)
    assert ended.tokens is not None
    assert (ended.tokens.input, ended.tokens.cache_read, ended.tokens.output) == (26, 4, 2)


@pytest.mark.parametrize("end", [(OVER, ABORT, decided("a", "cancelled")), (decided("a", "cancelled"), OVER, ABORT)])
def test_a_denial_is_no_interruption_in_whatever_order_its_parts_come(tmp_path: Path, end: tuple[Line, ...]) -> None:
    events = read(tmp_path / "r", user("go"), answer("", "a"), asked("a"), *end)
    assert [event.status for event in events if isinstance(event, ToolResult)] == ["denied"]
    assert [event.code for event in events if isinstance(event, Error)] == ["denied"]
    assert done(events).status == "error"


def test_what_was_interrupted_and_what_failed(tmp_path: Path) -> None:
    events = read(tmp_path / "r", user("go"), answer("", "a"), asked("a"), decided("a", "approved"), OVER, ABORT)
    assert done(events).status == "interrupted"
    events = read(tmp_path / "r", user("go"), OVER, ("session.error", {"message": "400 refused"}))
    assert (done(events).status, done(events).error) == ("error", "400 refused")
    events = read(
        tmp_path / "r", user("go"), answer("", "a"), result("a", shellExecution={"exitCode": 3}), answer("So."), OVER
    )
    assert [event.status for event in events if isinstance(event, ToolResult)] == ["error"]


def test_words_in_a_turn_a_mode_and_what_subagents_do(tmp_path: Path) -> None:
    mode: Line = ("session.mode_changed", {"previousMode": "interactive", "newMode": "plan"})
    events = read(
        tmp_path / "r",
        mode,
        user("go"),
        answer("", "a"),
        user("and this", "steering"),
        answer("of a subagent", parentToolCallId="a"),
        ("system.message", {"content": "Copilot's own"}),
        ("something.new", {}),
        result("a"),
        answer("Both."),
        OVER,
    )
    states = [(event.state, event.detail) for event in events if isinstance(event, Status)]
    assert states == [(MODE, "interactive"), (MODE, "plan"), (SAID, "and this")]
    assert [event.text for event in events if isinstance(event, Text)] == ["Both."]


def test_no_other_file_is_read(tmp_path: Path) -> None:
    reach = CopilotConnector({"HOME": str(tmp_path), "TIELINE_HOME": str(tmp_path / "state")}).records
    states = tmp_path / ".copilot/session-state"
    states.mkdir(parents=True)
    own = states / "an-id" / "events.jsonl"
    own.parent.mkdir()
    line = {"type": "session.start", "data": {"sessionId": "an-id", "startTime": AT}}
    own.write_bytes(msgspec.json.encode(line) + b"\n")
    (tmp_path / "elsewhere").mkdir()
    (states / "linked").symlink_to(tmp_path / "elsewhere")
    records = {id: reach._record(id, {}) for id in ("an-id", "linked", "../an-id", "")}  # pyright: ignore[reportPrivateUsage]
    assert {id for id, path in records.items() if path and reach._is_record(str(path))} == {"an-id"}  # pyright: ignore[reportPrivateUsage]
    assert head_of(own)[0] == "an-id" and head_of(own)[1] > 0
    assert head_of(tmp_path / "none") == ("", 0.0)
