"""Codex in a person's terminal as a session of ours, with the real Codex in a real terminal."""

import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harnesses.prompt_ends import prompt_status

from tieline import paths
from tieline.bus import open_bus
from tieline.config import Config
from tieline.errors import UsageError
from tieline.events import Answer, Command, Done, Event, Init, Text, ToolResult, ToolUse, TurnStarted
from tieline.harnesses.attach_consent import CurrentConsent, agree, switch
from tieline.harnesses.codex.daemon_connector import CodexDaemonConnector
from tieline.mesh.push import HarnessSession
from tieline.script import Call, Inquire, Run, Say
from tieline.sessions.attached_session import AT_THE_TERMINAL
from tieline.sessions.attacher import Attacher
from tieline.sessions.manager import SessionManager
from tieline.sessions.pending_asks import AlreadyAnswered
from tieline.sessions.records import AskRecord, SessionRecord
from tieline.testing.harness_terminals import HarnessHome, codex_home
from tieline.testing.tmux_terminal import TmuxTerminal
from tieline.testing.wait_for import eventually, soon
from tieline.wire.jsonrpc import Peer, PeerGone

pytestmark = pytest.mark.real

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"
BOUND = 60.0
TRUE_S = 5.0
"""What is told of a session is true after this time."""


class Attached:
    """The sessions of a node, with the terminals of Codex that are read along."""

    def __init__(self, manager: SessionManager) -> None:
        self.manager = manager
        self.seen: list[str] = []  # activities, as the mesh is told them

    async def changed(self, session: HarnessSession) -> None:
        self.seen.append(session.activity)

    async def ended(self, session: HarnessSession) -> None: ...

    async def session(self, status: str, turns: int = 0) -> SessionRecord:
        """The only one, once it is like that."""

        def is_so() -> bool:
            return [(record.status, record.turns) for record in self.manager.sessions()] == [(status, turns)]

        await eventually(is_so, f"no session is {status} after {turns} turns", timeout=BOUND)
        return self.manager.sessions()[0]

    async def ask(self) -> AskRecord:
        await eventually(lambda: bool(self.manager.asks.pending()), "nothing is asked", timeout=BOUND)
        return self.manager.asks.pending()[0]

    async def status(self, id: str, status: str, *, within: float = BOUND) -> SessionRecord:
        await soon(lambda: self.manager.get(id).status == status, f"it is not {status}", within=within)
        return self.manager.get(id)

    async def events(self, id: str = "") -> list[Event]:
        """Of the only one, if none is named."""
        id = id or self.manager.sessions()[0].id
        return [entry.event async for entry in self.manager.events(id, follow=False)]


@asynccontextmanager
async def attached(home: HarnessHome) -> AsyncGenerator[Attached, None]:
    folder = home.home / "tieline"
    folder.mkdir(exist_ok=True)
    reach = CodexDaemonConnector(home.env)
    async with (
        open_bus(f"sqlite://{folder / 'bus.db'}") as bus,
        SessionManager(bus, Config(environ=dict(home.env)), node="here") as manager,
    ):
        reach.attacher = Attacher(manager, CurrentConsent(home.env))
        here = Attached(manager)
        async with reach.open(here):
            yield here


def escalated(command: str) -> Call:
    return Call("exec_command", {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "May I?"})


async def asked(terminal: TmuxTerminal, command: str) -> None:
    """Its own prompt takes keys."""
    marks = ("May I?", command, "esc")
    await terminal.until(lambda screen: all(mark in screen for mark in marks), "it asks")


async def test_a_terminals_turns_asks_and_prompts_are_a_sessions(tmp_path: Path) -> None:
    async with codex_home(tmp_path, BINARIES) as home:
        agree(home.env, "codex")
        async with attached(home) as here, home.terminal() as terminal:
            manager = here.manager
            session = await here.session("idle")
            assert (session.kind, session.agent, session.cwd) == ("attached", "codex", str(home.project))
            home.rig.play([Run("echo hi")], [Say("The first is over.")])
            await terminal.submit("run echo")
            session = await here.session("idle", 1)
            events = await here.events()
            init, started, use, result = events[:4]
            assert isinstance(init, Init)
            assert init.native_id == session.native_id
            assert isinstance(started, TurnStarted)
            assert started.prompt == "run echo"
            assert isinstance(use, ToolUse)
            assert result == ToolResult(use.id, "ok", "hi\n")
            assert [event.text for event in events if isinstance(event, Text)] == ["The first is over."]
            done = events[-1]
            assert isinstance(done, Done)
            assert (done.status, done.text) == ("success", "The first is over.")

            home.rig.play([escalated("touch allowed")], [Say("The second is over.")])
            prompt = await manager.prompt(session.id, "touch a file")
            await terminal.shows("touch a file")
            ask = await here.ask()
            assert isinstance(ask.ask.action, Command)
            assert "touch allowed" in ask.ask.action.command
            await terminal.shows("May I?")
            waiting = await manager.prompt(session.id, "touch another")
            home.rig.play([escalated("touch refused")], [Say("The third is over.")])
            await manager.answer(ask.id, Answer(ask.id, "allow", by="alice"))
            await terminal.shows("The second is over.")
            assert (home.project / "allowed").exists()
            ask = await here.ask()
            assert await prompt_status(manager, session.id, prompt.id) == "done"
            await manager.answer(ask.id, Answer(ask.id, "deny", by="alice", reason="that file is mine"))
            await terminal.shows("The third is over.")
            await here.session("idle", 3)
            assert await prompt_status(manager, session.id, waiting.id) == "done"
            assert "that file is mine" in home.rig.heard()
            assert ToolResult(ask.ask.tool, "denied", "that file is mine") in await here.events()

            home.rig.play([escalated("touch typed")], [Say("The fourth is over.")])
            await terminal.submit("touch a third")
            ask = await here.ask()
            await asked(terminal, "touch typed")
            await terminal.answer("May I?", "y")
            await here.session("idle", 4)
            assert (home.project / "typed").exists()
            with pytest.raises(AlreadyAnswered, match="answered by terminal: allow"):
                await manager.answer(ask.id, Answer(ask.id, "deny", by="alice"))
            home.rig.play([escalated("touch declined")])
            await terminal.submit("touch a fourth")
            ask = await here.ask()
            await asked(terminal, "touch declined")
            await terminal.answer("May I?", "n")
            await here.session("idle", 5)
            with pytest.raises(AlreadyAnswered, match="answered by terminal: deny"):
                await manager.answer(ask.id, Answer(ask.id, "allow", by="alice"))

            wait, on = "touch waits; while [ ! -e go ]; do sleep 0.1; done", "touch on; while true; do sleep 0.1; done"
            home.rig.play([Run(wait)], [Run(on)])
            await terminal.submit("wait for the file")
            await eventually((home.project / "waits").exists, "it does not wait", timeout=BOUND)
            await manager.steer(session.id, "news in between")
            (home.project / "go").touch()
            await eventually((home.project / "on").exists, "it does not go on", timeout=BOUND)
            assert "news in between" in home.rig.heard()
            assert await manager.abort(session.id)
            await here.session("idle", 6)

            await terminal.submit("/plan")
            await terminal.shows("Plan mode")
            home.rig.play([Inquire("Which colour?", ("red", "blue"))], [Say("The last is over.")])
            await terminal.submit("ask me")
            ask = await here.ask()
            await terminal.shows("Which colour?")
            answers = {ask.ask.questions[0].id: ("blue",)}
            await manager.answer(ask.id, Answer(ask.id, "allow", by="alice", answers=answers))
            await terminal.shows("The last is over.")
            await here.session("idle", 7)
            assert r"[\"blue\"]" in home.rig.heard()
            events = await here.events()
            outcomes = [event.status for event in events if isinstance(event, Done)]
            assert outcomes == ["success"] * 4 + ["interrupted"] * 2 + ["success"]
            decisions = [event for event in events if isinstance(event, Answer)]
            assert [(answer.decision, answer.by) for answer in decisions] == [
                ("allow", "alice"),
                ("deny", "alice"),
                ("allow", AT_THE_TERMINAL),
                ("deny", AT_THE_TERMINAL),
                ("allow", "alice"),
            ]
            assert each_once(events)


async def test_each_event_once_when_the_hub_was_away_and_no_ask_outlives_its_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with codex_home(tmp_path, BINARIES) as home:
        agree(home.env, "codex")
        async with home.terminal() as terminal:
            async with attached(home) as here:
                await here.session("idle")
                home.rig.play([Run("echo hi")], [escalated("touch allowed")], [Say("The first is over.")])
                await terminal.submit("run echo")
                first = await here.ask()
            home.rig.play([Say("The second is over.")])
            async with attached(home) as here:
                ask = await here.ask()
                assert ask.id != first.id
                assert ask.ask.input == first.ask.input
                await here.manager.answer(ask.id, Answer(ask.id, "allow", by="alice"))
                await here.session("idle", 1)
                assert (home.project / "allowed").exists()
                assert each_once(await here.events())
            await terminal.submit("once more")
            await terminal.shows("The second is over.")
            async with attached(home) as here:
                session = await here.session("idle", 2)
                events = await here.events()
                assert each_once(events)
                assert [event.prompt for event in events if isinstance(event, TurnStarted)] == ["run echo", "once more"]
                home.rig.play([escalated("touch never")])
                await here.manager.prompt(session.id, "touch a file")
                await here.ask()
                await terminal.kill()
                await here.status(session.id, "closed", within=TRUE_S)
                await here.session("closed", 3)
                assert not here.manager.asks.pending()
                events = await here.events()
                assert isinstance(events[-1], Done)
                assert each_once(events)

                # It dies in the moment in which it has the daemon let go of the conversation.
                monkeypatch.setattr(Peer, "request", dies_before("thread/unarchive"))
                with pytest.raises(UsageError, match="did not release"):
                    await here.manager.adopt(session.id)
                assert archived(home)
            monkeypatch.undo()
            async with attached(home) as here:
                noted = paths.state(home.env) / "codex-archived.json"
                await eventually(lambda: noted.read_text() == "[]", "nobody brings it back", timeout=BOUND)
                assert not archived(home)
                assert (await here.manager.adopt(session.id)).kind == "driven"
                assert not archived(home)


def dies_before(last: str) -> Callable[..., Awaitable[Any]]:
    request = Peer.request

    async def until_then(peer: Peer, method: str, params: dict[str, Any], *, timeout: float) -> Any:
        if method == last:
            raise PeerGone("killed")
        return await request(peer, method, params, timeout=timeout)

    return until_then


def archived(home: HarnessHome) -> list[Path]:
    return list(home.home.glob(".codex/archived_sessions/**/*.jsonl*"))


async def test_each_event_once_over_another_daemon_and_each_terminal_has_its_own_end(tmp_path: Path) -> None:
    async with codex_home(tmp_path, BINARIES) as home, AsyncExitStack() as stack:
        agree(home.env, "codex")
        here = await stack.enter_async_context(attached(home))
        manager = here.manager
        terminal = await stack.enter_async_context(home.terminal())
        first = (await here.session("idle")).id
        home.rig.play([Run("echo hi")], [escalated("touch never")])
        await terminal.submit("run echo")
        await here.ask()
        daemon = msgspec.json.decode((home.home / ".codex/app-server-daemon/daemon.pid").read_bytes())["pid"]
        os.kill(daemon, signal.SIGKILL)
        await here.status(first, "closed", within=TRUE_S)
        assert not manager.asks.pending(), "nobody can answer it"
        last = (await here.events())[-1]
        assert isinstance(last, Done) and last.status == "interrupted"

        # The next terminal starts another daemon, and the first one connects to it.
        home.rig.play([Say("It goes on.")])
        another = await stack.enter_async_context(home.terminal())
        await eventually(lambda: len(manager.sessions()) == 2, "the second is not told of", timeout=BOUND)
        (second,) = (record.id for record in manager.sessions() if record.id != first)
        await here.status(first, "idle")
        await here.status(second, "idle")
        await terminal.shows("? for shortcuts")
        await terminal.submit("go on")
        await terminal.shows("It goes on.")
        await eventually(lambda: manager.get(first).turns == 2, "the turn is not told", timeout=BOUND)
        events = await here.events(first)
        assert each_once(events)
        assert [event.prompt for event in events if isinstance(event, TurnStarted)] == ["run echo", "go on"]
        assert [event.status for event in events if isinstance(event, Done)] == ["interrupted", "success"]

        # One terminal ends, the other runs on.
        await another.kill()
        await here.status(second, "closed", within=TRUE_S)
        home.rig.play([Say("Still here.")])
        await manager.prompt(first, "are you there?")
        await terminal.shows("Still here.")
        await eventually(lambda: manager.get(first).turns == 3, "the turn is not told", timeout=BOUND)
        assert manager.get(second).status == "closed"

        # Its person switches it off, in the middle of an ask: that is the terminal's alone from then on.
        home.rig.play([escalated("touch typed")], [Say("That was private.")])
        await terminal.submit("touch a file")
        await here.ask()
        switch(home.env, str(home.project), on=False)
        await here.status(first, "closed", within=TRUE_S)
        assert not manager.asks.pending()
        events = await here.events(first)
        await terminal.answer("May I?", "y")
        await terminal.shows("That was private.")
        await eventually(lambda: here.seen[-1] == "idle", "the mesh is not told that it is idle", timeout=BOUND)
        assert (home.project / "typed").exists()
        assert await here.events(first) == events
        assert each_once(events)


async def test_without_consent_nothing_is_read(tmp_path: Path) -> None:
    async with codex_home(tmp_path, BINARIES) as home, home.terminal() as terminal:
        for consent in ("none", "off"):
            if consent == "off":
                agree(home.env, "codex", now=0.0)
                switch(home.env, str(home.project), on=False)
            async with attached(home) as here:
                await eventually(lambda: here.seen == ["idle"], "it was never seen", timeout=BOUND)
                home.rig.play([escalated(f"touch {consent}")], [Say(f"{consent} is over.")])
                await terminal.submit(f"touch {consent}")
                await asked(terminal, f"touch {consent}")
                await terminal.answer("May I?", "y")
                await terminal.shows(f"{consent} is over.")
                await eventually(lambda: here.seen[-2:] == ["working", "idle"], "it is not idle", timeout=BOUND)
                assert not here.manager.sessions()


def each_once(events: list[Event]) -> bool:
    keys = [(event.type, event.id) for event in events if isinstance(event, ToolUse | ToolResult)]
    keys += [(event.type, event.item) for event in events if isinstance(event, Text)]
    keys += [(event.type, event.prompt) for event in events if isinstance(event, TurnStarted)]
    starts = sum(isinstance(event, TurnStarted) for event in events)
    ends = sum(isinstance(event, Done) for event in events)
    return len(keys) == len(set(keys)) and starts == ends and sum(isinstance(event, Init) for event in events) == 1
