"""Long transcripts of Claude Code: read whole, in parts, each byte once, and after a restart from the cursor on."""

import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from tests.harnesses.idle_terminals import idle_terminals

from tieline.bootstrap.daemon import hub_on
from tieline.config import Config, HubConfig
from tieline.events import Status, Text, TurnStarted
from tieline.harnesses.attach_consent import agree
from tieline.harnesses.claude_code.transcript import ClaudeCodeTranscriptFile, TranscriptEvents, messages_in
from tieline.harnesses.terminals import transcript_file
from tieline.harnesses.terminals.transcript_file import TranscriptCursor, TranscriptFile, TranscriptLine
from tieline.sessions.manager import SessionManager
from tieline.testing.rig import scratch_env
from tieline.testing.wait_for import eventually

ANSWER = "word " * 2000
TURNS = 150
"""Of one history: some parts' worth."""


def turn(number: int) -> bytes:
    """Its lines, as Claude Code writes them."""
    at = "2026-11-17T04:40:13.432Z"
    prompt = {"role": "user", "content": f"prompt {number}"}
    answered = {
        "id": f"msg_{number}",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [{"type": "text", "text": f"{number} {ANSWER}"}],
    }
    lines: list[dict[str, object]] = [
        {"type": "user", "message": prompt, "origin": {"kind": "human"}, "uuid": f"u-{number}", "timestamp": at},
        {"type": "assistant", "message": answered, "uuid": f"a-{number}", "timestamp": at},
        {"type": "system", "subtype": "turn_duration", "uuid": f"d-{number}", "timestamp": at},
    ]
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


HISTORY = b"".join(map(turn, range(TURNS)))


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[], int], None, None]:
    """How many bytes of transcripts were read since it was last asked."""
    read, count = os.pread, 0

    def counted(descriptor: int, size: int, offset: int, /) -> bytes:
        nonlocal count
        data = read(descriptor, size, offset)
        count += len(data)
        return data

    def asked() -> int:
        nonlocal count
        before, count = count, 0
        return before

    monkeypatch.setattr(transcript_file.os, "pread", counted)
    yield asked


def read_all(file: TranscriptFile) -> list[TranscriptLine]:
    all_lines: list[TranscriptLine] = []
    more = True
    while more:
        lines, more = file.read()
        all_lines += lines
    return all_lines


def test_a_long_history_is_read_to_its_end_and_each_byte_once(tmp_path: Path, bytes_read: Callable[[], int]) -> None:
    assert len(HISTORY) > 2 * transcript_file.READ_BYTES
    path = tmp_path / "s.jsonl"
    path.write_bytes(HISTORY)
    file = ClaudeCodeTranscriptFile(path, TranscriptCursor())
    lines = read_all(file)
    assert len(lines) == 3 * TURNS
    parts = len(HISTORY) // transcript_file.READ_BYTES
    assert bytes_read() <= len(HISTORY) + parts * len(turn(0))  # the line in which a part ends is read again

    assert read_all(file) == []
    last = lines[-1]
    after = ClaudeCodeTranscriptFile(path, TranscriptCursor(last.start, last.id))
    assert read_all(after) == []
    assert bytes_read() < transcript_file.LINE_BYTES

    with path.open("ab") as grown:
        grown.write(turn(TURNS))
    assert [line.id for line in read_all(after)] == [f"{kind}-{TURNS}" for kind in "uad"]
    assert bytes_read() <= len(turn(TURNS)) + transcript_file.TAIL_BYTES


def test_the_line_of_the_cursor_may_be_longer_than_a_part(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    long = {"type": "system", "uuid": "long", "content": "x" * (2 * transcript_file.LINE_BYTES)}
    path.write_bytes(msgspec.json.encode(long) + b"\n" + turn(1))
    assert [line.id for line in read_all(ClaudeCodeTranscriptFile(path, TranscriptCursor(0, "long")))] == [
        "u-1",
        "a-1",
        "d-1",
    ]


def turns(*numbers: int) -> bytes:
    return b"".join(map(turn, numbers))


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize(
    ("now", "read"),
    [
        (turns(2, 3), [3]),  # its beginning was taken out: the last line that was read stands elsewhere
        (turns(7, 8, 9, 0, 1, 2, 3), [3]),  # it has more before that line
        (turns(0, 1, 2), []),  # nothing is new
        (turns(5, 6), []),  # the last line is no more: what may be known is not told twice
    ],
)
def test_a_transcript_that_is_rotated_or_shortened_is_read_on_where_it_was_left(
    now: bytes, read: list[int], in_place: bool, tmp_path: Path
) -> None:
    path, fresh = tmp_path / "s.jsonl", tmp_path / "new.jsonl"
    path.write_bytes(turns(0, 1, 2))
    file = ClaudeCodeTranscriptFile(path, TranscriptCursor())
    assert len(read_all(file)) == 9
    if in_place:
        path.write_bytes(now)
    else:
        fresh.write_bytes(now)
        fresh.replace(path)
    assert [line.id for line in read_all(file)] == [f"{kind}-{number}" for number in read for kind in "uad"]
    with path.open("ab") as grown:
        grown.write(turn(10))
    assert [line.id for line in read_all(file)] == ["u-10", "a-10", "d-10"]


@asynccontextmanager
async def manager(config: Config) -> AsyncGenerator[SessionManager, None]:
    async with hub_on(config) as (hub, _):
        assert hub.local is not None
        yield hub.local.manager


async def test_a_restarted_hub_reads_histories_from_its_cursors_only(
    tmp_path: Path, bytes_read: Callable[[], int]
) -> None:
    count = 3
    env = scratch_env(tmp_path / "home", path=os.defpath)
    agree(env, "claude-code", now=0.0)
    config = Config(environ=env, hub=HubConfig(port=0))

    async def read(sessions: SessionManager, turns: int) -> None:
        def all_read() -> bool:
            return [session.turns for session in sessions.sessions()] == [turns] * count

        await eventually(all_read, "the histories are not read", timeout=100)

    with idle_terminals(tmp_path, count, lambda _: HISTORY) as paths:
        async with manager(config) as sessions:
            await read(sessions, TURNS)
            assert bytes_read() < 1.05 * count * len(HISTORY)
        for path in paths:
            with path.open("ab") as file:
                file.write(turn(TURNS))
        async with manager(config) as sessions:
            await read(sessions, TURNS + 1)
            assert bytes_read() < 0.05 * count * len(HISTORY)
            for record in sessions.sessions():
                events = [entry.event async for entry in sessions.events(record.id, follow=False)]
                prompts = [event.prompt for event in events if isinstance(event, TurnStarted)]
                assert prompts == [f"prompt {number}" for number in range(TURNS + 1)]
                assert sum(isinstance(event, Text) for event in events) == TURNS + 1


def test_what_became_of_a_call_is_known_after_its_turn_until_its_id_is_used_again() -> None:
    """A turn may be over before anybody looks whether its permission prompt was allowed."""
    events = TranscriptEvents("s-1", TranscriptCursor())

    def feed(number: int, kind: str, content: object, **more: object) -> None:
        message = {"id": f"m-{number}", "role": kind, "model": "claude-opus-5-5", "content": content}
        line = {"type": kind, "message": message, "uuid": f"l-{number}", **more}
        events.feed(TranscriptLine(number, line))

    call = {"type": "tool_use", "id": "t-1", "name": "Bash", "input": {"command": "touch it"}}
    result = {"type": "tool_result", "tool_use_id": "t-1", "content": ""}
    feed(0, "user", "touch it", origin={"kind": "human"})
    feed(1, "assistant", [call])
    feed(2, "user", [result])
    feed(3, "assistant", [{"type": "text", "text": "Done."}])
    events.feed(TranscriptLine(4, {"type": "system", "subtype": "turn_duration", "uuid": "l-4"}))
    assert events.turn is None
    assert events.results == {"t-1": True}
    feed(5, "user", "once more", origin={"kind": "human"})
    feed(6, "assistant", [call])
    assert events.results == {}
    feed(7, "user", [result], toolDenialKind="user-rejected")
    assert events.results == {"t-1": False}


def test_turns_that_began_before_a_time_are_left_out_to_their_end() -> None:
    """Its directory was off until then."""
    at = "2026-11-17T04:40:{:02}.500Z"
    lines: list[dict[str, object]] = []
    for number, (begins, ends) in enumerate(((0, 1), (2, 9), (12, 13))):
        prompt = {"role": "user", "content": f"prompt {number}"}
        text = {"type": "text", "text": f"answer {number}"}
        answered = {"id": f"m-{number}", "role": "assistant", "model": "claude-opus-5-5", "content": [text]}
        of_turn: list[dict[str, object]] = [
            {"type": "user", "message": prompt, "origin": {"kind": "human"}, "timestamp": at.format(begins)},
            {"type": "assistant", "message": answered, "timestamp": at.format(ends)},
            {"type": "system", "subtype": "turn_duration", "timestamp": at.format(ends)},
            {"type": "system", "subtype": "compact_boundary", "timestamp": at.format(ends + 1)},
        ]
        lines += of_turn

    def read_since(since: int) -> list[str]:
        moment = datetime.fromisoformat(at.format(since)).timestamp()
        events = TranscriptEvents("s-1", TranscriptCursor(), since=moment)
        kept = [
            event
            for number, line in enumerate(lines)
            for event, _ in events.feed(TranscriptLine(number, {**line, "uuid": f"l-{number}"}))
        ]
        return [
            event.prompt if isinstance(event, TurnStarted) else event.state
            for event in kept
            if isinstance(event, TurnStarted | Status)
        ]

    assert read_since(0) == ["prompt 0", "prompt 1", "compacted", "prompt 2", "compacted"]
    assert read_since(5) == ["prompt 2", "compacted"]
    assert read_since(12) == ["prompt 2"]
    assert read_since(14) == []


def test_a_message_went_to_the_model_only_if_the_transcript_has_it_in_the_conversation(tmp_path: Path) -> None:
    """As Claude Code writes what it takes over its socket: what waits, what it put into a turn, what began one."""

    def framed(id: str) -> str:
        return f'<peer-message-0a1b from="alice" id="{id}" thread="t">\nhello\n</peer-message-0a1b>'

    def queued(id: str) -> dict[str, object]:
        return {"type": "queue-operation", "operation": "enqueue", "content": framed(id)}

    lines: list[dict[str, object]] = [
        queued("m-1"),
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": framed("m-1")}},
        queued("m-2"),
        {"type": "user", "isMeta": True, "message": {"role": "user", "content": f"A session: {framed('m-2')}"}},
        queued("m-3"),
        {"type": "queue-operation", "operation": "popAll", "content": framed("m-3")},
        {"type": "api-request-blob", "message": {"role": "system", "content": framed("m-4")}},
    ]
    path = tmp_path / "s-1.jsonl"
    assert messages_in(path, {"m-1"}) == set()
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines) + b'{"type":"user","mess')
    assert messages_in(path, {"m-1", "m-2", "m-3", "m-4", "m-"}) == {"m-1", "m-2"}
