"""A terminal of Claude Code, by its transcript and what its session file says."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Literal, TypeVar, cast

import msgspec
import pytest

from tieline.events import Answer, Ask, Done, Event, TurnStarted
from tieline.harnesses.claude_code import terminal as claude_code_terminal
from tieline.harnesses.claude_code.terminal import ClaudeCodeTerminal
from tieline.sessions.attached_session import AT_THE_TERMINAL, AttachedSession
from tieline.testing.wait_for import eventually

E = TypeVar("E", bound=Event)


def message(id: str, text: str) -> dict[str, object]:
    return {"id": id, "role": "assistant", "content": [{"type": "text", "text": text}]}


OPEN_TURN: tuple[dict[str, object], ...] = (
    {"type": "user", "message": {"role": "user", "content": "do it"}, "origin": {"kind": "human"}, "uuid": "u-1"},
    {"type": "assistant", "message": message("m-1", "I will."), "uuid": "a-1"},
)
LAST_LINE: dict[str, object] = {"type": "assistant", "message": message("m-2", "It is done."), "uuid": "a-2"}


class RecordingSession(list[Event]):
    """A session that keeps what it is told."""

    record = SimpleNamespace(cursor="")

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self if isinstance(event, kind)]

    def tell(self, event: Event, _: object = "") -> bool:
        self.append(event)
        return True

    def activity(self, _: object) -> None:
        pass

    async def flush(self) -> None:
        pass

    async def ask(self, ask: Ask, key: str) -> Answer:
        self.decided: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        return await self.decided

    async def settle(self, key: str, decision: Literal["allow", "deny"]) -> None:
        if not self.decided.done():
            self.decided.set_result(Answer(key, decision, AT_THE_TERMINAL))


@pytest.fixture
def session() -> RecordingSession:
    return RecordingSession()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A transcript, of which the terminal need not wait long for what does not come."""
    monkeypatch.setattr(claude_code_terminal, "QUIET_S", 0.0)
    monkeypatch.setattr(claude_code_terminal, "SETTLE_S", 0.02)
    write(path := tmp_path / "s-1.jsonl", *OPEN_TURN)
    return path


def write(path: Path, *lines: dict[str, object]) -> None:
    at = {"timestamp": datetime.now(UTC).isoformat(), "sessionId": "s-1"}
    with path.open("ab") as file:
        file.write(b"".join(msgspec.json.encode({**line, **at}) + b"\n" for line in lines))


CALL = {"type": "tool_use", "id": "t-1", "name": "Bash", "input": {"command": "touch x"}}
ASKED = {"tool_name": "Bash", "tool_input": {"command": "touch x"}}


def called(id: str) -> dict[str, object]:
    return {"type": "assistant", "message": {"id": f"m-{id}", "role": "assistant", "content": [{**CALL, "id": id}]}}


def returned(id: str, **more: str) -> dict[str, object]:
    result = {"type": "tool_result", "tool_use_id": id, "content": "", "is_error": False}
    return {"type": "user", "message": {"role": "user", "content": [result]}, "uuid": f"u-{id}", **more}


@asynccontextmanager
async def following(
    path: Path, session: RecordingSession, status: Callable[[], str], seen: str
) -> AsyncGenerator[ClaudeCodeTerminal, None]:
    """`seen` is what the hub saw last of its status."""

    async def push(text: str) -> None:
        raise AssertionError(text)

    terminal = ClaudeCodeTerminal(
        0, "s-1", "/p", path, since=lambda: 0.0, reading=asyncio.Semaphore(1), push=push, status=status
    )
    terminal.follow(cast("AttachedSession", session), seen)
    try:
        yield terminal
    finally:
        await terminal.stop()


async def test_a_turn_does_not_end_by_what_its_file_said_before(path: Path, session: RecordingSession) -> None:
    """The hub was busy, and last saw the file when the terminal was idle; the turn's tool runs and writes nothing."""
    asked = list[str]()
    now = "busy"

    def status() -> str:
        asked.append(now)
        return now

    async with following(path, session, status, "idle"):
        await eventually(lambda: len(asked) >= 3, "its file is not looked at again")
        assert session and not session.of(Done)
        now = "idle"
        await eventually(lambda: bool(session.of(Done)), "the turn does not end")


async def test_what_a_turn_wrote_just_before_it_ended_is_of_that_turn(path: Path, session: RecordingSession) -> None:
    """After a long wait, for a person's answer say, the last lines and the idle terminal come in the same moment."""
    looks = 0

    def status() -> str:
        nonlocal looks
        looks += 1
        if looks == 3:
            write(path, LAST_LINE)
        return "idle" if looks >= 3 else "waiting"

    async with following(path, session, status, "idle"):
        await eventually(lambda: bool(session.of(Done)), "the turn does not end")
    assert [done.text for done in session.of(Done)] == ["It is done."]
    assert len(session.of(TurnStarted)) == 1


@pytest.mark.slow
async def test_a_turn_does_not_end_because_the_machine_stood_still(
    path: Path, session: RecordingSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub and the terminal get the processor again in the same moment; the terminal had not written all of it."""
    monkeypatch.setattr(claude_code_terminal, "QUIET_S", 1.0)
    looks, now = 0, "busy"

    def status() -> str:
        nonlocal looks
        looks += 1
        return now

    async with following(path, session, status, "idle"):
        await eventually(lambda: looks > 1, "its file is not looked at")
        now, before = "idle", looks
        time.sleep(1.5)  # noqa: ASYNC251 (nothing goes on)
        await eventually(lambda: looks > before + 1, "its file is not looked at again")
        write(path, LAST_LINE)
        await eventually(lambda: bool(session.of(Done)), "the turn does not end")
    assert [done.text for done in session.of(Done)] == ["It is done."]
    assert len(session.of(TurnStarted)) == 1


async def test_a_turn_that_is_over_at_once_denies_nothing(
    path: Path, session: RecordingSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Allowed at the terminal; what the call brought is written when the terminal is idle again."""
    monkeypatch.setattr(claude_code_terminal, "QUIET_S", 60.0)
    write(path, called("t-1"))
    idle = 0

    def status() -> str:
        nonlocal idle
        idle += hasattr(session, "decided")
        if idle == 10:
            write(path, returned("t-1"))
        return "waiting" if idle < 2 else "idle"

    async with following(path, session, status, "waiting") as terminal:
        async with asyncio.timeout(30):
            assert not await terminal.answer_prompt(ASKED), "the hook prints nothing: it was decided there"
    assert session.decided.result().decision == "allow"


async def test_a_call_that_is_written_long_after_its_prompt_settles_it(
    path: Path, session: RecordingSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Allowed at the terminal, and the turn is over at once: the transcript of a busy machine had none of it before. A
    call that was the same and was denied before tells nothing."""
    monkeypatch.setattr(claude_code_terminal, "CALL_S", 0.05)
    monkeypatch.setattr(claude_code_terminal, "QUIET_S", 60.0)
    write(path, called("t-0"), returned("t-0", toolDenialKind="user-rejected"))
    now = "busy"

    async with following(path, session, lambda: now, "waiting") as terminal:
        await eventually(lambda: "t-0" in terminal._events.results, "it is not read")  # pyright: ignore[reportPrivateUsage]
        now = "waiting"
        deciding = asyncio.create_task(terminal.answer_prompt(ASKED))
        await eventually(lambda: hasattr(session, "decided"), "it is not asked")
        now = "idle"
        terminal.look(now)
        write(path, called("t-1"), returned("t-1"))
        async with asyncio.timeout(30):
            assert not await deciding, "the hook prints nothing: it was decided there"
    assert session.decided.result().decision == "allow"
