"""Droid's record, read: one that Droid 0.215.0 has written of a session with what a person can do in its terminal, and
what each kind of line means."""

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tieline.events import Command, Done, Edit, Error, Event, Status, Text, ToolResult, ToolUse, TurnStarted
from tieline.harnesses.droid import transcript as droid_transcript
from tieline.harnesses.droid.transcript import (
    OUTCOMES,
    TYPES,
    DroidEvents,
    DroidTranscriptFile,
    head_of,
    hook_of,
    questions_in,
)
from tieline.harnesses.terminals.transcript_file import TranscriptCursor, TranscriptLine
from tieline.sessions.attached_session import SAID, UNFINISHED

SESSION = "360fb363-e791-43ee-a50d-e28bb3652988"
SEEN = Path(__file__).with_name("droid_record.jsonl")
"""As Droid has written it, without most of what it tells its model by itself."""
AT = "2026-11-19T12:00:{:02}.000Z"
Fields = dict[str, Any]


class Record:
    """As Droid keeps one."""

    def __init__(self, root: Path) -> None:
        self.path = root / ".factory/sessions/-project" / f"{SESSION}.jsonl"
        self.path.parent.mkdir(parents=True)
        self.path.touch()
        self.count = 0

    def write(self, *lines: Fields) -> None:
        with self.path.open("ab") as file:
            for each in lines:
                self.count += 1
                when = {} if each["type"] in ("session_start", "agent_turn_outcome") else {"timestamp": self.time}
                file.write(msgspec.json.encode({**each, **when, **each}) + b"\n")

    @property
    def time(self) -> str:
        return AT.format(self.count % 60)


class Reader:
    def __init__(self, path: Path, cursor: str = "", since: float = 0.0) -> None:
        at = TranscriptCursor.parse(cursor)
        self.events = DroidEvents(SESSION, "/project", at, since=since)
        self.file = DroidTranscriptFile(path, at)
        self.cursor = cursor

    def read(self) -> list[Event]:
        events: list[Event] = []
        more = True
        while more:
            lines, more = self.file.read()
            for line in lines:
                for event, cursor in self.events.feed(line):
                    events.append(event)
                    self.cursor = cursor or self.cursor
        return events


@pytest.fixture
def record(tmp_path: Path) -> Record:
    record = Record(tmp_path)
    record.write(head())
    return record


def head(title: str = "New Session", **more: Any) -> Fields:
    return {"type": "session_start", "id": SESSION, "title": title, "cwd": "/project", **more}


def message(id: str, role: str, *content: Fields, **more: Any) -> Fields:
    return {"type": "message", "id": id, "message": {"role": role, "content": list(content), **more}}


def prompt(words: str) -> Fields:
    return message(f"prompt-{words}", "user", {"type": "text", "text": words}, interactionMode="auto")


def says(words: str, *more: Fields) -> Fields:
    return message(f"says-{words}", "assistant", {"type": "text", "text": words}, *more, modelId="m")


def calls(*ids: str, name: str = "Execute", **given: Any) -> Fields:
    parts = [{"type": "tool_use", "id": id, "name": name, "input": given or {"command": "ls"}} for id in ids]
    return message(f"calls-{'-'.join(ids)}", "assistant", *parts, modelId="m")


def returns(id: str, content: Any = "out", *, is_error: bool = False) -> Fields:
    part = {"type": "tool_result", "tool_use_id": id, "is_error": is_error, "content": content}
    return message(f"returns-{id}", "user", part)


def hook(event: str, id: str = "") -> Fields:
    return message(f"hook-{event}-{id}", "user", visibility="user_only", hookEventName=event)


def ends(prompt: str = "", reason: str = "completed", kind: str = "text") -> Fields:
    return {"type": "agent_turn_outcome", "turnId": f"prompt-{prompt}", "reason": reason, "resultKind": kind}


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_what_droid_wrote_is_read_whole(tmp_path: Path) -> None:
    events = Reader(SEEN).read()
    turns = [event.prompt for event in events if isinstance(event, TurnStarted)]
    assert turns == [
        "say hello", "run it", "write it", "run both", "run both", "mixed", "long one", "fail now", "steer test",
        "ask me", "edit it", "delegate it", "finish todos", "plan it",
    ]  # fmt: skip
    ended = [(event.status, event.text) for event in events if isinstance(event, Done)]
    assert ended == [
        ("success", "Hello there."), ("success", "It was allowed."), ("error", ""), ("success", "It was denied."),
        ("success", "Both are done."), ("interrupted", ""), ("interrupted", ""), ("error", ""),
        ("success", "Words heard."), ("success", "Red it is."), ("success", "Done."), ("success", "Done."),
        ("success", "ok."), ("success", "The plan was done."),
    ]  # fmt: skip
    errors = [(event.code, event.message) for event in events if isinstance(event, Error)]
    assert errors[0] == ("denied", "the agent ended the turn because this was denied: Create")
    assert "400 scripted refusal" in errors[1][1]
    assert Status(SAID, "words in between") in events
    used = [event for event in events if isinstance(event, ToolUse)]
    assert [event.name for event in used] == [
        "Execute", "Create", "Execute", "Execute", "Read", "Execute", "Execute", "Execute", "AskUser", "TodoWrite",
        "Read", "Edit", "Task", "Execute", "TodoWrite", "ExitSpecMode",
    ]  # fmt: skip
    results = [(event.status, event.output) for event in events if isinstance(event, ToolResult)]
    assert [status for status, _ in results] == ["ok", "denied", *["ok"] * 4, "error", *["ok"] * 9]
    assert results[0] == ("ok", "out")
    (run, *_), edit = used, next(event for event in used if event.name == "Edit")
    assert isinstance(run.action, Command) and run.action.command.startswith("touch begun; until")
    assert isinstance(edit.action, Edit) and "-two" in edit.action.diff and "+zwei" in edit.action.diff
    assert not any("system-reminder" in repr(event) for event in events)


def test_the_record_is_read_the_same_from_any_place(tmp_path: Path) -> None:
    """Turn by turn, by readers that come one after the other."""
    path, whole = tmp_path / "record.jsonl", SEEN.read_bytes().splitlines(keepends=True)
    path.touch()
    events, cursor = list[Event](), ""
    for line in whole:
        with path.open("ab") as file:
            file.write(line)
        if b'"agent_turn_outcome"' in line:
            reader = Reader(path, cursor)
            events += reader.read()
            cursor = reader.cursor
    assert events == Reader(SEEN).read()


def test_each_kind_of_line_that_was_seen_is_in_the_table() -> None:
    lines = [msgspec.json.decode(line) for line in SEEN.read_bytes().splitlines()]
    assert {line["type"] for line in lines} <= TYPES.keys()
    assert {line["reason"] for line in lines if "reason" in line} <= OUTCOMES.keys()
    hooks = {hook_of(TranscriptLine(0, line)) for line in lines}
    assert {"Notification", "PostToolUse", "SessionStart"} <= hooks


@pytest.mark.parametrize(("reason", "outcome"), [*OUTCOMES.items(), ("of_tomorrow", "error")])
def test_how_a_turn_ended(record: Record, reason: str, outcome: str) -> None:
    record.write(prompt("go"), says("Half."), ends("go", reason))
    events = Reader(record.path).read()
    assert isinstance(done := events[-1], Done)
    assert done.status == outcome and done.text == ("Half." if outcome == "success" else "")
    if outcome == "error":
        assert events[-2] == Error(f"the turn ended: {reason}") and done.error == f"the turn ended: {reason}"


def test_what_was_said_in_a_turn_ends_no_other_one(record: Record) -> None:
    record.write(
        prompt("go"), says("I do."), prompt("and this"), says("Both."), ends("go"), ends("and this", kind="null")
    )
    record.write(prompt("next"), says("Next."))
    reader = Reader(record.path)
    events = reader.read()
    assert kinds(events) == [
        "TurnStarted",
        "Init",
        "Text",
        "Status",
        "Init",
        "Text",
        "Done",
        "TurnStarted",
        "Init",
        "Text",
    ]
    assert reader.events.turn is not None and reader.events.turn.prompt == "next"


def test_a_task_that_is_over_begins_a_turn_that_nobody_asked_for(record: Record) -> None:
    completion = message("task-completion:1", "user", {"type": "text", "text": "It is over."}, visibility="llm_only")
    record.write(prompt("go"), says("Begun."), ends("go"), completion, says("It is over."), ends("task"))
    read = Reader(record.path).read()
    assert [event.prompt for event in read if isinstance(event, TurnStarted)] == ["go", ""]
    assert [event.text for event in read if isinstance(event, Done)] == ["Begun.", "It is over."]


@pytest.mark.parametrize("content", ["Tool execution cancelled by user", "Tool execution cancelled: not now"])
def test_a_denial_that_ends_the_turn_is_no_success(record: Record, content: str) -> None:
    record.write(prompt("go"), calls("a"), returns("a", content, is_error=True), ends("go"))
    events = Reader(record.path).read()
    assert events[-3:-1] == [
        ToolResult("a", "denied", content),
        Error("the agent ended the turn because this was denied: Execute", "denied"),
    ]
    assert isinstance(done := events[-1], Done) and done.status == "error"


def test_a_call_that_was_cut_off_was_not_denied(record: Record) -> None:
    record.write(prompt("go"), calls("a"), returns("a", "Error: Tool execution cancelled by user", is_error=True))
    record.write(ends("go", "cancelled"))
    events = Reader(record.path).read()
    assert isinstance(result := events[-2], ToolResult) and result.status == "error"
    assert isinstance(done := events[-1], Done) and done.status == "interrupted"


def test_a_terminal_that_died_in_a_turn_and_was_resumed(record: Record) -> None:
    record.write(prompt("go"), calls("a"), hook("SessionStart"), prompt("again"), says("Here."), ends("again"))
    events = Reader(record.path).read()
    assert ToolResult("a", "error", UNFINISHED) in events
    assert [event.status for event in events if isinstance(event, Done)] == ["interrupted", "success"]
    assert [event.prompt for event in events if isinstance(event, TurnStarted)] == ["go", "again"]


def test_a_compaction_is_told(record: Record) -> None:
    record.write({"type": "compaction_state", "id": "c", "summaryText": "s"}, prompt("go"), says("Yes."))
    record.write({"type": "compaction_state", "id": "d", "summaryText": "s"}, ends("go"))
    events = Reader(record.path).read()
    assert kinds(events) == ["TurnStarted", "Status", "Init", "Text", "Status", "Done"]
    assert [event.state for event in events if isinstance(event, Status)] == ["compacted"] * 2


def test_turns_of_before_are_left_out(record: Record) -> None:
    record.write(prompt("before"), says("Before."), ends("before"))
    since = datetime.fromisoformat(record.time).timestamp()
    record.count += 1
    record.write(prompt("after"), says("After."), ends("after"))
    events = Reader(record.path, since=since + 0.5).read()
    assert [event.prompt for event in events if isinstance(event, TurnStarted)] == ["after"]
    assert [event.text for event in events if isinstance(event, Text)] == ["After."]


def test_a_title_that_changes_tells_nothing_twice(record: Record) -> None:
    """Then the file is written anew: for a moment it is empty, or lacks lines."""
    record.write(prompt("one"), says("One."), ends("one"))
    reader = Reader(record.path)
    assert len(reader.read()) == 4
    whole = record.path.read_bytes()
    longer = whole.replace(b"New Session", b"A much longer title than before")
    for part in (b"", longer.splitlines(keepends=True)[0], longer[: len(longer) // 2]):
        record.path.write_bytes(part)
        with pytest.raises(OSError, match="written anew"):
            reader.read()
    record.path.write_bytes(longer)
    assert reader.read() == []
    record.write(prompt("two"), says("Two."), ends("two"))
    assert [event.text for event in reader.read() if isinstance(event, Text)] == ["Two."]


def test_lines_that_were_taken_out_are_not_waited_for(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(droid_transcript, "REWRITE_LOOKS", 2)
    record.write(prompt("one"), says("One."), ends("one"))
    reader = Reader(record.path)
    reader.read()
    record.path.write_bytes(msgspec.json.encode(head()) + b"\n")
    for _ in range(2):
        with pytest.raises(OSError, match="written anew"):
            reader.read()
    assert reader.read() == []
    record.write(prompt("two"), says("Two."), ends("two"))
    assert [event.text for event in reader.read() if isinstance(event, Text)] == ["Two."]


def test_what_is_no_line_of_it_is_left_out(record: Record) -> None:
    record.path.write_bytes(record.path.read_bytes() + b'{"type":\nnull\n[]\n"text"\n' + b"[" * 100_000 + b"\n")
    odd: list[Fields] = [
        {"type": "message", "id": "x"},
        {"type": "message", "id": "y", "message": None},
        {"type": "message", "id": "z", "message": {"role": "user", "content": "words"}},
        {"type": "of_tomorrow", "id": "t"},
    ]
    record.write(*odd, prompt("go"), says("Yes."), ends("go"))
    assert kinds(Reader(record.path).read()) == ["TurnStarted", "Init", "Text", "Done"]


def test_the_head_says_whose_it_is_and_when_it_began(tmp_path: Path, record: Record) -> None:
    assert head_of(record.path) == ("", 0.0), "nothing has a time yet"
    record.write(prompt("go"))
    owner, began = head_of(record.path)
    assert owner == SESSION and began > 0
    record.path.write_bytes(b"")
    assert head_of(record.path) == ("", 0.0)
    record.write(head(callingSessionId="its-caller"), prompt("go"))
    assert head_of(record.path)[0] == "its-caller", "a subagent's is nobody's terminal"
    record.path.unlink()
    os.mkfifo(record.path)
    assert head_of(record.path) == ("", 0.0), "it is not waited for"


def test_a_questionnaire_is_questions() -> None:
    first, second = questions_in(
        "1. [question] Which features? (multi)\n[topic] Features\n[option] Auth\n[option] Login Page\n\n"
        "2. [question] Which library?\n[topic] Library\n[option] ABC\n"
    )
    assert (first.text, first.header, first.many) == ("Which features?", "Features", True)
    assert [choice.label for choice in first.choices] == ["Auth", "Login Page"]
    assert (second.text, second.many, len(second.choices)) == ("Which library?", False, 1)
    assert questions_in("of another form") == ()
