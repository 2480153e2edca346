"""The way into Codex's terminals, with the real Codex in a real terminal."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.harnesses.told_sessions import ToldSessions

import tieline
from tieline.backoff import Backoff
from tieline.harnesses.codex import daemon_connector
from tieline.harnesses.codex.daemon_connector import CodexDaemonConnector
from tieline.mesh.push import HarnessSession, Unreachable
from tieline.script import Call, Run, Say
from tieline.testing.harness_terminals import HarnessHome, codex_home
from tieline.testing.rigs.codex import CodexRig
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.real

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"
BOUND = 120.0


@asynccontextmanager
async def reached(home: HarnessHome) -> AsyncGenerator[tuple[CodexDaemonConnector, ToldSessions], None]:
    sessions, reach = ToldSessions(), CodexDaemonConnector(home.env)
    async with reach.open(sessions):
        yield reach, sessions


async def test_an_idle_terminal_wakes_and_its_presence_is_told(tmp_path: Path) -> None:
    async with (
        codex_home(tmp_path, BINARIES) as home,
        reached(home) as (reach, sessions),
        home.terminal() as terminal,
    ):
        session = await sessions.only("idle")
        assert (session.harness, session.cwd) == ("codex", str(home.project))
        home.rig.play([Say("I am awake.")])
        await reach.push(session, "wake up, Codex", "alice")
        await terminal.shows("wake up, Codex")
        await terminal.shows("I am awake.")
        await eventually(lambda: "working" in sessions.activities, "it was never told to work")
        await sessions.only("idle")
        await terminal.quit()
        await eventually(lambda: sessions.over == [session.session], "its end was not told")
        assert '"originator":"codex-tui"' in rollout(home)  # the daemon did not take our name for its own


async def test_a_message_gets_into_a_running_turn(tmp_path: Path) -> None:
    async with (
        codex_home(tmp_path, BINARIES) as home,
        reached(home) as (reach, sessions),
        home.terminal() as terminal,
    ):
        await sessions.only("idle")
        home.rig.play([Run("touch runs; while [ ! -e go ]; do sleep 0.1; done")], [Say("The turn is over.")])
        await terminal.submit("wait for the file")
        session = await sessions.only("working")
        await eventually((home.project / "runs").exists, "its command was not run")  # before, words begin the turn
        await reach.push(session, '<message id="m-1">news in between</message>', "alice")
        assert await reach.taken(session, {"m-1"}) == set()  # it is in memory only
        assert "news in between" not in home.rig.heard()  # the tool is not interrupted
        (home.project / "go").touch()
        await terminal.shows("The turn is over.")
        await sessions.only("idle")
        assert "news in between" in home.rig.heard()
        assert await reach.taken(session, {"m-1", "m-2"}) == {"m-1"}


async def test_its_permission_prompt_is_left_to_the_terminal(tmp_path: Path) -> None:
    async with (
        codex_home(tmp_path, BINARIES) as home,
        reached(home) as (reach, sessions),
        home.terminal() as terminal,
    ):
        session = await sessions.only("idle")
        beyond = {"cmd": "touch allowed", "sandbox_permissions": "require_escalated", "justification": "May I?"}
        home.rig.play([Call("exec_command", beyond)], [Say("It was allowed.")])
        await reach.push(session, "touch a file", "alice")
        await terminal.shows("May I?")
        await sessions.only("working")
        await terminal.answer("May I?", "y")
        await terminal.shows("It was allowed.")
        assert (home.project / "allowed").exists()


async def test_a_daemon_that_is_killed_ends_its_sessions_and_takes_no_push(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        daemon_connector, "RETRY", Backoff(0.1, 0.5)
    )  # trying to connect again does not put the end off
    async with codex_home(tmp_path, BINARIES) as home, reached(home) as (reach, sessions), home.terminal():
        session = await sessions.only("idle")
        pid = msgspec.json.decode((home.home / ".codex/app-server-daemon/daemon.pid").read_bytes())["pid"]
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Unreachable):
            for _ in range(1000):
                await reach.push(session, "anyone there?", "alice")
                await asyncio.sleep(0)
        await eventually(lambda: sessions.over == [session.session], "its end was not told", timeout=BOUND)


async def test_a_session_that_we_drive_is_not_told_of(tmp_path: Path) -> None:
    async with codex_home(tmp_path, BINARIES) as home, reached(home) as (_, sessions), home.terminal():
        session = await sessions.only("idle")
        home.rig.play([Say("Driven.")])
        assert isinstance(home.rig, CodexRig)
        async with tieline.open_session(home.rig.driver, cwd=home.project, env=dict(home.env)) as driven:
            async for _event in driven.turn("hello"):
                pass
        assert list(sessions.running) == [session.session]
        assert not sessions.over


async def test_without_codex_nothing_happens(tmp_path: Path) -> None:
    sessions, reach = ToldSessions(), CodexDaemonConnector({"HOME": str(tmp_path)})
    async with reach.open(sessions):
        with pytest.raises(Unreachable, match="not running"):
            await reach.push(HarnessSession(harness="codex", session="none"), "hello", "alice")
    assert not sessions.running


def rollout(home: HarnessHome) -> str:
    return "".join(path.read_text() for path in (home.home / ".codex/sessions").rglob("*.jsonl"))
