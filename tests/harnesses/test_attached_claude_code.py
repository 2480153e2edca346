"""A person's Claude Code in a real terminal, read along, answered and prompted from elsewhere."""

import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.harnesses.prompt_ends import prompt_status

from tieline.bootstrap.daemon import hub_on
from tieline.config import Config, HubConfig
from tieline.events import Answer, Done, Event, Init, Status, Text, ToolResult, ToolUse, TurnStarted
from tieline.harnesses import installer
from tieline.harnesses.attach_consent import agree
from tieline.harnesses.base import InstallOptions
from tieline.harnesses.claude_code.integration import ClaudeCode
from tieline.script import Inquire, Run, Say
from tieline.sessions.ask_rules import AskRule
from tieline.sessions.attached_session import AT_THE_TERMINAL
from tieline.sessions.manager import SessionManager
from tieline.sessions.records import AskRecord, SessionRecord
from tieline.testing.harness_terminals import HarnessHome, claude_code_home
from tieline.testing.wait_for import eventually, soon

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"
BOUND = 120.0


class Rig:
    def __init__(self, home: HarnessHome, config: Config) -> None:
        self.home = home
        self.config = config

    @asynccontextmanager
    async def manager(self) -> AsyncGenerator[SessionManager, None]:
        async with hub_on(self.config) as (hub, _):
            assert hub.local is not None
            yield hub.local.manager


@asynccontextmanager
async def installed(root: Path) -> AsyncGenerator[Rig, None]:
    async with claude_code_home(root, BINARIES) as home:
        env = {**home.env, "TIELINE_HOME": str(root / "state")}
        options = InstallOptions(env=env, program="/nowhere/tieline", python=sys.executable, attach=True)
        installer.apply(installer.plan_install(ClaudeCode(), options), env)
        yield Rig(home, Config(environ=env, hub=HubConfig(port=0)))


async def session_of(manager: SessionManager, status: str = "idle") -> SessionRecord:
    """The only session, once it is like that."""
    await eventually(
        lambda: [record.status for record in manager.sessions()] == [status], f"no session is {status}", timeout=BOUND
    )
    return manager.sessions()[0]


async def pending(manager: SessionManager) -> AskRecord:
    await eventually(lambda: len(manager.asks.pending()) == 1, "nothing is asked", timeout=BOUND)
    return manager.asks.pending()[0]


async def nothing_pending(manager: SessionManager) -> None:
    await eventually(lambda: not manager.asks.pending(), "an ask is still pending", timeout=BOUND)


async def answer(manager: SessionManager, decision: str, **more: object) -> None:
    ask = await pending(manager)
    assert decision in ("allow", "deny")
    await manager.answer(ask.id, Answer(ask.id, decision, by="alice", **more))  # type: ignore[arg-type]


async def turns(manager: SessionManager, id: str, count: int) -> list[Event]:
    """The log, once so many turns have ended."""
    await eventually(lambda: manager.get(id).turns == count, f"there were not {count} turns", timeout=BOUND)
    return [entry.event async for entry in manager.events(id, follow=False)]


def once(events: list[Event]) -> None:
    """No event is there twice."""
    ids = [(type(event), event.id) for event in events if isinstance(event, ToolUse | ToolResult | TurnStarted)]
    ids += [(Text, event.item) for event in events if isinstance(event, Text)]
    assert len(ids) == len(set(ids))
    assert sum(isinstance(event, Init) for event in events) == 1


@pytest.mark.real
async def test_a_terminal_is_read_answered_and_prompted_from_elsewhere(tmp_path: Path) -> None:
    async with installed(tmp_path) as rig, rig.manager() as manager:
        play = rig.home.rig.play
        agree(rig.config.environ, "claude-code")
        async with rig.home.terminal() as terminal:
            session = await session_of(manager)
            assert (session.kind, session.agent, session.cwd) == ("attached", "claude-code", str(rig.home.project))

            play([Say("I will."), Run("touch one")], [Say("It was allowed.")])
            await terminal.submit("touch a file")
            ask = await pending(manager)
            assert ask.ask.tool
            assert ask.ask.action is not None
            assert "touch one" in str(ask.ask.action)
            assert manager.get(session.id).status == "waiting"
            await answer(manager, "allow")
            await terminal.shows("It was allowed.")
            events = await turns(manager, session.id, 1)
            assert [type(event).__name__ for event in events] == [
                "TurnStarted", "Init", "Text", "ToolUse", "Ask", "Answer", "ToolResult", "Text", "Done",
            ]  # fmt: skip
            assert isinstance(events[0], TurnStarted)
            assert events[0].prompt == "touch a file"
            assert (rig.home.project / "one").exists()

            play([Run("touch two")], [Say("It was denied.")])
            await terminal.submit("touch another")
            await answer(manager, "deny", reason="not on a Friday")
            await terminal.shows("It was denied.")
            assert "not on a Friday" in rig.home.rig.heard()
            events = await turns(manager, session.id, 2)
            assert [event.status for event in events if isinstance(event, ToolResult)] == ["ok", "denied"]

            # The terminal decides first: it runs on, and the ask is settled before the command has ended.
            play([Run("touch begun; until test -e go; do sleep 0.1; done")], [Say("It was waited for.")])
            await terminal.submit("wait for it")
            await pending(manager)
            waiting = await manager.prompt(session.id, "a prompt from the phone", id="p1")
            await terminal.answer("Do you want to proceed?", "Enter")
            await nothing_pending(manager)
            await manager.steer(session.id, "and be quick")
            play([Say("Hello, phone.")])
            (rig.home.project / "go").touch()
            await terminal.shows("Hello, phone.")
            assert "and be quick" in rig.home.rig.heard()
            assert "a prompt from the phone" in await terminal.screen()
            events = await turns(manager, session.id, 4)
            (begun,) = (event for event in events if isinstance(event, TurnStarted) and event.id == waiting.id)
            assert begun.prompt == "a prompt from the phone", "without what Claude Code writes around it"
            answers = [(event.by, event.decision) for event in events if isinstance(event, Answer)]
            assert answers == [("alice", "allow"), ("alice", "deny"), (AT_THE_TERMINAL, "allow")]
            assert [event.detail for event in events if isinstance(event, Status)] == ["and be quick"]
            assert await prompt_status(manager, session.id, waiting.id) == "done"
            once(events)

            # A rule decides: nobody is asked, and the terminal says so.
            project = str(rig.home.project)
            await manager.rules.keep_joined(
                "hub",
                (
                    AskRule(id="r1", match="prefix", pattern="touch", directory=project, made_by="anna"),
                    AskRule(id="r2", match="exact", pattern="touch four", decision="deny", made_by="anna"),
                ),
            )
            play([Run("touch three")], [Run("touch four")], [Say("The rules have spoken.")])
            await terminal.submit("touch by the rules")
            await terminal.shows("The rules have spoken.")
            await terminal.shows("Allowed by PermissionRequest hook")
            await terminal.shows("a rule says: deny the command")
            events = await turns(manager, session.id, 5)
            ruled = [(event.decision, event.rule) for event in events if isinstance(event, Answer) and event.rule]
            assert ruled == [("allow", "r1"), ("deny", "r2")]
            assert ((rig.home.project / "three").exists(), (rig.home.project / "four").exists()) == (True, False)
            assert "made by anna" in rig.home.rig.heard(), "the agent hears why it was denied"
            await manager.rules.forget_joined()

            play([Inquire("Which colour?", ("red", "blue"), "Colour")], [Say("Blue it is.")])
            await terminal.submit("ask me")
            question = await pending(manager)
            assert question.ask.kind == "question"
            await answer(manager, "allow", answers={question.ask.questions[0].id: ("blue",)})
            await terminal.shows("Blue it is.")

            play([Run("touch never")])
            await terminal.submit("touch the last")
            await pending(manager)
            (file,) = (rig.home.home / ".claude/sessions").glob("*.json")
            await turns(manager, session.id, 6)
            os.kill(int(file.stem), signal.SIGKILL)
            await soon(lambda: manager.get(session.id).status == "closed", "it is not closed", within=5)
            assert not manager.asks.pending()
            events = await turns(manager, session.id, 7)
            assert isinstance(events[-1], Done)
            assert events[-1].status == "interrupted"
            once(events)
