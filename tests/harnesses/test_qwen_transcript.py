"""The record of a Qwen Code session: every kind of line, what is told again, and where a reader goes on."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harnesses.desk import BINARIES

from tieline.events import Done, Edit, Error, Event, Init, Mcp, Status, Text, Thinking, ToolResult, ToolUse, TurnStarted
from tieline.harnesses.qwen.transcript import SUBTYPES, TYPES, QwenEvents, QwenTranscriptFile
from tieline.harnesses.terminals.transcript_file import TranscriptCursor, TranscriptLine, began_at

Record = dict[str, Any]
USED = {
    "promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "totalTokenCount": 15,
    "cachedContentTokenCount": 4,
}  # fmt: skip
EDITED = {"fileDiff": "…", "filePath": "/w/a.txt", "originalContent": "old\n", "newContent": "new\n"}
PEER = (
    '<cross_session_message from="/tmp/x.sock" name="Tieline">\nlook at &lt;b>\n</cross_session_message>\n\nThis came …'
)


def record(type: str, subtype: str = "", *, id: str = "", second: float = 1, **more: Any) -> Record:
    entry = {"uuid": id or f"{type}-{subtype}", "timestamp": f"2026-11-18T00:01:{second:06.3f}Z", "type": type, **more}
    return {**entry, "subtype": subtype} if subtype else entry


def parts(*each: Any) -> Record:
    return {"parts": list(each)}


def user(text: str, subtype: str = "", *, id: str = "u-1", second: float = 1, shown: str = "") -> Record:
    entry = record("user", subtype, id=id, second=second, message=parts({"text": text}))
    return {**entry, "systemPayload": {"displayText": shown}} if shown else entry


def telemetry(name: str, **more: Any) -> Record:
    return record("system", "ui_telemetry", systemPayload={"uiEvent": {"event.name": f"qwen-code.{name}", **more}})


def model(*each: Any, id: str = "a-1", whole: bool = True) -> list[Record]:
    answer = record("assistant", id=id, message=parts(*each), model="qwen3")
    return [telemetry("api_response"), {**answer, "usageMetadata": USED}] if whole else [answer]


def say(text: str, id: str = "a-1") -> list[Record]:
    return model({"text": text}, id=id)


def call(name: str = "run_shell_command", id: str = "c-1", **args: Any) -> list[Record]:
    return model({"functionCall": {"id": id, "name": name, "args": args or {"command": "ls"}}}, id=f"call-{id}")


def result(status: str, executed: str, *, id: str = "c-1", shown: Any = None, **response: str) -> Record:
    about = {"callId": id, "status": status, "executionStatus": executed, "resultDisplay": shown or ""}
    part = {"functionResponse": {"id": id, "response": response}}
    return record("tool_result", id=f"result-{id}", message=parts(part), toolCallResult=about)


DO_IT = user("do it")
DENIED = result("cancelled", "not_started", error="User did not allow tool call")

KINDS: dict[tuple[str, str], tuple[list[Record], list[str]]] = {
    ("user", ""): ([DO_IT], ["turn do it"]),
    ("user", "realtime_message"): ([user("spoken", "realtime_message")], ["turn spoken"]),
    ("assistant", ""): ([DO_IT, *say("Done.")], ["turn do it", "init qwen3", "text Done."]),
    ("assistant", "realtime_message"): (
        [DO_IT, record("assistant", "realtime_message", message=parts({"text": "Hm."}))],
        ["turn do it", "text Hm."],
    ),
    ("tool_result", ""): (
        [DO_IT, *call(), result("success", "success", output="a.txt")],
        ["turn do it", "init qwen3", "use run_shell_command", "result ok a.txt"],
    ),
    ("user", "notification"): ([user(PEER, "notification", shown="Message from …: look")], ["turn look at <b>"]),
    ("user", "cron"): ([user("every hour", "cron")], ["turn every hour"]),
    ("user", "goal_runtime"): ([user("go on", "goal_runtime")], ["turn go on"]),
    ("user", "mid_turn_user_message"): (
        [DO_IT, user("and that", "mid_turn_user_message", id="u-2")],
        ["turn do it", "status said: and that"],
    ),
    ("system", "chat_compression"): (
        [DO_IT, record("system", "chat_compression")],
        ["turn do it", "status compacted: "],
    ),
    ("system", "ui_telemetry"): ([DO_IT, telemetry("api_error", error_message="busy")], ["turn do it"]),
    **{
        ("system", subtype): ([DO_IT, record("system", subtype, systemPayload={"phase": "result"})], ["turn do it"])
        for subtype, means in SUBTYPES.items()
        if means == "own"
    },
    ("system", ""): ([DO_IT, record("system")], ["turn do it"]),
}
"""Each kind of line: a record with one, and what it tells."""


def known_to_qwen() -> set[str]:
    """The subtypes that Qwen Code's program names: those that it reads again, and those that its recorder writes."""
    program = BINARIES.parent / "@qwen-code" / "qwen-code" / "chunks"
    types: set[str] = set()
    for path in program.glob("chunk-*.js"):
        text = path.read_text()
        for name in ("KNOWN_RECORD", "ARTIFACT_RECORD", "MANAGED_SESSION_RECORD", "NON_CONVERSATION_RECORD"):
            if listed := re.search(rf"var {name}_SUBTYPES = .*?\[(.*?)\]\)", text, re.DOTALL):
                types |= set(re.findall(r'"(\w+)"', listed[1]))
        if (start := text.find("\nvar ChatRecordingService = class")) >= 0:
            recorder = text[start : text.find("\n};\n", start)]
            types |= set(re.findall(r'subtype: "(\w+)"', recorder))
    return types


@pytest.mark.real
def test_every_kind_of_line_that_qwen_has_is_in_the_table() -> None:
    known = known_to_qwen()
    assert "file_history_snapshot" in known and "user_text_elements" in known, "its program is not read as it is"
    assert known == SUBTYPES.keys()
    assert {subtype for _, subtype in KINDS if subtype} == known
    assert {type for type, _ in KINDS} == TYPES.keys()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: " ".join(kind).strip())
def test_each_kind_of_line(kind: tuple[str, str], tmp_path: Path) -> None:
    records, expected = KINDS[kind]
    assert [shown(event) for event in read(tmp_path, records, ended=False)] == expected


ENDS: dict[str, tuple[list[Record], list[str]]] = {
    "answered": ([DO_IT, *say("Done.")], ["done success: Done."]),
    "without an answer": ([DO_IT], ["done interrupted: "]),
    "in the middle of an answer": ([DO_IT, *model({"text": "Half"}, whole=False)], ["done interrupted: "]),
    "in a call": (
        [DO_IT, *say("I will."), *call()],
        ["result error it was not finished", "done interrupted: "],
    ),
    "after a call that was cancelled": (
        [DO_IT, *say("I will."), *call(), result("cancelled", "cancelled", error="User intentionally cancelled.")],
        ["result error User intentionally cancelled.", "done interrupted: "],
    ),
    "denied": (
        [DO_IT, *say("I will."), *call(), DENIED],
        ["result denied User did not allow tool call", "error denied", "done error: "],
    ),
    "denied, and gone on": ([DO_IT, *call(), DENIED, *say("As you like.", "a-2")], ["done success: As you like."]),
    "the model failed": (
        [DO_IT, telemetry("api_error", error_message="busy", status_code=429)],
        ["error 429", "done error: "],
    ),
    "the model failed, and was asked again": (
        [DO_IT, telemetry("api_error", error_message="busy"), *say("Done.")],
        ["done success: Done."],
    ),
    "a subagent's model failed": (
        [DO_IT, *say("Done."), telemetry("api_error", error_message="busy", subagent_id="s")],
        ["done success: Done."],
    ),
    "something was said after the answer": (
        [DO_IT, *say("Done."), user("no", "mid_turn_user_message", id="u-2")],
        ["done interrupted: "],
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_each_end_of_a_turn(end: str, tmp_path: Path) -> None:
    records, expected = ENDS[end]
    texts = [shown(event) for event in read(tmp_path, records)]
    assert texts[-len(expected) :] == expected


def test_what_a_turn_spent_and_changed(tmp_path: Path) -> None:
    events = read(
        tmp_path,
        [
            DO_IT,
            *model({"text": "Let me see.", "thought": True}, {"text": "I will."}),
            *call("edit", "c-1", file_path="/w/a.txt", old_string="old", new_string="new"),
            result("success", "success", shown=EDITED, output="edited"),
            *call("mcp__words__speak", "c-2", text="hi"),
            result("error", "error", id="c-2", error="no"),
        ],
    )
    assert [type(event).__name__ for event in events if not isinstance(event, Init)] == [
        "TurnStarted", "Thinking", "Text", "ToolUse", "ToolResult", "Diff", "ToolUse", "ToolResult", "Done",
    ]  # fmt: skip
    edit, speak = (event for event in events if isinstance(event, ToolUse))
    assert isinstance(edit.action, Edit) and edit.action.paths == ("/w/a.txt",)
    assert speak.action == Mcp("words", "speak")
    done = events[-1]
    assert isinstance(done, Done) and done.tokens is not None and done.usage == "complete"
    tokens = done.tokens
    assert (tokens.input, tokens.output, tokens.cache_read, tokens.reasoning) == (18, 15, 12, 6)


def test_a_message_that_comes_in_a_turn_begins_none(tmp_path: Path) -> None:
    events = read(tmp_path, [DO_IT, *call(), user(PEER, "notification", id="n-1")], ended=False)
    assert [shown(event) for event in events][-1] == "status said: look at <b>"


def test_the_next_prompt_ends_a_turn(tmp_path: Path) -> None:
    events = read(tmp_path, [DO_IT, *say("Done."), user("more", id="u-2")], ended=False)
    assert [shown(event) for event in events][-2:] == ["done success: Done.", "turn more"]


def test_turns_that_began_before_it_was_allowed_are_left_out(tmp_path: Path) -> None:
    records = [DO_IT, *say("Secret."), user("more", id="u-2", second=30), *say("Open.", "a-2")]
    path = written(tmp_path, records)
    events = QwenEvents("s", "/w", TranscriptCursor(), since=began_at(path) + 10)
    records[-1]["timestamp"] = records[-2]["timestamp"] = "2026-11-18T00:01:31Z"
    texts = [shown(event) for line in lines(written(tmp_path, records)) for event, _ in events.feed(line)]
    assert texts == ["turn more", "init qwen3", "text Open."]


@pytest.mark.parametrize("stopped_after", range(8))
def test_a_reader_goes_on_where_the_cursor_is(stopped_after: int, tmp_path: Path) -> None:
    """Of each event that was written, the cursor says from where the rest is told."""
    path = written(tmp_path, [DO_IT, *say("One."), user("more", id="u-2"), *call(), DENIED, user("last", id="u-3")])
    first = QwenEvents("s", "/w", TranscriptCursor())
    pairs = [pair for line in lines(path) for pair in first.feed(line)]
    kept = [cursor for _, cursor in pairs[: stopped_after + 1] if cursor]
    again = QwenEvents("s", "/w", cursor := TranscriptCursor.parse(kept[-1] if kept else ""))
    retold = [event for line in lines(path, cursor) for event, _ in again.feed(line)]
    errors = [event for event, _ in pairs[: stopped_after + 1] if isinstance(event, Error)]
    assert sum(isinstance(event, Error) for event in retold) + len(errors) == 1
    dones = [event for event, _ in pairs[: stopped_after + 1] if isinstance(event, Done)]
    assert sum(isinstance(event, Done) for event in retold) + len(dones) == 2


def shown(event: Event) -> str:
    match event:
        case TurnStarted(prompt=prompt):
            return f"turn {prompt}"
        case Init(model=model):
            return f"init {model}"
        case Text(text=text):
            return f"text {text}"
        case Thinking(text=text):
            return f"thinking {text}"
        case ToolUse(name=name):
            return f"use {name}"
        case ToolResult(status=status, output=output):
            return f"result {status} {output}"
        case Status(state=state, detail=detail):
            return f"status {state}: {detail}"
        case Error(code=code):
            return f"error {code}"
        case Done(status=status, text=text):
            return f"done {status}: {text}"
        case _:
            return event.type


def written(folder: Path, records: Sequence[Record]) -> Path:
    path = folder / "s.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in records))
    return path


def lines(path: Path, cursor: TranscriptCursor | None = None) -> list[TranscriptLine]:
    contents, more = QwenTranscriptFile(path, cursor or TranscriptCursor()).read()
    assert not more
    return contents


def read(folder: Path, records: Sequence[Record], *, ended: bool = True) -> list[Event]:
    events = QwenEvents("s", "/w", TranscriptCursor())
    turn_events = [event for line in lines(written(folder, records)) for event, _ in events.feed(line)]
    return [*turn_events, *(event for event, _ in events.end_turn())] if ended else turn_events
