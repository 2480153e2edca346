"""Kimi Code's record, read: one that Kimi 2.1.0 has written of a session with all that a person can do in its terminal
(its own lines left out but for one of each kind), and what each kind of line means."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tieline.events import (
    Command,
    Done,
    Edit,
    Error,
    Event,
    Init,
    Mcp,
    Status,
    Task,
    Thinking,
    ToolResult,
    ToolUse,
    TurnStarted,
)
from tieline.harnesses.kimi import transcript as kimi_transcript
from tieline.harnesses.kimi.connector import KimiConnector
from tieline.harnesses.kimi.transcript import LOOP, TYPES, KimiEvents, KimiTranscriptFile, head_of, input_of
from tieline.harnesses.terminals import transcript_file
from tieline.harnesses.terminals.transcript_file import TranscriptCursor
from tieline.sessions.attached_session import MODE, SAID, UNFINISHED

SESSION = "session_00000000-0000-4000-8000-000000000000"
SEEN = Path(__file__).with_name("kimi_record.jsonl")
"""As Kimi has written it."""
AT = 1_795_100_000_000
Fields = dict[str, Any]


class Record:
    """As Kimi keeps one."""

    def __init__(self, root: Path) -> None:
        self.path = root / ".kimi-code/sessions/wd_project_0/" / SESSION / "agents/main/wire.jsonl"
        self.path.parent.mkdir(parents=True)
        self.path.touch()
        self.count = 0

    def write(self, *lines: Fields) -> None:
        with self.path.open("ab") as file:
            for line in lines:
                self.count += 1
                file.write(msgspec.json.encode({**line, "time": line.get("time", AT + self.count)}) + b"\n")


class Reader:
    def __init__(self, record: Record, cursor: str = "", since: float = 0.0) -> None:
        at = TranscriptCursor.parse(cursor)
        self.events = KimiEvents(SESSION, "/project", at, since=since)
        self.file = KimiTranscriptFile(record.path, at)
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
    return Record(tmp_path)


def line(type: str, /, **more: Any) -> Fields:
    return {"type": type, "agentId": "main", **more}


def prompt(words: str, id: str = "", **origin: Any) -> Fields:
    given = [{"type": "text", "text": words}]
    return line("turn.prompt", input=given, origin={"kind": "user", **origin}, promptId=id or f"msg_{words}", turnId=1)


def loop(type: str, id: str, **more: Any) -> Fields:
    return line("context.append_loop_event", event={"type": type, "uuid": id, "turnId": "1", **more})


def says(words: str) -> Fields:
    return loop("content.part", f"part-{words}", part={"type": "text", "text": words})


def calls(id: str, name: str = "Bash", **given: Any) -> Fields:
    return loop("tool.call", f"call-{id}", toolCallId=id, name=name, args=given)


def returns(id: str, output: Any = "out", **more: Any) -> Fields:
    event = {"type": "tool.result", "parentUuid": f"call-{id}", "toolCallId": id, "result": {"output": output, **more}}
    return line("context.append_loop_event", event=event)


def asks(id: str, name: str = "Bash", **display: Any) -> Fields:
    request = {"toolCallId": id, "toolName": name, "display": display or {"kind": "command", "command": "ls"}}
    return line("interaction.request", id=f"approval-{id}", kind="approval", toolCallId=id, request=request)


def decides(id: str, **response: Any) -> Fields:
    return line("interaction.resolved", id=f"approval-{id}", response=response)


def used(input: int, output: int) -> Fields:
    spent = {"inputOther": input, "output": output, "inputCacheRead": 2, "inputCacheCreation": 1}
    return line("usage.record", model="m", usage=spent if input else dict.fromkeys(spent, 0), usageScope="turn")


def ends(reason: str = "completed", **more: Any) -> Fields:
    return line("turn.ended", turnId=1, reason=reason, **more)


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def prompts(events: list[Event]) -> list[str]:
    return [event.prompt for event in events if isinstance(event, TurnStarted)]


def done(events: list[Event]) -> list[Done]:
    return [event for event in events if isinstance(event, Done)]


# --- a whole session -----------------------------------------------------------------------------------------------


def turns_of(events: list[Event]) -> dict[str, list[Event]]:
    """By the prompt."""
    turns: dict[str, list[Event]] = {}
    for event in events:
        if isinstance(event, TurnStarted):
            turns[event.prompt] = []
        if not isinstance(event, Init | TurnStarted):
            turns[list(turns)[-1]].append(event)
    return turns


def test_a_session_as_kimi_has_written_it_down(record: Record) -> None:
    record.path.write_bytes(SEEN.read_bytes())
    events = Reader(record).read()
    turns = turns_of(events)
    assert {words: kinds(turn) for words, turn in turns.items()} == {
        "say hello": ["Status", "Thinking", "Text", "Done"],
        "run it": ["Text", "ToolUse", "ToolResult", "Text", "Done"],
        "write it": ["ToolUse", "ToolResult", "Text", "Done"],
        "edit it": ["ToolUse", "ToolResult", "Diff", "Text", "Done"],
        "ask me": ["ToolUse", "ToolResult", "Text", "Done"],
        "run long": ["ToolUse", "ToolResult", "Status", "Text", "Done"],
        "say something long": ["Text", "Done"],
        "try": ["Error", "Done"],
        "plan": ["Status", "Status", "ToolUse", "ToolResult", "Text", "Done"],
        "make it": ["ToolUse", "ToolResult", "Diff", "ToolUse", "Status", "ToolResult", "Text", "Done"],
        "delegate": ["ToolUse", "ToolResult", "Text", "Done"],
    }
    assert [(each.status, each.usage) for each in done(events)] == [
        *[("success", "complete")] * 6,
        ("interrupted", "unknown"),
        ("error", "unknown"),
        *[("success", "complete")] * 2,
        ("success", "partial"),  # a subagent's tokens are in its own record
    ]
    assert all(event.id.startswith("msg_") for event in events if isinstance(event, TurnStarted))
    assert {event.model for event in events if isinstance(event, Init)} == {"scripted"}
    first = done(events)[0]
    assert first.text == "Hello." and first.tokens is not None
    assert (first.tokens.input, first.tokens.output, first.turns) == (21863, 6, 1)
    assert isinstance(thought := turns["say hello"][1], Thinking) and thought.text == "A greeting."
    results = [(event.id, event.status) for event in events if isinstance(event, ToolResult)]
    assert results == [
        ("call_1", "error"), ("call_2", "denied"), ("call_3", "ok"), ("call_4", "ok"), ("call_5", "ok"),
        ("call_6", "error"), ("call_7", "ok"), ("call_8", "ok"), ("call_9", "ok"),
    ]  # fmt: skip
    uses = {event.id: event.action for event in events if isinstance(event, ToolUse)}
    assert uses["call_1"] == Command("echo out; exit 3")
    assert isinstance(written := uses["call_2"], Edit) and "+hello" in written.diff
    assert isinstance(edited := uses["call_3"], Edit) and "-x" in edited.diff and "+y" in edited.diff
    assert uses["call_9"] == Task("look")
    states = [(event.state, event.detail) for event in events if isinstance(event, Status)]
    assert states == [
        (MODE, "manual"), (SAID, "words steered"), ("compacted", ""), (MODE, "plan"), (MODE, "manual"),
    ]  # fmt: skip
    assert isinstance(error := turns["try"][0], Error) and error.message == "400 scripted refusal"


def test_it_is_told_once_wherever_a_reader_left_off(record: Record) -> None:
    whole = SEEN.read_bytes()
    reader = Reader(record)
    events: list[Event] = []
    for size in range(0, len(whole) + 997, 997):  # cut off in the midst of lines
        record.path.write_bytes(whole[:size])
        events += reader.read()
    assert len(prompts(events)) == len(set(prompts(events))) == len(done(events)) == 11
    record.path.write_bytes(whole)
    ended = Reader(record)
    cursors: list[str] = []
    for each in ended.file.read()[0]:
        cursors += [cursor for event, cursor in ended.events.feed(each) if isinstance(event, Done)]
    assert [len(prompts(Reader(record, cursor).read())) for cursor in cursors] == list(range(10, -1, -1))


# --- kinds of lines ------------------------------------------------------------------------------------------------


def test_what_each_kind_of_line_means_is_in_the_table(record: Record) -> None:
    lines = [msgspec.json.decode(each, type=Fields) for each in SEEN.read_bytes().splitlines()]
    assert {each["type"] for each in lines} <= TYPES.keys()
    assert {each["event"]["type"] for each in lines if "event" in each} == LOOP.keys()


@pytest.mark.parametrize("type", sorted(type for type, means in TYPES.items() if means == "own"))
def test_what_is_kimis_own_is_not_told(type: str, record: Record) -> None:
    given = {"input": [{"type": "text", "text": "no"}], "kind": "loop", "reason": "failed", "mode": "auto"}
    record.write(prompt("go"), line(type, **given), says("Done."), ends())
    assert kinds(Reader(record).read()) == ["TurnStarted", "Text", "Done"]


def test_what_is_not_known_is_left_out(record: Record) -> None:
    record.write(prompt("go"), line("hologram"), loop("hologram", "h"), {"type": 7}, says("Done."), ends())
    with record.path.open("ab") as file:
        file.write(b'not json\n[1]\n\xff\n{"type":"turn.prompt","input":' + b"[" * 100_000 + b"\n")
    record.write(prompt("again"), line("turn.ended", reason="new"))
    events = Reader(record).read()
    assert kinds(events) == ["TurnStarted", "Text", "Done", "TurnStarted", "Error", "Done"]


@pytest.mark.parametrize(
    ("end", "status", "error"),
    [
        (ends(), "success", ""),
        (ends("cancelled"), "interrupted", ""),
        (ends("failed", error={"code": "c", "message": "400 refused"}), "error", "400 refused"),
        (ends("blocked"), "error", "the turn ended: blocked"),
    ],
)
def test_how_a_turn_ends(end: Fields, status: str, error: str, record: Record) -> None:
    record.write(prompt("go"), calls("a", command="ls"), end)
    events = Reader(record).read()
    (unfinished,) = [event for event in events if isinstance(event, ToolResult)]
    assert unfinished.output == UNFINISHED
    (ended,) = done(events)
    assert (ended.status, ended.error) == (status, error)


def test_a_turn_whose_end_was_not_written_down_was_interrupted(record: Record) -> None:
    record.write(prompt("one"), says("Half."), prompt("two"), says("Whole."), ends())
    assert [(each.status, each.text) for each in done(Reader(record).read())] == [
        ("interrupted", ""),
        ("success", "Whole."),
    ]


@pytest.mark.parametrize(
    ("response", "status"),
    [
        ({"decision": "approved"}, "ok"),
        ({"decision": "approved", "scope": "session"}, "ok"),
        ({"decision": "rejected"}, "denied"),
        ({"decision": "rejected", "feedback": "no"}, "denied"),
        ({"decision": "cancelled"}, "denied"),
        ({"cancelled": True, "reason": "turn_ended"}, "denied"),
    ],
)
def test_what_was_asked_and_not_allowed_was_denied(response: Fields, status: str, record: Record) -> None:
    result = returns("a") if status == "ok" else returns("a", isError=True)
    record.write(prompt("go"), asks("a"), decides("a", **response), calls("a", command="ls"), result, ends())
    events = Reader(record).read()
    assert kinds(events) == ["TurnStarted", "ToolUse", "ToolResult", "Done"]
    assert isinstance(use := events[1], ToolUse) and use.action == Command("ls")
    assert isinstance(ended := events[2], ToolResult) and ended.status == status


@pytest.mark.parametrize(
    ("display", "given"),
    [
        ({"kind": "command", "command": "ls", "cwd": "/", "language": "bash"}, {"command": "ls"}),
        ({"kind": "file_io", "operation": "write", "path": "p", "content": ""}, {"path": "p", "content": ""}),
        ({"kind": "file_io", "operation": "read", "path": "p"}, {"path": "p"}),
        (
            {"kind": "file_io", "operation": "edit", "path": "p", "before": "a", "after": "b"},
            {"path": "p", "old_string": "a", "new_string": "b"},
        ),
        (
            {"kind": "diff", "path": "p", "before": "a", "after": "b"},
            {"path": "p", "old_string": "a", "new_string": "b"},
        ),
        ({"kind": "generic", "summary": "s", "detail": {"x": 1}}, {"x": 1}),
        ({"kind": "generic", "summary": "s"}, {"summary": "s"}),
        ({"kind": "url_fetch", "url": "u"}, {"url": "u"}),
        ({"kind": "hologram", "what": "all of it"}, {"what": "all of it"}),
    ],
)
def test_what_is_shown_of_a_call_that_has_not_begun(display: Fields, given: Fields) -> None:
    assert input_of(display) == given


def test_tools_of_servers_and_results_of_several_parts(record: Record) -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "image_url"}, {"type": "text", "text": "two"}]
    record.write(prompt("go"), calls("a", "mcp__files__list", path="/"), returns("a", parts), ends())
    events = Reader(record).read()
    assert isinstance(use := events[1], ToolUse) and isinstance(use.action, Mcp)
    assert isinstance(ended := events[2], ToolResult) and ended.output.split() == ["one", "two"]


def test_tokens_add_up_and_an_answer_that_was_cut_off_makes_them_a_part(record: Record) -> None:
    record.write(prompt("one"), used(10, 3), used(20, 4), ends(), prompt("two"), used(10, 3), used(0, 0), ends())
    first, second = done(Reader(record).read())
    assert first.tokens is not None and first.usage == "complete" and first.turns == 2
    assert (first.tokens.input, first.tokens.output, first.tokens.cache_read) == (32, 7, 4)
    assert second.tokens is not None and second.usage == "partial"


def test_whose_words_a_prompt_has(record: Record) -> None:
    skill = {"kind": "user", "skillActivations": [{"name": "s"}]}
    given = [{"type": "text", "text": "the skill"}, {"type": "text", "text": "mine"}, {"type": "image_url"}]
    record.write(
        line("turn.prompt", input=given, origin=skill, promptId="a"),
        ends(),
        prompt("/own", kind="skill_activation", trigger="user-slash"),
        ends(),
        prompt("a task is over", kind="task"),
        line("turn.steer", input=[{"type": "text", "text": "and another"}], origin={"kind": "task"}),
        ends(),
    )
    events = Reader(record).read()
    assert prompts(events) == ["mine", "/own", ""]
    assert not [event for event in events if isinstance(event, Status)]


def test_other_agents_lines_and_requests_for_other_ends_are_left_out(record: Record) -> None:
    record.write(
        prompt("go"),
        {**says("of a subagent"), "agentId": "agent-0"},
        {**ends("failed"), "agentId": "agent-0"},
        line("llm.request", kind="title", modelAlias="small"),
        line("llm.request", kind="loop", modelAlias="large"),
        says("Done."),
        ends(),
    )
    events = Reader(record).read()
    assert kinds(events) == ["TurnStarted", "Init", "Text", "Done"]
    assert isinstance(init := events[1], Init) and init.model == "large"


# --- modes ---------------------------------------------------------------------------------------------------------


def mode(name: str) -> Fields:
    return line("permission.set_mode", mode=name)


def modes(events: list[Event]) -> list[str]:
    return [event.detail for event in events if isinstance(event, Status) and event.state == MODE]


@pytest.mark.parametrize("leaves", ["plan_mode.exit", "plan_mode.cancel"])
def test_a_mode_is_told_with_the_next_prompt_and_after_a_plan_it_is_the_one_before(leaves: str, record: Record) -> None:
    reader = Reader(record)
    record.write(mode("manual"), prompt("one"), ends(), mode("auto"), mode("yolo"), line("plan_mode.enter", id="p"))
    assert modes(reader.read()) == ["manual"]
    record.write(prompt("two"), line(leaves), mode("yolo"), ends(), prompt("three"), ends())
    assert modes(reader.read()) == ["plan", "yolo"]


def test_who_comes_later_knows_the_mode_that_held(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kimi_transcript, "SEARCH_BYTES", 100)
    reader = Reader(record)
    fake = '"type":"permission.set_mode","agentId":"main","mode":"auto"'
    record.write(mode("yolo"), prompt("one"), line("plan_mode.enter", id="p"), says(fake), ends())
    assert modes(reader.read()) == ["yolo", "plan"]
    record.write(prompt("two"), line("plan_mode.exit"), ends())
    assert modes(Reader(record, reader.cursor).read()) == ["yolo"]
    record.write(mode("yolo"), prompt("three"), ends())
    assert modes(Reader(record, reader.cursor).read()) == ["yolo"]


# --- places --------------------------------------------------------------------------------------------------------


def test_an_open_turn_is_told_from_its_beginning_and_goes_on(record: Record) -> None:
    reader = Reader(record)
    record.write(prompt("one"), ends(), prompt("two"), calls("a", command="ls"))
    reader.read()
    again = Reader(record, reader.cursor)
    assert kinds(again.read()) == ["TurnStarted", "ToolUse"]
    record.write(returns("a"), ends())
    assert kinds(again.read()) == ["ToolResult", "Done"]
    # A terminal that has ended in the midst of a turn: that is told, and not again.
    record.write(prompt("three"), says("Half."))
    again.read()
    assert Reader(record, again.events.cursor).read() == []


def test_an_error_is_told_once(record: Record) -> None:
    reader = Reader(record)
    record.write(prompt("one"), ends("failed", error={"message": "400"}))
    lines, _ = reader.file.read()
    pairs = [each for line in lines for each in reader.events.feed(line)]
    (cursor,) = [cursor for event, cursor in pairs if isinstance(event, Error)]
    assert kinds(Reader(record, cursor).read()) == ["TurnStarted", "Done"]


def test_turns_that_began_before_are_left_out(record: Record) -> None:
    record.write(prompt("private"), says("Private."), mode("auto"), ends())
    since = (AT + record.count) / 1000 + 0.0005
    compacted = line("context.apply_compaction", summary="private")
    record.write({**compacted, "time": AT}, says("of it"), prompt("go"), ends())
    events = Reader(record, since=since).read()
    assert prompts(events) == ["go"] and kinds(events) == ["TurnStarted", "Status", "Done"]
    assert modes(events) == ["auto"]


def test_a_line_that_is_too_long_is_left_out(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_file, "READ_BYTES", 1024)
    monkeypatch.setattr(transcript_file, "MAX_LINE", 4096)
    record.write(prompt("go"), says("x" * 10_000), says("So."), ends())
    assert kinds(Reader(record).read()) == ["TurnStarted", "Text", "Done"]


# --- what may be read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", range(5))
def test_no_link_leads_elsewhere(depth: int, record: Record, tmp_path: Path) -> None:
    record.write(prompt("go"), ends())
    assert prompts(Reader(record).read()) == ["go"]
    named = [record.path, *record.path.parents][depth]
    named.rename(tmp_path / "elsewhere")
    named.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        Reader(record).read()
    assert head_of(record.path) == ("", 0.0)


def test_a_pipe_is_not_read(record: Record) -> None:
    record.path.unlink()
    with pytest.raises(FileNotFoundError):
        Reader(record).read()
    os.mkfifo(record.path)
    with pytest.raises(OSError):
        Reader(record).read()
    assert head_of(record.path) == ("", 0.0)


def test_a_record_is_of_the_session_of_its_folder_and_began_with_its_first_line(record: Record) -> None:
    assert head_of(record.path) == ("", 0.0)
    record.write(line("metadata", protocol_version="1.5", created_at=AT))
    assert head_of(record.path) == (SESSION, AT / 1000)


def test_no_other_file_is_one(record: Record, tmp_path: Path) -> None:
    reach = KimiConnector({"HOME": str(tmp_path), "TIELINE_HOME": str(tmp_path / "state")})
    find, is_record = reach._record, reach._is_record  # pyright: ignore[reportPrivateUsage]
    assert find(SESSION, {}) == record.path and is_record(str(record.path))
    sessions = record.path.parents[4]
    for other in ("", ".", "../x", SESSION.upper(), "session_" + "0" * 36, SESSION.replace("0", "1")):
        assert find(other, {}) is None
    linked = SESSION.replace("0", "2")
    (tmp_path / "elsewhere/agents/main").mkdir(parents=True)
    (record.path.parents[3] / linked).symlink_to(tmp_path / "elsewhere")
    assert (linked_path := find(linked, {})) is not None and not is_record(str(linked_path))
    for path in (
        record.path.with_name("other.jsonl"),
        record.path.parents[1] / "agent-0/wire.jsonl",
        sessions / "agents/main/wire.jsonl",
        tmp_path / "elsewhere/agents/main/wire.jsonl",
    ):
        assert not is_record(str(path))
