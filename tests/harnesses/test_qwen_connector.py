"""The way into Qwen Code's terminals: files, sockets and hooks as it has them, and some that are not what they say."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from tests.harnesses.told_sessions import BOUND, ToldSessions

from tieline.harnesses.qwen import connector as qwen_connector
from tieline.harnesses.qwen.connector import REASONS, DeliveryOutcome, QwenConnector
from tieline.harnesses.terminals.session_file_connector import MAX_LINE
from tieline.mesh.push import HarnessSession, PushUnanswered, Unreachable
from tieline.paths import state
from tieline.processes.process_table import process_info
from tieline.testing.wait_for import eventually

TOKEN = "its token"

# --- files, sockets and hooks -----------------------------------------------------------------------------------


def write_session(home: Path, socket: Path, *, pid: int = 0, name: str = "{pid}.json", **facts: Any) -> None:
    """The file of a session whose process is this one, or another. Texts may name its `pid`, `boot` and `start`."""
    pid = pid or os.getpid()
    process = process_info(pid)
    known = {
        "pid": str(pid),
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "start": str(process.start if process else 0),
    }
    record = {
        "schemaVersion": 1,
        "pid": pid,
        "procStart": "{boot}:{start}",
        "sessionId": "s1",
        "cwd": "/somewhere",
        "startedAt": 1,
        "kind": "tui",
        "ipcPath": str(socket),
        "ipcToken": TOKEN,
        **facts,
    }
    record = {key: value.format(**known) if isinstance(value, str) else value for key, value in record.items()}
    folder = home / ".qwen" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name.format(**known)).write_bytes(msgspec.json.encode(record))


def socket_of(home: Path, pid: int = 0) -> Path:
    return home / "qwen-socks-0" / f"{pid or os.getpid()}.sock"


Answer = Callable[[dict[str, Any]], bytes]
"""What is sent to whoever wrote a frame."""


class Inbox:
    """A socket where Qwen Code would have one. `answer` says what its sender is told; None: nothing."""

    def __init__(self, home: Path) -> None:
        self.path = socket_of(home)
        self.path.parent.mkdir(parents=True)
        self.frames: list[dict[str, Any]] = []
        self.answer: Answer | None = receipt("delivered")
        self.answer_later: Callable[[dict[str, Any]], Awaitable[bytes]] | None = None

    async def __aenter__(self) -> "Inbox":
        self._server = await asyncio.start_unix_server(self._serve, self.path, limit=2 * MAX_LINE)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert msgspec.json.decode(await reader.readline()) == {"msgV": 1, "type": "auth", "token": TOKEN}
        frame = msgspec.json.decode(await reader.readline())
        self.frames.append(frame)
        writer.close()
        answer = await self.answer_later(frame) if self.answer_later else self.answer(frame) if self.answer else None
        if answer is not None:
            _, back = await asyncio.open_unix_connection(frame["from"])
            back.write(answer)
            await back.drain()
            back.close()


def receipt(status: str, **changed: str) -> Answer:
    def answer(frame: dict[str, Any]) -> bytes:
        token = changed.get("token", frame["replyToken"])
        control = {"msgV": 1, "type": "control", "status": status, "origMsgId": changed.get("id", frame["msgId"])}
        lines = ({"msgV": 1, "type": "auth", "token": token}, control)
        return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)

    return answer


def says(answer: bytes) -> Answer:
    def answers(frame: dict[str, Any]) -> bytes:
        return answer

    return answers


@asynccontextmanager
async def reached(home: Path) -> AsyncGenerator[tuple[QwenConnector, ToldSessions], None]:
    sessions, reach = ToldSessions(), QwenConnector({"HOME": str(home)})
    async with reach.open(sessions):
        yield reach, sessions


@asynccontextmanager
async def idle(home: Path, mode: str = "default") -> AsyncGenerator[tuple[QwenConnector, HarnessSession, Inbox], None]:
    async with Inbox(home) as inbox:
        write_session(home, inbox.path)
        async with reached(home) as (reach, sessions):
            reach.on_hook("s1", "SessionStart", {"source": "startup", "permission_mode": mode}, 0)
            yield reach, await sessions.only("idle"), inbox


@pytest.mark.parametrize("outcome", get_args(DeliveryOutcome))
async def test_a_message_is_handed_over_only_if_the_terminal_says_so(tmp_path: Path, outcome: DeliveryOutcome) -> None:
    async with idle(tmp_path) as (reach, session, inbox):
        inbox.answer = receipt(outcome)
        if outcome == "delivered":
            await reach.push(session, "hello", "alice")
        else:
            with pytest.raises(Unreachable) as raised:
                await reach.push(session, "hello", "alice")
            assert str(raised.value) == REASONS[outcome]
        (frame,) = inbox.frames
        assert (frame["type"], frame["toSessionId"]) == ("user", "s1")
        assert frame["message"] == {"role": "user", "content": "hello"}
        assert not Path(frame["from"]).parent.exists(), "the socket for its answer is left behind"
        with pytest.raises(Unreachable, match=r"longer than Qwen Code takes|holds messages"):
            await reach.push(session, "x" * MAX_LINE, "alice")


@pytest.mark.parametrize(
    ("mode", "sent_mode"),
    [
        ("default", "prompting"),
        ("plan", "prompting"),
        ("", "prompting"),
        ("auto-edit", "bypass"),
        ("auto", "bypass"),
        ("yolo", "bypass"),
    ],
)
async def test_a_message_is_sent_in_the_mode_of_its_receiver(tmp_path: Path, mode: str, sent_mode: str) -> None:
    """Qwen Code holds what comes from another one."""
    async with idle(tmp_path, mode) as (reach, session, inbox):
        await reach.push(session, "hello", "alice")
        assert inbox.frames[0]["fromMode"] == sent_mode


async def test_a_terminal_that_holds_a_message_is_not_given_another_copy(tmp_path: Path) -> None:
    async with idle(tmp_path) as (reach, session, inbox):
        inbox.answer = receipt("held")
        for _ in range(2):
            with pytest.raises(Unreachable, match="until its person accepts"):
                await reach.push(session, "hello", "alice")
        assert len(inbox.frames) == 1
        inbox.answer = receipt("delivered")
        reach.on_hook("s1", "Notification", {"notification_type": "idle_prompt", "permission_mode": "yolo"}, 0)
        await reach.push(session, "hello", "alice")
        assert len(inbox.frames) == 2


@pytest.mark.parametrize(
    "answer",
    [
        None,
        receipt("delivered", token="another"),
        receipt("delivered", id="another"),
        receipt("no such status"),
        says(b"[]\n[]\n"),
        says(b"\xff\n\n"),
        says(b"x" * (2 * qwen_connector.MAX_RECEIPT)),
        says(b""),
    ],
    ids=["nothing", "token", "id", "status", "lists", "no json", "too long", "empty"],
)
async def test_without_its_own_answer_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer | None
) -> None:
    monkeypatch.setattr(qwen_connector, "RECEIPT_S", 0.3)
    async with idle(tmp_path) as (reach, session, inbox):
        inbox.answer = answer
        with pytest.raises(PushUnanswered):
            await reach.push(session, "hello", "alice")


async def test_an_answer_of_another_process_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qwen_connector, "RECEIPT_S", BOUND)
    program = (
        "import socket, sys\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        "s.connect(sys.argv[1])\n"
        "print('connected')\n"
        "s.sendall(sys.stdin.buffer.read())\n"
    )

    async def answer_elsewhere_first(frame: dict[str, Any]) -> bytes:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, frame["from"],
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        output, _ = await process.communicate(receipt("delivered")(frame))
        assert output == b"connected\n"
        return receipt("refused")(frame)

    async with idle(tmp_path) as (reach, session, inbox):
        inbox.answer_later = answer_elsewhere_first
        with pytest.raises(Unreachable, match="takes no messages"):
            await reach.push(session, "hello", "alice")


async def test_the_socket_of_another_process_is_not_spoken_to(tmp_path: Path) -> None:
    async with Inbox(tmp_path) as inbox:
        other = await asyncio.create_subprocess_exec("sleep", "60")
        try:
            socket = socket_of(tmp_path, other.pid)
            inbox.path.rename(socket)
            write_session(tmp_path, socket, pid=other.pid)
            async with reached(tmp_path) as (reach, sessions):
                session = await sessions.only("unknown")
                with pytest.raises(Unreachable, match="another process"):
                    await reach.push(session, "a secret", "alice")
        finally:
            other.kill()
            await other.wait()
        assert not inbox.frames


@pytest.mark.parametrize(
    "facts",
    [
        {"kind": "headless"},
        {"kind": "serve"},
        {"procStart": "{boot}:1"},
        {"procStart": "another-boot:{start}"},
        {"procStart": "{start}"},
        {"procStart": None},
        {"pid": 1},
        {"name": "{pid}-0a1b2c3d.json"},
        {"ipcPath": "/run/user/0/bus"},
        {"ipcPath": "/tmp/qwen-socks/{pid}0.sock"},
        {"ipcPath": "qwen-socks/{pid}.sock"},
        {"ipcPath": ""},
        {"sessionId": None},
    ],
    ids=str,
)
async def test_other_files_are_no_session_of_a_person(tmp_path: Path, facts: dict[str, Any]) -> None:
    write_session(tmp_path, socket_of(tmp_path), **facts)
    async with reached(tmp_path) as (_, sessions):
        parent = os.getppid()
        write_session(tmp_path, socket_of(tmp_path, parent), pid=parent, sessionId="a person's")
        assert (await sessions.only("unknown")).session == "a person's"


@pytest.mark.slow
async def test_a_process_that_was_killed_has_ended(tmp_path: Path) -> None:
    other = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        write_session(tmp_path, socket_of(tmp_path, other.pid), pid=other.pid)
        async with reached(tmp_path) as (reach, sessions):
            session = await sessions.only("unknown")
            other.kill()
            await eventually(lambda: sessions.over == ["s1"], "its end was not told", timeout=BOUND)
            with pytest.raises(Unreachable, match="has ended"):
                await reach.push(session, "hello", "alice")
    finally:
        await other.wait()


IDLE = ("Notification", {"notification_type": "idle_prompt"})
HOOKS: list[tuple[str, dict[str, Any], str]] = [
    ("SessionStart", {"source": "startup"}, "idle"),
    ("UserPromptSubmit", {"prompt": "x"}, "working"),
    ("Stop", {}, "working"),  # it may go on
    (*IDLE, "idle"),
    ("PostToolUse", {}, "working"),
    ("Notification", {"notification_type": "permission_prompt"}, "working"),
    ("SessionStart", {"source": "compact"}, "working"),
    (*IDLE, "idle"),
    ("SessionStart", {"source": "resume"}, "idle"),
    ("SessionStart", {"source": "compact"}, "idle"),
    ("SomethingNew", {"permission_mode": 7, "transcript_path": []}, "idle"),
    ("UserPromptSubmit", {}, "working"),
    ("SessionEnd", {}, "unknown"),
]


async def test_its_hooks_tell_what_a_session_does(tmp_path: Path) -> None:
    write_session(tmp_path, socket_of(tmp_path))
    async with reached(tmp_path) as (reach, sessions):
        await sessions.only("unknown")
        for event, input, activity in HOOKS:
            reach.on_hook("s1", event, input, 0)
            await sessions.only(activity)


async def test_a_woken_session_works_once_its_record_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qwen_connector, "TURN_S", 0.3)
    record = tmp_path / ".qwen/projects/-somewhere/chats/s1.jsonl"
    record.parent.mkdir(parents=True)
    async with Inbox(tmp_path) as inbox:
        write_session(tmp_path, inbox.path)
        async with reached(tmp_path) as (reach, sessions):
            reach.on_hook("s1", "SessionStart", {"transcript_path": str(record)}, 0)
            session = await sessions.only("idle")
            await reach.push(session, "while a dialog is open", "alice")
            assert sessions.activities[-1] == "idle"

            def begin_turn(frame: dict[str, Any]) -> bytes:
                record.write_text("{}\n")
                return receipt("delivered")(frame)

            monkeypatch.setattr(qwen_connector, "TURN_S", BOUND)
            inbox.answer = begin_turn
            await reach.push(session, "now", "alice")
            await sessions.only("working")


async def test_a_hub_that_comes_later_knows_what_a_session_does_unless_it_went_on_meanwhile(tmp_path: Path) -> None:
    record = tmp_path / ".qwen/projects/-somewhere/chats/s1.jsonl"
    record.parent.mkdir(parents=True)
    record.write_text("{}\n")
    write_session(tmp_path, socket_of(tmp_path))
    kept = state({"HOME": str(tmp_path)}) / qwen_connector.FILE
    async with reached(tmp_path) as (reach, sessions):
        reach.on_hook("s1", "SessionStart", {"transcript_path": str(record), "permission_mode": "yolo"}, 0)
        await sessions.only("idle")
        await eventually(lambda: kept.exists() and b"yolo" in kept.read_bytes(), "nothing is kept", timeout=BOUND)
    async with reached(tmp_path) as (_, sessions):
        await sessions.only("idle")
    record.write_text("{}\n{}\n")
    async with reached(tmp_path) as (_, sessions):
        await sessions.only("unknown")
    kept.write_bytes(kept.read_bytes().replace(b"/chats/", b"/cheat/"))
    async with reached(tmp_path) as (_, sessions):
        await sessions.only("unknown")
    kept.write_bytes(b"[")
    async with reached(tmp_path) as (_, sessions):
        await sessions.only("unknown")


async def test_what_its_record_has_was_taken(tmp_path: Path) -> None:
    chats = tmp_path / ".qwen/projects/-somewhere/chats"
    chats.mkdir(parents=True)
    (chats / "s1.jsonl").write_text('{"text": "id=m-1"}\n')
    (tmp_path / "s1.jsonl").write_text("m-1 m-2")
    (chats / "s2.jsonl").symlink_to(tmp_path / "s1.jsonl")
    async with reached(tmp_path) as (reach, _):
        for session, path, expected in (
            ("s1", chats / "s1.jsonl", {"m-1"}),
            ("s1", tmp_path / "s1.jsonl", {"m-1"}),  # the one before stays
            ("s2", chats / "s2.jsonl", set[str]()),
            ("s3", chats / "s1.jsonl", set[str]()),
            ("s4", chats / "s4.jsonl", set[str]()),
        ):
            reach.on_hook(session, "SessionStart", {"transcript_path": str(path)}, 0)
            assert await reach.taken(HarnessSession(harness="qwen", session=session), {"m-1", "m-2"}) == expected


async def test_without_qwen_code_nothing_happens(tmp_path: Path) -> None:
    async with reached(tmp_path) as (reach, sessions):
        with pytest.raises(Unreachable, match="has ended"):
            await reach.push(HarnessSession(harness="qwen", session="none"), "hello", "alice")
    assert not sessions.running
