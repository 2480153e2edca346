"""The record of a Gemini CLI session: every shape of a line, what is told twice, and where a reader goes on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tieline.events import Command, Diff, Done, Edit, Error, Event, Other, Text, ToolResult, ToolUse, TurnStarted
from tieline.harnesses.gemini.transcript import GeminiEvents, GeminiTranscriptFile, head_of
from tieline.harnesses.terminals.transcript_file import TranscriptCursor

HEAD = {"sessionId": "s-1", "projectHash": "p", "startTime": "2026-11-18T00:00:00.000Z", "kind": "main"}
TOKENS = {"input": 10, "output": 5, "cached": 4, "thoughts": 2, "tool": 0, "total": 17}
CONTEXT = {"text": "<session_context>\nThis is the Gemini CLI.\n</session_context>"}
HOOK = {"text": "<hook_context>You are anna in the Tieline mesh.</hook_context>"}


def at(second: float) -> str:
    return f"2026-11-18T00:01:{second:06.3f}Z"


def user(id: str, *parts: Any, second: float = 1, **more: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": at(second), "type": "user", "content": list(parts), **more}


def answer(id: str, text: str, **more: Any) -> dict[str, Any]:
    message: dict[str, Any] = {
        "id": id,
        "timestamp": at(2),
        "type": "gemini",
        "content": text,
        "thoughts": [],
        "tokens": TOKENS,
    }
    return {**message, "model": "gemini-2.5-flash", **more}


def call(number: int, status: str, response: Any, name: str = "run_shell_command", **more: Any) -> dict[str, Any]:
    args = more.pop("args", {"command": f"touch {number}"})
    result = [{"functionResponse": {"id": f"c-{number}", "name": name, "response": response}}]
    return {"id": f"{name}__{number}", "name": name, "args": args, "status": status, "result": result, **more}


def notice(kind: str, text: str, id: str = "n-1") -> dict[str, Any]:
    return {"id": id, "timestamp": at(3), "type": kind, "content": text}


BEGUN = [user("u-1", {"text": "do it"}, HOOK, displayContent=[{"text": "do it"}])]
EDITED = {"fileDiff": "…", "filePath": "/w/a.txt", "originalContent": "old\n", "newContent": "new\n"}
ANSWERED = user("u-2", {"functionResponse": {"id": "c-1", "name": "run_shell_command", "response": {"output": "x"}}})

DENIED = "[Operation Cancelled] Reason: User denied execution."
STOPPED = "[Operation Cancelled] Reason: User cancelled."
MARKED = "<untrusted_context>\nOutput: 1\n</untrusted_context>"
DO_IT = "turn_started do it"


def called(status: str, response: Any) -> list[Any]:
    return [*BEGUN, answer("m-1", "", toolCalls=[call(1, status, response)])]


SHAPES: dict[str, tuple[Sequence[Any], list[str]]] = {
    "the head": ([HEAD], []),
    "metadata that changed": ([{"$set": {"lastUpdated": at(1)}}], []),
    "a history that was set": ([{"$set": {"messages": [user("x", CONTEXT)], "lastUpdated": at(1)}}], []),
    "messages that were taken back": ([*BEGUN, {"$rewindTo": "u-1"}], [DO_IT]),
    "context of a hook alone": ([user("u-0", HOOK)], []),
    "a prompt": (BEGUN, [DO_IT]),
    "a prompt as a text": ([{**user("u"), "content": "plain"}], ["turn_started plain"]),
    "a prompt with files": (
        [user("u", {"text": "read @a"}, {"text": "--- Content ---"}, displayContent=[{"text": "read @a"}])],
        ["turn_started read @a"],
    ),
    "a turn that goes on by a hook": (
        [*BEGUN, notice("warning", "Agent execution blocked: [MESSAGE] hi"), user("u-2", {"text": "[MESSAGE] hi"})],
        [DO_IT, "done success", "turn_started [MESSAGE] hi"],
    ),
    "an answer": ([*BEGUN, answer("m-1", "Yes.")], [DO_IT, "init", "text Yes."]),
    "an answer that is written again": (
        [*BEGUN, answer("m-1", "Yes.", tokens=None), answer("m-1", "Yes.")],
        [DO_IT, "init", "text Yes.", "init"],
    ),
    "an answer in parts": ([*BEGUN, answer("m-1", "", content=[{"text": "Yes."}])], [DO_IT, "init", "text Yes."]),
    "a thought": (
        [*BEGUN, answer("m-1", "", thoughts=[{"subject": "Why", "description": "Because."}])],
        [DO_IT, "init", "thinking **Why**\nBecause."],
    ),
    "a call that succeeded": (
        [*called("success", {"output": MARKED}), ANSWERED],
        [DO_IT, "init", "tool_use touch 1", "tool_result ok Output: 1"],
    ),
    "a command that failed": (
        called("success", {"output": "Output: (empty)\nExit Code: 1"}),
        [DO_IT, "init", "tool_use touch 1", "tool_result error Output: (empty)\nExit Code: 1"],
    ),
    "a call that failed": (
        called("error", {"error": "no such tool"}),
        [DO_IT, "init", "tool_use touch 1", "tool_result error no such tool"],
    ),
    "a call that was denied": (
        called("cancelled", {"error": DENIED}),
        [DO_IT, "init", "tool_use touch 1", f"tool_result denied {DENIED}"],
    ),
    "a call that was broken off": (
        called("cancelled", {"error": STOPPED}),
        [DO_IT, "init", "tool_use touch 1", f"tool_result error {STOPPED}"],
    ),
    "a call that runs": (
        called("executing", {}),
        [DO_IT, "init"],
    ),
    "words beside a result": (
        [*BEGUN, user("u-2", {"functionResponse": {"id": "c-1"}}, {"text": "and be quick"})],
        [DO_IT, "status said and be quick"],
    ),
    "an interruption": ([*BEGUN, notice("info", "Request cancelled.")], [DO_IT, "done interrupted"]),
    "an error": (
        [*BEGUN, notice("error", "[API Error: bad things]")],
        [DO_IT, "error [API Error: bad things]", "done error"],
    ),
    "a notice": ([*BEGUN, notice("info", "Compressed.")], [DO_IT, "status info Compressed."]),
    "an empty notice": ([*BEGUN, notice("info", "")], [DO_IT]),
    "a notice between turns": ([notice("info", "Hello.")], []),
    "an error between turns": ([notice("error", "Hello.")], []),
    "an answer without a prompt": ([answer("m-1", "Yes.")], ["turn_started ", "init", "text Yes."]),
    "more of a message whose turn is over": (
        [*BEGUN, notice("info", "Request cancelled."), *called("success", {"output": "x"})[1:]],
        [DO_IT, "done interrupted"],
    ),
    "another kind": ([*BEGUN, {"id": "o-1", "type": "hologram", "content": "?"}], [DO_IT, "other hologram"]),
    "no kind": ([*BEGUN, {"anything": 1}], [DO_IT, "other None"]),
    "no JSON": ([b"{broken", b"[]", b'"text"', b""], []),
    "fields of another type": (
        [*BEGUN, answer("m-1", "", content=7, thoughts="none", toolCalls={"a": 1}, tokens="many")],
        [DO_IT, "init"],
    ),
    "calls of another type": (
        [*BEGUN, answer("m-1", "", toolCalls=[7, {"id": 3, "status": "success", "args": [], "result": "text"}])],
        [DO_IT, "init", "tool_use ", "tool_result ok "],
    ),
}  # fmt: skip


def shown(event: Event) -> str:
    match event:
        case TurnStarted(prompt=prompt):
            return f"turn_started {prompt}"
        case ToolUse(action=Command(command=command)):
            return f"tool_use {command}"
        case ToolResult(status=status, output=output):
            return f"tool_result {status} {output}"
        case Done(status=status):
            return f"done {status}"
        case Error(message=message):
            return f"error {message}"
        case Other(raw=raw):
            return f"other {raw.get('type')}"
        case _:
            texts = (getattr(event, name, "") for name in ("state", "text", "detail"))
            return " ".join([event.type, *filter(None, texts)]) if event.type != "tool_use" else "tool_use "


def written(path: Path, *records: Any) -> Path:
    lines = (record if isinstance(record, bytes) else msgspec.json.encode(record) for record in records)
    with path.open("ab") as file:
        file.write(b"".join(line + b"\n" for line in lines))
    return path


def read(source: Path | GeminiTranscriptFile, events: GeminiEvents, cursor: str = "") -> list[tuple[Event, str]]:
    new = GeminiTranscriptFile(source, TranscriptCursor.parse(cursor)) if isinstance(source, Path) else source
    lines, more = new.read()
    assert not more
    return [each for line in lines for each in events.feed(line)]


def reader(cursor: str = "", since: float = 0.0) -> GeminiEvents:
    return GeminiEvents("s-1", "/w", TranscriptCursor.parse(cursor), since=since)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_a_line(shape: str, tmp_path: Path) -> None:
    records, expected = SHAPES[shape]
    events = [shown(event) for event, _ in read(written(tmp_path / "s.jsonl", *records), reader())]
    assert events == expected


def test_a_history_that_is_written_again_is_not_told_again(tmp_path: Path) -> None:
    again: list[dict[str, Any]] = [
        user("x-1", CONTEXT, {"text": "do it"}),
        {
            "id": "x-2",
            "timestamp": at(4),
            "type": "gemini",
            "content": [{"text": "Yes."}],
            "thoughts": [],
            "tokens": None,
        },
        user("x-3", {"text": "and that"}),
        {"$set": {"messages": [], "lastUpdated": at(4)}},
    ]
    path = written(tmp_path / "s.jsonl", *BEGUN, answer("m-1", "Yes."), notice("info", "Request cancelled."), *again)
    written(path, user("u-3", {"text": "next"}, second=5))
    events = [shown(event) for event, _ in read(path, reader())]
    assert events == ["turn_started do it", "init", "text Yes.", "done interrupted", "turn_started next"]


def test_from_every_cursor_on_all_the_rest_is_told_and_nothing_twice(tmp_path: Path) -> None:
    path = written(tmp_path / "s.jsonl", HEAD)
    for number in range(3):
        written(
            path,
            user(f"u-{number}", {"text": f"prompt {number}"}),
            answer(f"m-{number}", "Yes.", toolCalls=[call(1, "success", {"output": "x"})]),
            notice("error", f"problem {number}", f"e-{number}"),
        )
    events = read(path, reader())
    cursors = [(index, cursor) for index, (_, cursor) in enumerate(events) if cursor]
    assert len(cursors) == 6
    for index, cursor in cursors:
        rest = [shown(event) for event, _ in read(path, reader(cursor), cursor)]
        expected = [shown(event) for event, _ in events[index + 1 :]]
        if isinstance(events[index][0], Error):  # its turn is told from the beginning, but for this one
            turn = max(n for n, (event, _) in enumerate(events[:index]) if isinstance(event, TurnStarted))
            expected = [shown(event) for event, _ in events[turn:index]] + expected
        assert rest == expected


def test_a_call_that_a_hook_announced_is_told_once_also_by_another_reader(tmp_path: Path) -> None:
    path = written(tmp_path / "s.jsonl", *BEGUN, answer("m-1", "I will."))
    first, file = reader(), GeminiTranscriptFile(path, TranscriptCursor())
    read(file, first)
    announced = [event for _ in range(2) for event, _ in first.announce("run_shell_command", {"command": "touch 1"})]
    assert [type(event) for event in announced] == [ToolUse, ToolUse]
    assert not first.may_be_over
    same = {"command": "touch 1"}
    calls = [call(number, "success", {"output": "x"}, args=same) for number in (1, 2)]
    written(path, answer("m-1", "I will.", toolCalls=calls))
    results = [event.id for event, _ in read(file, first) if isinstance(event, ToolResult)]
    assert results == [event.id for event in announced if isinstance(event, ToolUse)]
    assert len(set(results)) == 2
    again = [event for event, _ in read(path, reader())]
    assert [event.id for event in again if isinstance(event, ToolUse)] == results
    assert [event.id for event in again if isinstance(event, ToolResult)] == results
    assert first.announce("run_shell_command", same)  # a third one


AFTER_AN_ANSWER: dict[str, tuple[Sequence[Any], bool]] = {
    "nothing": ([], True),
    "a notice of something else": ([notice("info", "MCP issues detected. Run /mcp list for status.")], True),
    "a warning": ([notice("warning", "Slow.")], True),
    "an empty notice": ([notice("info", "")], True),
    "the same message with its tokens": ([answer("m-1", "Yes.")], True),
    "a hook that lets it go on": ([notice("warning", "Agent execution blocked: mail")], False),
    "a call": ([answer("m-1", "Yes.", toolCalls=[call(1, "success", {"output": "x"})])], False),
    "another prompt": ([user("u-3", {"text": "next"}, second=5)], False),
}


@pytest.mark.parametrize("name", AFTER_AN_ANSWER)
def test_a_turn_may_be_over_when_only_notices_follow_its_answer(name: str, tmp_path: Path) -> None:
    after, over = AFTER_AN_ANSWER[name]
    events = reader()
    read(written(tmp_path / "s.jsonl", *BEGUN, answer("m-1", "Yes."), *after), events)
    assert events.may_be_over is over


def test_a_hook_that_comes_after_the_record_announces_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "s.jsonl", *BEGUN, answer("m-1", "", toolCalls=[call(1, "success", {"output": "x"})]))
    events = reader()
    read(path, events)
    assert events.announce("run_shell_command", {"command": "touch 1"}) == []
    assert events.open_calls == {}


def test_an_edit_shows_what_it_changed_and_tokens_are_summed(tmp_path: Path) -> None:
    edit = call(1, "success", {"output": "done"}, "write_file", args={"file_path": "a.txt"}, resultDisplay=EDITED)
    path = written(
        tmp_path / "s.jsonl", *BEGUN, answer("m-1", "", toolCalls=[edit]), answer("m-1", "", toolCalls=[edit])
    )
    written(path, answer("m-2", "Yes."))
    events = reader()
    made = [event for event, _ in read(path, events)]
    (diff,) = [event for event in made if isinstance(event, Diff)]
    assert "-old\n+new\n" in diff.diff and diff.paths == ("/w/a.txt".removeprefix("/w/"),)
    (use,) = [event for event in made if isinstance(event, ToolUse)]
    assert isinstance(use.action, Edit) and use.name == "write_file"
    (done,) = [event for event, _ in events.end_turn() if isinstance(event, Done)]
    assert done.tokens is not None
    tokens = done.tokens
    assert (tokens.input, tokens.output, tokens.cache_read, tokens.reasoning) == (12, 10, 8, 4)
    assert (done.text, done.usage, done.turns) == ("Yes.", "complete", 2)


def test_turns_of_a_time_that_may_not_be_read_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "s.jsonl", *BEGUN, answer("m-1", "Private."), user("u-2", {"text": "public"}, second=30))
    written(path, {**answer("m-2", "Yes."), "timestamp": at(31)})
    since = 1_763_424_070.0 + 365 * 86400  # between them
    events = [event for event, _ in read(path, reader(since=since))]
    assert [event.prompt for event in events if isinstance(event, TurnStarted)] == ["public"]
    assert [event.text for event in events if isinstance(event, Text)] == ["Yes."]


def test_the_head_tells_whose_record_it_is_and_since_when(tmp_path: Path) -> None:
    assert head_of(written(tmp_path / "s.jsonl", HEAD)) == ("s-1", 1_763_424_000.0 + 365 * 86400)
    assert head_of(written(tmp_path / "t.jsonl", b"{broken")) == ("", 0.0)
    assert head_of(tmp_path / "none.jsonl") == ("", 0.0)
