"""Mistral Vibe's record, read: what each of its records means, in the shapes in which Vibe 3.0.2 was seen to write
them, and how it goes on from one generation to the next."""

import os
from datetime import UTC, datetime
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
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    TurnStarted,
)
from tieline.harnesses.terminals import transcript_file
from tieline.harnesses.terminals.transcript_file import TranscriptCursor, TranscriptLine
from tieline.harnesses.vibe.connector import VibeConnector
from tieline.harnesses.vibe.record import VibeRecord
from tieline.harnesses.vibe.transcript import VibeEvents
from tieline.processes.process_table import ProcessInfo
from tieline.sessions.attached_session import MODE, SAID, UNFINISHED

SESSION = "ec1d28ad-da7a-08c5-897a-53d29cd1c203"
BEGAN = 1_795_085_922
Fields = dict[str, Any]
Payload = tuple[str, Fields]


def turn(id: str, status: str = "in_progress", **more: Any) -> Fields:
    return {"id": id, "inputEntryId": f"rs-{id}", "startedAt": BEGAN * 1000, "status": status, **more}


def state(latest: Fields) -> Fields:
    return {"op": "set_envelope", "state": {"latestTurn": latest, "session": {"id": SESSION}}}


def entry(id: str, turn: str | None, type: str, /, op: str = "append_entry", **more: Any) -> Fields:
    times = {"createdAt": BEGAN * 1000, "updatedAt": BEGAN * 1000}
    body = {"id": id, "turnId": turn, "type": type, "generationStatus": "completed", **times, **more}
    return {"op": op, "entry": body}


def prompt(turn: str, text: str) -> Fields:
    return entry(
        f"rs-{turn}", turn, "message", role="user", source="turn_start", content=[{"type": "text", "text": text}]
    )


def text(id: str, turn: str, words: str, **more: Any) -> Fields:
    return entry(
        f"assistant-{id}", turn, "message", role="assistant", content=[{"type": "text", "text": words}], **more
    )


def effect(id: str, turn: str, name: str, given: Any, kind: str = "tool", **state: Any) -> Fields:
    running = state.get("status") == "running"
    more = {"generationStatus": "in_progress" if running else "completed"}
    detail = {"kind": kind, "toolName": name, "input": given}
    op = "append_entry" if running else "replace_entry"
    return entry(f"effect-{id}", turn, "effect", op, detail=detail, state=state, **more)


def delta(*steps: Fields) -> Payload:
    return "projection_delta", {"delta": list(steps), "watermark": 1}


def begins(id: str, words: str = "go") -> Payload:
    return delta(prompt(id, words), state(turn(id)))


def ends(id: str, status: str = "completed", *steps: Fields, **more: Any) -> Payload:
    return delta(*steps, state(turn(id, status, completedAt=BEGAN * 1000 + 5, **more)))


def used(action: str, tokens: int) -> Payload:
    spent = {"cached_input_tokens": 2, "input_tokens": tokens, "output_tokens": 1, "total_tokens": tokens + 1}
    result = {"action_id": action, "result": {"finish_reason": "stop", "usage": spent}, "type": "completion_succeeded"}
    return "action_result", {"action_id": action, "result": result, "state": "succeeded"}


def runs(id: str, turn: str, command: str = "ls") -> Payload:
    return delta(effect(id, turn, "file_system.bash", {"command": command}, status="running", outputText=""))


def ran(id: str, turn: str, code: int = 0, command: str = "ls") -> Payload:
    given = {"command": command, "returncode": code, "stdout": "out\n", "stderr": "", "timed_out": False}
    output: Fields = {"content": [], "structured_content": given, "type": "success"}
    return delta(effect(id, turn, "file_system.bash", {"command": command}, status="completed", output=output))


class Record:
    """As Vibe keeps one."""

    def __init__(self, root: Path) -> None:
        self.path = root / "unified" / SESSION
        self.journal = self.path / "journal"
        self.sequence = 0
        self.journal.mkdir(parents=True)
        (self.path / "chunks").mkdir()
        self.meta("scripted")
        self.generation([], {})

    def meta(self, model: str, **more: Any) -> None:
        about = {
            "session_id": SESSION,
            "start_time": "2026-11-19T10:58:40.107+00:00",
            "config": {"active_model": model},
        }
        (self.path / "meta.json").write_bytes(msgspec.json.encode({**about, **more}))

    def generation(self, history: list[Fields], latest: Fields) -> None:
        """A new one, in which all is that was until now, and a new segment. Vibe keeps two of each."""
        number = f"{self.sequence or 1:016}"
        folder = self.path / "generations" / number
        folder.mkdir(parents=True)
        names: list[str] = []
        for index, step in enumerate(history):  # each in a chunk of its own
            names.append(f"{self.sequence:032x}{index:032x}")
            (self.path / "chunks" / f"{names[-1]}.json").write_bytes(msgspec.json.encode([step["entry"]]))
        manifest = {"snapshot_sequence": self.sequence, "projection_state": {"chunks": names, "path": "p"}}
        (folder / "manifest.json").write_bytes(msgspec.json.encode(manifest))
        snapshot = {"snapshot": {"latestTurn": latest}}
        (folder / "projection-state.json").write_bytes(msgspec.json.encode(snapshot))
        self.segment = self.journal / f"{self.sequence + 1:016}.jsonl"
        self.segment.touch()
        for kept in (self.path / "generations", self.journal):
            for old in sorted(kept.iterdir())[:-2]:
                if old.is_dir():
                    for file in old.iterdir():
                        file.unlink()
                    old.rmdir()
                else:
                    old.unlink()

    def write(self, *payloads: Payload) -> None:
        with self.segment.open("ab") as file:
            for kind, payload in payloads:
                self.sequence += 1
                line = {"payload": payload, "sequence": self.sequence, "type": kind, "record_sha256": "0"}
                file.write(msgspec.json.encode(line) + b"\n")


class Reader:
    def __init__(self, record: Record, cursor: str = "", since: float = 0.0) -> None:
        at = TranscriptCursor.parse(cursor)
        self.file = VibeRecord(record.path, at)
        self.events = VibeEvents(SESSION, "/project", at, since=since)
        self.cursor = cursor

    def read(self) -> list[Event]:
        return [event for line in self.lines() for event in self.feed(line)]

    def lines(self) -> list[TranscriptLine]:
        all_lines, more = list[TranscriptLine](), True
        while more:
            lines, more = self.file.read()
            all_lines += lines
        return all_lines

    def feed(self, line: TranscriptLine) -> list[Event]:
        events: list[Event] = []
        for event, cursor in self.events.feed(line):
            events.append(event)
            self.cursor = cursor or self.cursor
        return events


def read(root: Path, *payloads: Payload) -> list[Event]:
    record = Record(root)
    record.write(*payloads)
    return Reader(record).read()


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def done(events: list[Event]) -> Done:
    (ended,) = [event for event in events if isinstance(event, Done)]
    return ended


# --- what its records mean ---------------------------------------------------------------------------------------


def test_a_turn_of_several_model_calls_is_one_and_its_tokens_add_up(tmp_path: Path) -> None:
    thought = entry("reasoning-b", "t", "reasoning", text="Hm.")
    events = read(
        tmp_path,
        ("command_reserved", {"method": "turn/start"}),
        begins("t"),
        used("a", 10),
        delta(text("a", "t", "I will.")),
        runs("1", "t"),
        ran("1", "t"),
        used("b", 20),
        ends("t", "completed", thought, text("b", "t", "It is.")),
        ("receipt_succeeded", {}),
    )
    assert kinds(events) == [
        "TurnStarted", "Init", "Text", "ToolUse", "ToolResult", "Init", "Thinking", "Text", "Init", "Done",
    ]  # fmt: skip
    assert events[0] == TurnStarted("go", "t") and events[1] == Init("vibe", SESSION, "/project", "scripted")
    assert isinstance(use := events[3], ToolUse) and (use.name, use.action) == ("bash", Command("ls"))
    assert events[4] == ToolResult("effect-1", "ok", "out\n")
    assert events[6] == Thinking("Hm.", "reasoning-b-0") and events[7] == Text("It is.", "assistant-b-0")
    ended = done(events)
    assert (ended.status, ended.text, ended.usage, ended.turns) == ("success", "It is.", "complete", 2)
    assert ended.tokens is not None
    assert (ended.tokens.input, ended.tokens.cache_read, ended.tokens.output) == (26, 4, 2)


@pytest.mark.parametrize(
    ("state", "status", "output"),
    [
        ({"status": "completed", "output": {"structured_content": {"returncode": 3, "stdout": "no"}}}, "error", "no"),
        ({"status": "completed", "output": {"structured_content": {"returncode": 0, "stdout": ""}}}, "ok", ""),
        ({"status": "completed", "output": {"structured_content": {"content": "a\n"}}}, "ok", "a\n"),
        ({"status": "completed", "output": {"structured_content": {"lines": 2}}}, "ok", '{"lines":2}'),
        ({"status": "completed", "output": {"content": [{"type": "text", "text": "said"}]}}, "ok", "said"),
        ({"status": "failed", "error": {"code": "tool_denied", "message": "denied"}}, "denied", "denied"),
        ({"status": "failed", "error": {"code": "tool_failed", "message": "no file"}}, "error", "no file"),
        ({"status": "skipped", "reason": "not now"}, "denied", "not now"),
        ({"status": "cancelled", "reason": "client interrupt"}, "error", "client interrupt"),
        ({"status": "something new"}, "error", "something new"),
    ],
)
def test_how_a_call_ends(state: Fields, status: str, output: str, tmp_path: Path) -> None:
    over = delta(effect("1", "t", "file_system.bash", {"command": "ls"}, **state))
    events = read(tmp_path, begins("t"), runs("1", "t"), over, over)
    assert [event for event in events if isinstance(event, ToolResult)] == [ToolResult("effect-1", status, output)]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("file_system.write_file", {"path": "/project/a", "content": "new\n"}, "+new"),
        (
            "file_system.search_replace",
            {"file_path": "/project/a", "content": [{"old_str": "one\n", "new_str": "two\n"}]},
            "-one",
        ),
    ],
)
def test_an_edit_has_its_diff(name: str, given: Fields, expected: str, tmp_path: Path) -> None:
    events = read(tmp_path, begins("t"), delta(effect("1", "t", name, given, status="running")))
    (use,) = [event for event in events if isinstance(event, ToolUse)]
    assert isinstance(use.action, Edit) and use.action.paths == ("/project/a",) and expected in use.action.diff


def test_tools_of_servers_and_subagents(tmp_path: Path) -> None:
    spawned = {"task": "look", "agent": "generic"}
    events = read(
        tmp_path,
        begins("t"),
        delta(effect("1", "t", "mcp_tieline.send_message", {"to": "x"}, status="running")),
        delta(effect("2", "t", "agents.spawn", spawned, "subagent", status="running")),
        delta(effect("3", "t", "tool", None, status="running")),
    )
    uses = [event for event in events if isinstance(event, ToolUse)]
    assert [(use.name, use.action) for use in uses[:2]] == [
        ("mcp__tieline__send_message", Mcp("tieline", "send_message")), ("spawn", Task("look")),
    ]  # fmt: skip


def test_what_was_interrupted_and_what_failed(tmp_path: Path) -> None:
    half = text("a", "t", "Half", outcome={"type": "discarded", "cause": "interrupt"})
    events = read(
        tmp_path / "1", begins("t"), runs("1", "t"), ends("t", "interrupted", half, reason="client interrupt")
    )
    assert kinds(events) == ["TurnStarted", "ToolUse", "Text", "Init", "ToolResult", "Done"]
    assert events[4] == ToolResult("effect-1", "error", UNFINISHED) and done(events).status == "interrupted"
    failed = ends("t", "failed", error={"code": "model_stream_failed", "message": "400 refused"})
    events = read(tmp_path / "2", begins("t"), failed)
    assert [event.message for event in events if isinstance(event, Error)] == ["400 refused"]
    assert (done(events).status, done(events).error, done(events).usage) == ("error", "400 refused", "unknown")


def test_what_happens_between_turns_is_told_with_the_next(tmp_path: Path) -> None:
    compacting = entry("c", None, "checkpoint", kind="compaction", generationStatus="in_progress")
    compacted = entry("c", None, "checkpoint", "replace_entry", kind="compaction")
    agent = entry("g", None, "checkpoint", kind="agent_change", details={"agent": "auto-approve"})
    other = entry("m", None, "checkpoint", kind="model_change", details={"model": "another"})
    hook = entry("h", None, "notice", message="Running hooks", detail={"kind": "hook_run_started"})
    events = read(
        tmp_path, delta(compacting), delta(compacted), delta(agent), delta(other), begins("t"), delta(hook),
        ends("t", "completed", text("a", "t", "So.")),
    )  # fmt: skip
    assert events[1:3] == [Status("compacted"), Status(MODE, "auto-approve")]
    events = read(tmp_path / "2", begins("t"), delta(compacting), delta(compacted), ends("t"))
    assert Status("compacted") in events


def test_words_in_a_turn_and_what_is_of_another_one(tmp_path: Path) -> None:
    more = entry("rs-2", "t", "message", role="user", content=[{"type": "text", "text": "and this"}])
    late = effect("0", "before", "file_system.bash", {"command": "sleep"}, status="completed")
    events = read(tmp_path, begins("t"), delta(more), delta(late), ends("t", "completed", text("a", "t", "Both.")))
    assert kinds(events) == ["TurnStarted", "Status", "Text", "Init", "Done"]
    assert events[1] == Status(SAID, "and this")


def test_what_is_asked_and_decided_is_a_line(tmp_path: Path) -> None:
    record = Record(tmp_path)
    routing = {"id": "approval-1", "detail": {"kind": "approval"}, "turnId": "t"}
    result = {"callbackId": "approval-1", "output": {"decision": {"type": "approve"}, "type": "approval"}}
    record.write(
        begins("t"),
        ("callback_registered", {"callback_id": "approval-1", "kind": "approval", "routing": routing}),
        ("callback_resolved", {"callback_id": "approval-1", "result": result, "state": "resolved"}),
    )
    lines = Reader(record).lines()
    assert [line.message["kind"] for line in lines] == ["begin", "entry", "asked", "answered"]
    assert [line.message["told"]["id"] for line in lines[2:]] == ["approval-1", "approval-1"]


# --- how it goes on ----------------------------------------------------------------------------------------------


def whole(id: str, words: str) -> tuple[Payload, Payload, Payload]:
    return begins(id, words), used(f"u-{id}", 10), ends(id, "completed", text(id, id, f"{words} over"))


def prompts(events: list[Event]) -> list[str]:
    return [event.prompt for event in events if isinstance(event, TurnStarted)]


def history(*ids: str) -> list[Fields]:
    return [step for id in ids for step in (prompt(id, id), text(id, id, f"{id} over"))]


def test_it_is_read_on_over_generations_each_turn_once(tmp_path: Path) -> None:
    record = Record(tmp_path)
    reader, events = Reader(record), list[Event]()
    assert reader.read() == []
    for number in range(5):
        id = f"t{number}"
        record.write(*whole(id, id))
        if number % 2:  # sometimes it is read before, sometimes after the new generation
            events += reader.read()
        record.generation(history(*(f"t{each}" for each in range(number + 1))), turn(id, "completed"))
        events += reader.read()
    assert prompts(events) == ["t0", "t1", "t2", "t3", "t4"]
    assert all(event.usage == "complete" for event in events if isinstance(event, Done))


def test_who_was_away_has_the_last_turn_whole_and_those_before_it_from_the_history(tmp_path: Path) -> None:
    record = Record(tmp_path)
    reader = Reader(record)
    ids: list[str] = []
    events: list[Event] = []
    for number in range(5):
        ids.append(f"t{number}")
        record.write(*whole(ids[-1], ids[-1]))
        if number == 0:
            events += reader.read()
        record.generation(history(*ids), turn(ids[-1], "completed"))
    again = Reader(record, reader.cursor)
    assert prompts(events) == ["t0"]
    events = again.read()
    assert prompts(events) == ["t1", "t2", "t3", "t4"]
    ended = [(event.status, event.text, event.usage) for event in events if isinstance(event, Done)]
    assert ended == [("success", f"t{each} over", "complete" if each == 4 else "unknown") for each in (1, 2, 3, 4)]
    with pytest.raises(FileNotFoundError):
        reader.read()
    assert reader.read() == events, "one that was only too slow has the same when it looks again"
    assert Reader(record, again.cursor).read() == []
    assert prompts(Reader(record, since=BEGAN + 1).read()) == []
    lost = Reader(record, "1:a-turn-that-is-no-more:1")
    assert lost.read() == []
    record.write(*whole("t5", "t5"))
    assert prompts(lost.read()) == ["t5"]


def test_what_comes_late_in_the_history_begins_no_turn_again(tmp_path: Path) -> None:
    record = Record(tmp_path)
    late = effect("1", "t0", "file_system.bash", {"command": "sleep"}, status="completed")
    for id in ("t0", "t1", "t2", "t3"):
        record.write(*whole(id, id))
        record.generation([*history("t0", "t1"), late, *history("t2")], turn(id, "completed"))
    assert prompts(Reader(record).read()) == ["t0", "t1", "t2", "t3"]


def test_a_journal_that_is_gone_is_waited_for(tmp_path: Path) -> None:
    record = Record(tmp_path)
    record.segment.unlink()
    reader = Reader(record)
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            reader.read()
    record.segment.touch()
    record.write(*whole("t", "t"))
    assert prompts(reader.read()) == ["t"]


def test_an_open_turn_is_told_from_its_beginning_and_goes_on(tmp_path: Path) -> None:
    record = Record(tmp_path)
    record.write(*whole("t0", "t0"))
    record.generation(history("t0"), turn("t0", "completed"))
    record.write(begins("t1"), runs("1", "t1"))
    reader = Reader(record)
    reader.read()
    again = Reader(record, reader.cursor)
    assert kinds(again.read()) == ["TurnStarted", "ToolUse"]
    record.write(ran("1", "t1"), ends("t1", "completed", text("b", "t1", "Done.")))
    assert kinds(again.read()) == ["ToolResult", "Text", "Init", "Done"]
    record.write(delta(entry("c", None, "checkpoint", kind="compaction")), begins("t2"))
    assert kinds(Reader(record, again.cursor).read()) == ["TurnStarted", "Status"]
    assert kinds(again.read()) == ["TurnStarted", "Status"]
    again.file._next = 0  # pyright: ignore[reportPrivateUsage]
    assert "TurnStarted" not in kinds(again.read()), "the same turn does not begin once more"
    # A terminal that has ended in the midst of a turn: that is told, and not again.
    assert Reader(record, again.events.cursor).read() == []


def test_a_line_that_is_cut_off_comes_later_and_what_is_none_is_left_out(tmp_path: Path) -> None:
    record = Record(tmp_path)
    reader = Reader(record)
    record.write(*whole("t", "t"))
    whole_file = record.segment.read_bytes()
    events: list[Event] = []
    for size in range(0, len(whole_file), 97):
        record.segment.write_bytes(whole_file[:size])
        events += reader.read()
    record.segment.write_bytes(whole_file + b'not json\n{"sequence":"x"}\n[1]\n\xff\n')
    events += reader.read()
    assert kinds(events) == ["TurnStarted", "Init", "Text", "Init", "Done"]
    record.write(*whole("u", "u"))
    assert prompts(reader.read()) == ["u"]


def test_a_line_that_is_too_long_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_file, "READ_BYTES", 1024)
    monkeypatch.setattr(transcript_file, "MAX_LINE", 4096)
    record = Record(tmp_path)
    reader = Reader(record)
    record.write(begins("t"), delta(text("a", "t", "x" * 10_000)), ends("t", "completed", text("b", "t", "So.")))
    assert kinds(reader.read()) == ["TurnStarted", "Text", "Init", "Done"]
    record.write(*whole("u", "u"), ("last", {"long": "x" * 10_000}))
    events = reader.read()
    record.generation([], turn("u", "completed"))
    record.write(*whole("v", "v"))
    assert prompts(events + reader.read()) == ["u", "v"]


def test_a_record_that_is_not_there_yet_or_is_broken_is_read_later(tmp_path: Path) -> None:
    record = Record(tmp_path)
    manifest = record.path / "generations" / f"{1:016}" / "manifest.json"
    text = manifest.read_bytes()
    reader = Reader(record)
    for broken in (b"", b"{}", b"[]", text[:20]):
        manifest.write_bytes(broken)
        with pytest.raises(OSError):
            reader.read()
    manifest.write_bytes(text)
    record.write(*whole("t", "t"))
    assert prompts(reader.read()) == ["t"]
    with pytest.raises(FileNotFoundError):
        VibeRecord(tmp_path / "none", TranscriptCursor()).read()


# --- what may be read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["journal", "generations", "chunks", "segment", "chunk"])
def test_no_link_leads_elsewhere(part: str, tmp_path: Path) -> None:
    record = Record(tmp_path)
    record.write(*whole("t0", "t0"))
    record.generation(history("t0"), turn("t0", "completed"))
    record.write(*whole("t1", "t1"))
    record.generation(history("t0", "t1"), turn("t1", "completed"))  # the oldest one has a history
    chunk = min((record.path / "chunks").iterdir())
    named = {"segment": min(record.journal.iterdir()), "chunk": chunk}.get(part, record.path / part)
    assert prompts(Reader(record).read()) == ["t0", "t1"]
    named.rename(tmp_path / "elsewhere")
    named.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        Reader(record).read()


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    record = Record(tmp_path)
    record.segment.unlink()
    os.mkfifo(record.segment)
    with pytest.raises(OSError):
        Reader(record).read()


class Leases:
    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.active = home / ".vibe/logs/session/active"
        self.active.mkdir(parents=True)
        self.reach = VibeConnector({"HOME": str(home), "TIELINE_HOME": str(home / "state")})
        self.processes: dict[int, ProcessInfo] = {}
        monkeypatch.setattr("tieline.harnesses.vibe.connector.process_info", self.processes.get)
        monkeypatch.setattr("tieline.harnesses.vibe.connector.agent_ancestor", {13: "agent"}.get)
        monkeypatch.setattr("tieline.harnesses.vibe.connector.directory_of", dict.fromkeys(range(20), "/project").get)
        monkeypatch.setattr("tieline.harnesses.vibe.connector.is_own", lambda pid: pid != 12)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        self.arguments: dict[int, list[str]] = {}
        monkeypatch.setattr("tieline.harnesses.vibe.connector.arguments_of", lambda pid: self.arguments.get(pid, []))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]

    def process(
        self, pid: int, *arguments: str, name: str = "vibe-app-server", state: str = "S", terminal: int = 9
    ) -> None:
        self.arguments[100 + pid] = ["vibe-rs", *arguments]
        self.processes[pid] = ProcessInfo(f"{pid} ({name}) {state} {100 + pid} 1 1 {terminal} {'0 ' * 14}77 0".encode())

    def lease(self, session: str, pid: int, second: int = 0, **more: Any) -> None:
        at = f"2026-11-19T11:01:{second:02}.000Z"
        lease = {"session_id": session, "process_id": pid, "acquired_at": at, "lease_version": 1, **more}
        (self.active / f"{session}.lock.json").write_bytes(msgspec.json.encode(lease) + b"\n")

    def meta(self, session: str, **more: Any) -> Path:
        folder = self.active.parent / "unified" / session
        folder.mkdir(parents=True)
        about = {"session_id": session, "environment": {"working_directory": "/project"}, **more}
        (folder / "meta.json").write_bytes(msgspec.json.encode(about))
        return folder

    def session_processes(self) -> dict[str, int]:
        sessions = self.reach._find_sessions()  # pyright: ignore[reportPrivateUsage]
        assert all((known.cwd, known.start) == ("/project", 77) for known in sessions.values())
        return {id: known.process for id, known in sessions.items()}


@pytest.fixture
def leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Leases:
    return Leases(tmp_path, monkeypatch)


def session(number: int) -> str:
    return f"{number:08x}-0000-0000-0000-000000000000"


def test_a_lease_counts_only_of_a_terminal_that_a_person_has_opened(leases: Leases) -> None:
    leases.process(1)
    leases.process(2, name="vibe-acp")
    leases.process(3, state="Z")
    leases.process(4, terminal=0)
    leases.process(7, "-p", "say hello")
    leases.process(8, "--prompt-file", "prompt")
    leases.process(12)  # another user's
    leases.process(13)  # an agent's
    for pid in (1, 2, 3, 4, 7, 8, 12, 13):
        leases.lease(session(pid), pid)
    leases.lease(session(5), 5)  # which runs no more
    (leases.active / "torn.lock.json").write_bytes(b'{"session_id":"to')
    (leases.active / f"{session(6)}.lock.json").write_bytes((leases.active / f"{session(1)}.lock.json").read_bytes())
    assert leases.session_processes() == {session(1): 1}


def test_a_terminal_has_one_session_whatever_else_its_process_has_leased(leases: Leases) -> None:
    leases.process(1)
    leases.lease("process-output-cleanup", 1, 1)
    leases.lease(session(1), 1, 2)
    leases.lease(session(2), 1, 3)  # of a subagent, that has written nothing yet
    assert leases.session_processes() == {session(1): 1}
    leases.lease(session(3), 1, 0)
    leases.meta(session(3), parent_session_id=session(1))
    assert leases.session_processes() == {session(1): 1}


def test_a_session_that_its_terminal_leaves_at_once_does_not_count(leases: Leases) -> None:
    leases.process(1)
    now = datetime.now(UTC).isoformat()
    leases.lease(session(1), 1, acquired_at=now)
    assert leases.session_processes() == {}
    leases.meta(session(1))
    assert leases.session_processes() == {session(1): 1}


@pytest.mark.parametrize("option", ["--resume", f"--resume={'1' * 8}", "-c", "--continue"])
def test_the_session_that_a_terminal_opens_before_it_resumes_one_never_counts(leases: Leases, option: str) -> None:
    """However slow the machine is."""
    leases.process(1, option)
    leases.lease(session(1), 1)
    assert leases.session_processes() == {}
    (leases.active / f"{session(1)}.lock.json").unlink()
    leases.lease(session(2), 1)
    leases.meta(session(2))
    assert leases.session_processes() == {session(2): 1}
    # What it opens after that is a person's.
    (leases.active / f"{session(2)}.lock.json").unlink()
    leases.lease(session(3), 1)
    assert leases.session_processes() == {session(3): 1}


def test_a_session_that_was_never_prompted_began_with_its_lease(leases: Leases) -> None:
    leases.process(1)
    leases.lease(session(1), 1, 7)
    records = leases.active.parent / "unified"
    head = leases.reach._head  # pyright: ignore[reportPrivateUsage]
    assert head(records / session(1)) == (session(1), 1_795_086_067.0)
    assert head(records / session(2)) == ("", 0.0)
    began = leases.meta(session(1), start_time="2026-11-18T11:01:07+00:00")
    assert head(began) == (session(1), 1_795_086_067.0 - 86400)
    assert head(leases.meta(session(3))) == (session(3), 0.0), "one that does not say when it began is an old one"


def test_a_record_elsewhere_is_none(leases: Leases, tmp_path: Path) -> None:
    leases.process(1)
    leases.lease(session(1), 1)
    records = leases.active.parent / "unified"
    records.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (records / session(1)).symlink_to(tmp_path / "elsewhere")
    assert leases.session_processes() == {}
