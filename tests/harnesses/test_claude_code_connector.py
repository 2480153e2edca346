"""The way into Claude Code's terminals: with the real Claude Code in a real terminal, and with files and sockets that
are not what they say."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harnesses.told_sessions import ToldSessions

import tieline
from tieline.bootstrap.daemon import hub_on
from tieline.config import Config, HubConfig
from tieline.errors import BusUnavailable
from tieline.harnesses import installer
from tieline.harnesses.base import InstallOptions
from tieline.harnesses.claude_code.connector import ClaudeCodeConnector
from tieline.harnesses.claude_code.integration import ClaudeCode
from tieline.harnesses.terminals import session_file_connector
from tieline.harnesses.terminals.session_file_connector import MAX_LINE
from tieline.mesh.mesh import Mesh
from tieline.mesh.push import HarnessSession, Unreachable
from tieline.mesh.records import Caller
from tieline.processes.async_process import Process
from tieline.processes.process_table import process_info
from tieline.protocol.mesh import MemberView
from tieline.script import Run, Say
from tieline.testing.harness_terminals import HarnessHome, claude_code_home
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.wait_for import eventually

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"
OWNER = Caller(person="owner")
BOUND = 120.0


@asynccontextmanager
async def reached(home: Path) -> AsyncGenerator[tuple[ClaudeCodeConnector, ToldSessions], None]:
    sessions, reach = ToldSessions(), ClaudeCodeConnector({"HOME": str(home)})
    async with reach.open(sessions):
        yield reach, sessions


# --- the real one -----------------------------------------------------------------------------------------------


@pytest.mark.real
async def test_an_idle_terminal_wakes_and_its_presence_is_told(tmp_path: Path) -> None:
    async with (
        claude_code_home(tmp_path, BINARIES) as home,
        reached(home.home) as (reach, sessions),
        home.terminal() as terminal,
    ):
        session = await sessions.only("idle")
        assert (session.harness, session.cwd) == ("claude-code", str(home.project))
        home.rig.play([Say("I am awake.")])
        await reach.push(session, "wake up, Claude", "alice")
        await terminal.shows("wake up, Claude")
        await terminal.shows("I am awake.")
        await eventually(lambda: "working" in sessions.activities, "it was never told to work", timeout=BOUND)
        await sessions.only("idle")

        home.rig.play([Run("touch allowed")], [Say("It was allowed.")])
        await reach.push(session, "touch a file", "alice")
        await terminal.shows("Do you want to proceed?")  # its prompt is the terminal's to answer
        await sessions.only("working")
        await terminal.answer("Do you want to proceed?", "Enter")
        await terminal.shows("It was allowed.")
        await sessions.only("idle")
        assert (home.project / "allowed").exists()

        await terminal.submit("/clear")
        await eventually(lambda: sessions.over == [session.session], "its end was not told", timeout=BOUND)
        cleared = await sessions.only("idle")
        assert cleared.session != session.session
        await terminal.submit("/exit")
        await eventually(lambda: cleared.session in sessions.over, "its end was not told", timeout=BOUND)
        with pytest.raises(Unreachable, match="has ended"):
            await reach.push(cleared, "anyone there?", "alice")


@pytest.mark.real
async def test_a_terminal_that_is_killed_has_ended_and_is_told_again_when_it_is_resumed(tmp_path: Path) -> None:
    async with claude_code_home(tmp_path, BINARIES) as home, reached(home.home) as (reach, sessions):
        # Below a shell, as people start it: tmux at once resumes a program of its own that is suspended.
        home.argv = ("/bin/sh", "-c", '"$@"; exit $?', "sh", *home.argv)
        async with home.terminal() as terminal:
            home.rig.play([Say("I am here.")])
            await terminal.submit("hello")
            await terminal.shows("I am here.")
            session = await sessions.only("idle")
            (transcript,) = (home.home / ".claude/projects").glob(f"*/{session.session}.jsonl")
            await eventually(lambda: "I am here." in transcript.read_text(), "its answer was not kept", timeout=BOUND)
            pid = process_of(home)
            os.kill(pid, signal.SIGSTOP)
            await eventually(lambda: state(pid) == "T", "it was not suspended")
            with pytest.raises(Unreachable, match="suspended"):
                await reach.push(session, "anyone there?", "alice")
            os.kill(pid, signal.SIGKILL)
            await eventually(lambda: sessions.over == [session.session], "its end was not told", timeout=BOUND)
        async with home.terminal("--resume", session.session) as terminal:
            again = await sessions.only("idle")
            assert again.session == session.session
            home.rig.play([Say("I am back.")])
            await reach.push(again, "welcome back", "alice")
            await terminal.shows("I am back.")
        assert "anyone there?" not in home.rig.heard()


@pytest.mark.real
async def test_a_session_that_we_drive_is_not_told_of(tmp_path: Path) -> None:
    async with claude_code_home(tmp_path, BINARIES) as home, reached(home.home) as (_, sessions), home.terminal():
        session = await sessions.only("idle")
        home.rig.play([Say("Driven.")])
        assert isinstance(home.rig, ClaudeCodeRig)
        async with tieline.open_session(home.rig.driver, cwd=home.project, env=dict(home.env)) as driven:
            async for _event in driven.turn("hello"):
                pass
        assert list(sessions.running) == [session.session]
        assert not sessions.over


@pytest.mark.real
async def test_a_message_to_a_member_wakes_its_terminal_also_after_a_restart_of_the_hub(tmp_path: Path) -> None:
    async with claude_code_home(tmp_path, BINARIES) as home:
        options = InstallOptions(env=home.env, program="/nowhere/tieline", python=sys.executable)
        installer.apply(installer.plan_install(ClaudeCode(), options), home.env)
        config = Config(environ={**home.env, "TIELINE_HOME": str(tmp_path / "state")}, hub=HubConfig(port=0))
        async with home.terminal() as terminal:
            async with hub_on(config) as (hub, _):
                assert hub.mesh is not None
                member = await present(lambda: hub.mesh.directory.members() if hub.mesh else [])
                assert (member.harness, member.activity) == ("claude-code", "idle")
                home.rig.play([Say("The first has come.")])
                sent = await hub.mesh.send_message(OWNER, member.id, "the first message")
                await terminal.shows("The first has come.")
                await injected(hub.mesh, sent.id)
            async with hub_on(config) as (hub, _):
                assert hub.mesh is not None
                again = await present(lambda: hub.mesh.directory.members() if hub.mesh else [])
                assert again.id == member.id
                home.rig.play([Say("The second has come.")])
                await hub.mesh.send_message(OWNER, member.id, "the second message")
                await terminal.shows("The second has come.")
        assert str(home.rig.model.requests[-1]).count("the first message") == 1


async def present(members: Callable[[], list[MemberView]]) -> MemberView:
    """The agent of the terminal, once it is there and idle."""

    def agents() -> list[MemberView]:
        return [member for member in members() if member.kind == "agent" and member.activity == "idle"]

    await eventually(lambda: bool(agents()), "no agent is there", timeout=BOUND)
    (member,) = agents()
    return member


async def injected(mesh: Mesh, message: str) -> None:
    async with asyncio.timeout(BOUND):
        while not (await mesh.message_status(OWNER, message)).injected_at:  # noqa: ASYNC110 (receipts are looked up)
            await asyncio.sleep(0.05)


def process_of(home: HarnessHome) -> int:
    (file,) = (home.home / ".claude/sessions").glob("*.json")
    return int(file.stem)


def state(pid: int) -> str:
    process = process_info(pid)
    return process.state if process else ""


# --- files and sockets that are not what they say ---------------------------------------------------------------


def write_session(home: Path, socket: Path, *, pid: int = 0, **facts: Any) -> None:
    """The file of a session whose process is this one, or another."""
    pid = pid or os.getpid()
    process = process_info(pid)
    record = {
        "pid": pid,
        "sessionId": "s1",
        "cwd": "/somewhere",
        "procStart": str(process.start if process else 0),
        "kind": "interactive",
        "entrypoint": "cli",
        "messagingSocketPath": str(socket),
        "status": "idle",
        **facts,
    }
    folder = home / ".claude" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{pid}.json").write_bytes(msgspec.json.encode(record))


class Inbox:
    """A socket where Claude Code would have one."""

    def __init__(self, home: Path) -> None:
        self.path = home / "cc-socks" / f"{os.getpid()}.sock"
        self.path.parent.mkdir(parents=True)
        self.received = b""
        self.refuses = False

    async def __aenter__(self) -> "Inbox":
        self._server = await asyncio.start_unix_server(self._serve, self.path, limit=2 * MAX_LINE)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received += await reader.readline()
        if not self.refuses:
            await reader.read()
        writer.close()


async def test_what_is_refused_was_not_taken(tmp_path: Path) -> None:
    async with Inbox(tmp_path) as inbox:
        write_session(tmp_path, inbox.path)
        async with reached(tmp_path) as (reach, sessions):
            session = await sessions.only("idle")
            await reach.push(session, "hello", "alice")
            assert msgspec.json.decode(inbox.received)["message"] == {"role": "user", "content": "hello"}
            inbox.refuses = True
            with pytest.raises(Unreachable, match="takes no messages"):
                await reach.push(session, "hello", "alice")
            with pytest.raises(Unreachable, match="longer than Claude Code takes"):
                await reach.push(session, "x" * MAX_LINE, "alice")


async def test_the_socket_of_another_process_is_not_spoken_to(tmp_path: Path) -> None:
    async with Inbox(tmp_path) as inbox:
        other = await asyncio.create_subprocess_exec("sleep", "60")
        try:
            socket = inbox.path.with_name(f"{other.pid}.sock")
            inbox.path.rename(socket)
            write_session(tmp_path, socket, pid=other.pid)
            async with reached(tmp_path) as (reach, sessions):
                session = await sessions.only("idle")
                with pytest.raises(Unreachable, match="another process"):
                    await reach.push(session, "a secret", "alice")
        finally:
            other.kill()
            await other.wait()
        assert not inbox.received


@pytest.mark.parametrize(
    "facts",
    [
        {"kind": "background"},
        {"entrypoint": "sdk-py"},
        {"procStart": "1"},
        {"pid": 1},
        {"messagingSocketPath": "/run/user/0/bus"},
        {"sessionId": None},
    ],
    ids=str,
)
async def test_other_files_are_no_session_of_a_person(tmp_path: Path, facts: dict[str, Any]) -> None:
    write_session(tmp_path, tmp_path / "cc-socks" / f"{os.getpid()}.sock", **facts)
    async with reached(tmp_path) as (_, sessions):
        parent = os.getppid()
        write_session(tmp_path, tmp_path / "cc-socks" / f"{parent}.sock", pid=parent, sessionId="a person's")
        assert (await sessions.only("idle")).session == "a person's"


@pytest.mark.slow
async def test_a_session_below_an_agent_of_ours_is_not_told_of(tmp_path: Path) -> None:
    async with Process.start(["sleep", "60"], cwd=tmp_path, env={"PATH": os.defpath}) as agent:
        write_session(tmp_path, tmp_path / "cc-socks" / f"{agent.pid}.sock", pid=agent.pid)
        async with reached(tmp_path) as (_, sessions):
            parent = os.getppid()
            write_session(tmp_path, tmp_path / "cc-socks" / f"{parent}.sock", pid=parent, sessionId="a person's")
            assert (await sessions.only("idle")).session == "a person's"


async def test_a_file_that_is_just_being_written_is_no_end(tmp_path: Path) -> None:
    socket = tmp_path / "cc-socks" / f"{os.getpid()}.sock"
    write_session(tmp_path, socket)
    async with reached(tmp_path) as (_, sessions):
        await sessions.only("idle")
        file = tmp_path / f".claude/sessions/{os.getpid()}.json"
        file.write_bytes(file.read_bytes()[:40])
        other = tmp_path / "cc-socks" / f"{os.getppid()}.sock"
        write_session(tmp_path, other, pid=os.getppid(), sessionId="s2")
        await eventually(lambda: "s2" in sessions.running, "the other was not told of", timeout=BOUND)
        write_session(tmp_path, socket, status="busy")
        await eventually(lambda: "working" in sessions.activities, "it was never told to work", timeout=BOUND)
        assert not sessions.over


async def test_an_activity_that_could_not_be_noted_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file does not change any more: nobody would learn that the session is idle, and wake it."""
    monkeypatch.setattr(session_file_connector, "LOOK_S", 0.05)
    write_session(tmp_path, tmp_path / "cc-socks" / f"{os.getpid()}.sock")
    sessions, activities = ToldSessions(), list[str]()

    async def fail_first(session: HarnessSession) -> None:
        activities.append(session.activity)
        if len(activities) > 1:
            await ToldSessions.changed(sessions, session)
        else:
            raise BusUnavailable("no server answers")

    monkeypatch.setattr(sessions, "changed", fail_first)
    async with ClaudeCodeConnector({"HOME": str(tmp_path)}).open(sessions):
        await sessions.only("idle")
    assert activities == ["idle", "idle"]


async def test_without_claude_code_nothing_happens(tmp_path: Path) -> None:
    async with reached(tmp_path) as (reach, sessions):
        with pytest.raises(Unreachable, match="has ended"):
            await reach.push(HarnessSession(harness="claude-code", session="none"), "hello", "alice")
    assert not sessions.running
