"""A terminal of Claude Code, by its transcript and what its session file says."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from tieline.events import Done, Event
from tieline.harnesses import claude_code_terminal
from tieline.harnesses.claude_code_terminal import ClaudeCodeTerminal
from tieline.sessions.attached_session import AttachedSession
from tieline.testing.wait_for import eventually

SAID = {"id": "m-1", "role": "assistant", "content": [{"type": "text", "text": "I will."}]}
OPEN_TURN = (
    {"type": "user", "message": {"role": "user", "content": "do it"}, "origin": {"kind": "human"}, "uuid": "u-1"},
    {"type": "assistant", "message": SAID, "uuid": "a-1"},
)


class Told(list[Event]):
    """A session that keeps what it is told."""

    record = SimpleNamespace(cursor="")

    def tell(self, event: Event, _: object = "") -> bool:
        self.append(event)
        return True

    def activity(self, _: object) -> None:
        pass

    async def flush(self) -> None:
        pass


async def test_a_turn_does_not_end_by_what_its_file_said_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub was busy, and last saw the file when the terminal was idle; the turn's tool runs and writes nothing."""
    monkeypatch.setattr(claude_code_terminal, "QUIET_S", 0.0)
    monkeypatch.setattr(claude_code_terminal, "SETTLE_S", 0.02)
    path, told, asked = tmp_path / "s-1.jsonl", Told(), list[str]()
    at = {"timestamp": "2026-11-19T03:07:23.432Z", "sessionId": "s-1"}
    path.write_bytes(b"".join(msgspec.json.encode({**line, **at}) + b"\n" for line in OPEN_TURN))
    now = "busy"

    def status() -> str:
        asked.append(now)
        return now

    async def push(text: str) -> None:
        raise AssertionError(text)

    terminal = ClaudeCodeTerminal(
        0, "s-1", "/p", path, since=lambda: 0.0, reading=asyncio.Semaphore(1), push=push, status=status
    )
    terminal.follow(cast("AttachedSession", told), "idle")
    await eventually(lambda: len(asked) >= 3, "its file is not looked at again")
    assert told and not any(isinstance(event, Done) for event in told)
    now = "idle"
    await eventually(lambda: any(isinstance(event, Done) for event in told), "the turn does not end")
    await terminal.stop()
