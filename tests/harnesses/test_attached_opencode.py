"""A person's own OpenCode terminal as a session of ours: read along, answered, prompted, steered. The real OpenCode in
a real terminal, with what `tieline install` writes, at a real hub."""

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.harnesses.prompt_ends import prompt_status
from tests.harnesses.test_opencode_connector import BOUND, only, opencode_in
from tests.mesh.mcp_clients import MeshHub, mesh_hub

from tieline.events import Answer, Ask, Command, Done, Event, Init, Text, ToolResult, ToolUse, TurnStarted
from tieline.harnesses.attach_consent import agree, switch
from tieline.script import Inquire, Run, Say, Stall
from tieline.sessions.ask_rules import AskRule
from tieline.sessions.attached_session import AT_THE_TERMINAL, AttachedSession
from tieline.sessions.manager import SessionManager
from tieline.sessions.records import AskRecord
from tieline.testing.harness_terminals import HarnessHome
from tieline.testing.wait_for import eventually, soon

pytestmark = pytest.mark.real

PERSON = "ann"
TRUE_S = 5.0
"""What is told of a session is true after this time."""


@asynccontextmanager
async def asking_home(path: Path) -> AsyncGenerator[HarnessHome, None]:
    """Its OpenCode asks before it runs a command, and its person lets Tieline read along."""
    async with opencode_in(path) as home:
        (home.project / "opencode.json").write_bytes(msgspec.json.encode({"permission": {"bash": "ask"}}))
        agree({"HOME": str(home.home), "TIELINE_HOME": str(path / "state")}, "opencode")
        yield home


def manager_of(hub: MeshHub) -> SessionManager:
    assert hub.hub.local is not None
    return hub.hub.local.manager


async def attached(manager: SessionManager) -> AttachedSession:
    """The only one."""
    await eventually(lambda: len(manager.attached("opencode")) == 1, "no session is attached", timeout=BOUND)
    return manager.attached("opencode")[0]


async def turns(manager: SessionManager, session: str, number: int) -> list[Event]:
    """The events of the session, once so many turns are over."""
    await eventually(
        lambda: manager.get(session).turns == number,
        f"{number} turns are not over: {manager.get(session)}",
        timeout=BOUND,
    )
    return [entry.event async for entry in manager.events(session, follow=False)]


async def asked(manager: SessionManager) -> AskRecord:
    await eventually(lambda: len(manager.asks.pending()) == 1, "nothing is asked", timeout=BOUND)
    return manager.asks.pending()[0]


async def test_a_terminal_is_read_along_answered_prompted_and_steered(tmp_path: Path) -> None:
    async with asking_home(tmp_path) as home, mesh_hub(tmp_path) as hub, home.terminal() as terminal:
        manager = manager_of(hub)
        # Its permission prompt is answered from elsewhere, and its turn is in the log.
        home.rig.play([Run("echo one > one.txt")], [Say("It ran.")])
        await terminal.submit("run the first")
        ask = await asked(manager)
        session = (await attached(manager)).record.id
        assert (ask.session, ask.ask.action, ask.ask.kind) == (session, Command("echo one > one.txt"), "permission")
        assert manager.get(session).status == "waiting"
        await terminal.shows("Permission required")
        await manager.answer(ask.id, Answer(ask.id, "allow", by=PERSON, via="phone"))
        await terminal.shows("Allowed by ann (phone)")
        await terminal.shows("It ran.")
        events = await turns(manager, session, 1)
        assert (home.project / "one.txt").exists()
        started, init, use, request, answer, result, text, done = (
            event for event in events if event.type not in ("usage", "diff")
        )
        assert isinstance(started, TurnStarted) and started.prompt == "run the first"
        assert isinstance(init, Init) and (init.cwd, init.model) == (str(home.project), "scripted/scripted")
        assert isinstance(use, ToolUse) and use.action == Command("echo one > one.txt")
        assert isinstance(request, Ask) and request.tool == use.id
        assert isinstance(answer, Answer) and (answer.decision, answer.by) == ("allow", PERSON)
        assert isinstance(result, ToolResult) and (result.id, result.status) == (use.id, "ok")
        assert isinstance(text, Text) and text.text == "It ran."
        assert isinstance(done, Done) and (done.status, done.text) == ("success", "It ran.")
        assert done.duration_s > 0
        record = manager.get(session)
        assert (record.kind, record.status, record.agent) == ("attached", "idle", "opencode")

        # The reason of a denial reaches the model.
        home.rig.play([Run("echo two > two.txt")], [Say("Then not.")])
        await terminal.submit("run the second")
        ask = await asked(manager)
        await manager.answer(ask.id, Answer(ask.id, "deny", by=PERSON, reason="use a folder of its own"))
        await terminal.shows("Then not.")
        assert "use a folder of its own" in home.rig.heard()
        events = await turns(manager, session, 2)
        assert [event.status for event in events if isinstance(event, ToolResult)] == ["ok", "denied"]

        # A rule decides: nobody is asked, and the terminal says so.
        rule = AskRule(
            id="r1", match="exact", pattern="echo ruled > ruled.txt", directory=str(home.project), made_by="ann"
        )
        await manager.rules.keep_joined("hub", (rule,))
        home.rig.play([Run("echo ruled > ruled.txt")], [Say("By the rule.")])
        await terminal.submit("run by the rule")
        await terminal.shows("By the rule.")
        events = await turns(manager, session, 3)
        assert [event.rule for event in events if isinstance(event, Answer)] == ["", "", "r1"]
        assert sum(isinstance(event, Ask) for event in events) == 2
        assert (home.project / "ruled.txt").exists()
        await manager.rules.forget_joined()

        # A prompt from elsewhere waits for the end of the turn; the person at the terminal is faster with the answer.
        home.rig.play([Run("echo three > three.txt")], [Say("The third is done.")], [Say("The prompt has come.")])
        await terminal.submit("run the third")
        await asked(manager)
        prompt = await manager.prompt(session, "from the phone", by=PERSON)
        await terminal.answer("Permission required", "Enter")
        await terminal.shows("The prompt has come.")
        events = await turns(manager, session, 5)
        assert [event.by for event in events if isinstance(event, Answer)] == [PERSON, PERSON, "rule", AT_THE_TERMINAL]
        assert not manager.asks.pending()
        assert [event.prompt for event in events if isinstance(event, TurnStarted)][3:] == [
            "run the third",
            "from the phone",
        ]
        assert "from the phone" in await terminal.screen()
        assert await prompt_status(manager, session, prompt.id) == "done"

        # A question, and words in the middle of a turn.
        home.rig.play([Inquire("Which colour?", ("Red", "Blue"))], [Say("Blue and green it is.")])
        await terminal.submit("choose")
        ask = await asked(manager)
        await manager.steer(session, "and also green")
        await terminal.shows("and also green")
        await manager.answer(ask.id, Answer(ask.id, "allow", by=PERSON, answers={"0": ("Blue",)}))
        await terminal.shows("Blue and green it is.")
        assert "and also green" in home.rig.heard() and '=\\"Blue\\"' in home.rig.heard()
        await turns(manager, session, 6)

        # It is interrupted.
        home.rig.play([Stall()])
        await terminal.submit("think for long")
        await home.rig.stalled()
        await eventually(lambda: manager.get(session).status == "working", "it does not work", timeout=BOUND)
        assert await manager.abort(session)
        last = (await turns(manager, session, 7))[-1]
        assert isinstance(last, Done) and last.status == "interrupted"

        # Its person switches it off, in the middle of an ask: that is the terminal's alone from then on.
        home.rig.play([Run("echo four > four.txt")], [Say("That was private.")])
        await terminal.submit("run the fourth")
        await asked(manager)
        switch(hub.env, str(home.project), on=False)
        await soon(lambda: manager.get(session).status == "closed", "it is not closed", within=TRUE_S)
        assert not manager.asks.pending()
        events = await turns(manager, session, 8)
        await terminal.answer("Permission required", "Enter")
        await terminal.shows("That was private.")
        await only(hub, "idle")
        assert (home.project / "four.txt").exists()
        assert await turns(manager, session, 8) == events


async def test_a_turn_goes_on_while_the_hub_is_away_and_a_killed_terminal_asks_no_more(tmp_path: Path) -> None:
    async with asking_home(tmp_path) as home, AsyncExitStack() as stack:
        async with mesh_hub(tmp_path) as hub:
            terminal = await stack.enter_async_context(home.terminal())
            home.rig.play([Run("echo one > one.txt")], [Say("It ran.")], [Say("While it was away.")])
            await terminal.submit("run the first")
            await asked(manager_of(hub))
            session = (await attached(manager_of(hub))).record.id
        await terminal.answer("Permission required", "Enter")
        await terminal.shows("It ran.")
        await terminal.submit("and the second")
        await terminal.shows("While it was away.")
        async with mesh_hub(tmp_path) as hub:
            manager = manager_of(hub)
            events = await turns(manager, session, 2)
            kinds = [event.type for event in events if event.type not in ("usage", "diff", "ask", "answer")]
            first = ["turn_started", "init", "tool_use", "tool_result", "text", "done"]
            assert kinds == [*first, "turn_started", "text", "done"]
            assert (await attached(manager)).record.id == session
            home.rig.play([Run("echo two > two.txt")])
            await terminal.submit("run the second")
            await asked(manager)
            process = (await attached(manager)).terminal
            assert process is not None
            os.kill(process.process, signal.SIGKILL)
            await soon(lambda: manager.get(session).status == "closed", "it is not closed", within=TRUE_S)
            assert not manager.asks.pending()
            last = (await turns(manager, session, 3))[-1]
            assert isinstance(last, Done) and last.status == "interrupted"


async def test_where_its_person_did_not_agree_nothing_is_read(tmp_path: Path) -> None:
    async with asking_home(tmp_path) as home, mesh_hub(tmp_path) as hub, home.terminal() as terminal:
        switch(hub.env, str(home.project), on=False)
        home.rig.play([Say("Hello.")])
        await terminal.submit("say hello")
        await terminal.shows("Hello.")
        await only(hub, "idle")
        assert not manager_of(hub).sessions()
