"""A person's Gemini CLI in a real terminal, read along: its turns, its tools and what it asks are shown elsewhere, and
decided at the terminal."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.harnesses.at_the_terminal import asks_for_commands
from tests.harnesses.desk import BOUND
from tests.harnesses.person import Person, person

from tieline.errors import TielineError
from tieline.events import Answer, Ask, Command, Done, Edit, Event, Init, Status, Text, ToolResult, ToolUse, TurnStarted
from tieline.protocol.request_bodies import Decision
from tieline.script import Run, Say, Write
from tieline.sessions.attached_session import ANSWER_THERE
from tieline.testing.tmux_terminal import TmuxTerminal
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

ASKED = "Allow once"


async def gemini(stack: AsyncExitStack, root: Path) -> Person:
    """Who is asked before a tool is used."""
    at = await person(stack, "gemini", root)
    asks_for_commands("gemini", at.home)
    return at


async def prompted(at: Person, terminal: TmuxTerminal, prompt: str, *replies: list[Run | Say | Write]) -> None:
    """Typed at the terminal, which then asks for something."""
    at.home.rig.play(*replies)
    await terminal.submit(prompt)
    await terminal.shows(ASKED)


async def turn(at: Person, terminal: TmuxTerminal, count: int, shows: str) -> list[Event]:
    """The events of the turn that ends now, the `count`-th."""
    await terminal.shows(shows)
    session = await at.session("attached", "idle", count)
    events = await at.log(session.id)
    each_once(events)
    starts = [index for index, event in enumerate(events) if isinstance(event, TurnStarted)]
    assert len(starts) == count
    return events[starts[-1] :]


def each_once(events: list[Event]) -> None:
    ids = [(event.type, event.id) for event in events if isinstance(event, ToolUse | ToolResult | TurnStarted | Ask)]
    ids += [(event.type, event.item) for event in events if isinstance(event, Text)]
    assert len(ids) == len(set(ids))
    assert sum(isinstance(event, Init) for event in events) == 1


def kinds(events: list[Event]) -> list[str]:
    """Without Gemini's notices about itself, which come whenever they do ("MCP issues detected", while no hub runs)."""
    return [type(event).__name__ for event in events if not isinstance(event, Status)]


async def test_a_terminal_is_read_and_what_it_asks_is_shown_until_it_is_decided_there(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await gemini(stack, tmp_path)
        terminal = await stack.enter_async_context(at.home.terminal())
        session = await at.session("attached", "idle", 0)
        assert (session.agent, session.cwd, session.remote) == ("gemini", str(at.home.project), ())

        at.home.rig.play([Say("Hello.")])
        await terminal.submit("say hello")
        events = await turn(at, terminal, 1, "Hello.")
        assert kinds(events) == ["TurnStarted", "Init", "Text", "Done"]
        assert isinstance(events[0], TurnStarted) and events[0].prompt == "say hello"
        assert isinstance(done := events[-1], Done)
        assert (done.status, done.text, done.native_id) == ("success", "Hello.", session.native_id)
        assert done.tokens is not None and done.tokens.output
        status, shown = await at.tieline("tail", session.id, "--no-follow")
        assert status == 0 and "say hello" in shown and "Hello." in shown, shown

        # Allowed at the terminal: its command runs, and nothing is asked any more.
        await prompted(
            at, terminal, "run it", [Say("I will."), Run("touch begun; until test -e go; do sleep 0.1; done")]
        )
        ask = await at.ask()
        assert isinstance(ask.ask.action, Command) and "until test -e go" in ask.ask.action.command
        assert (await at.session("attached", "waiting", 1)).id == session.id
        assert ask.ask.at_terminal == ANSWER_THERE
        for decision in ("allow", "deny"):
            with pytest.raises(TielineError, match="terminal"):
                await at.client.answer(ask.id, Decision(decision=decision))
        at.home.rig.play([Say("It was allowed.")])
        await terminal.answer(ASKED, "Enter")
        await at.session("attached", "working", 1)
        assert await at.client.asks() == []
        (at.home.project / "go").touch()
        events = await turn(at, terminal, 2, "It was allowed.")
        assert kinds(events) == ["TurnStarted", "Text", "ToolUse", "Ask", "Answer", "ToolResult", "Text", "Done"]
        assert answers(events) == [("terminal", "allow")]
        assert [event.status for event in events if isinstance(event, ToolResult)] == ["ok"]

        # Denied: Gemini ends the turn, and writes its history down again.
        await prompted(at, terminal, "write it", [Write("new.txt", "hello\n")])
        ask = await at.ask()
        assert isinstance(ask.ask.action, Edit) and "+hello" in ask.ask.action.diff
        await terminal.answer(ASKED, "Escape")
        events = await turn(at, terminal, 3, "Request cancelled")
        assert kinds(events) == ["TurnStarted", "ToolUse", "Ask", "Answer", "ToolResult", "Done"]
        assert answers(events) == [("terminal", "deny")]
        assert [event.status for event in events if isinstance(event, Done)] == ["interrupted"]
        assert not (at.home.project / "new.txt").exists()

        at.home.rig.play([Say("Goodbye.")])
        await terminal.submit("say goodbye")
        events = await turn(at, terminal, 4, "Goodbye.")
        assert kinds(events) == ["TurnStarted", "Text", "Done"]
        assert isinstance(events[0], TurnStarted) and events[0].prompt == "say goodbye"
        await terminal.submit("/quit")
        await at.session("attached", "closed", 4)


def answers(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.by, event.decision) for event in events if isinstance(event, Answer)]


async def test_each_event_once_when_the_hub_dies_and_the_terminal_after_it(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await gemini(stack, tmp_path)
        terminal = await stack.enter_async_context(at.home.terminal("--approval-mode", "yolo"))
        await at.session("attached", "idle", 0)
        project = at.home.project
        at.home.rig.play([Run("touch begun; until test -e go; do sleep 0.1; done")], [Say("The first has ended.")])
        await terminal.submit("the first")
        await eventually((project / "begun").exists, "its tool does not run", timeout=BOUND)
        session = await at.session("attached", "working", 0)
        await at.kill_hub()
        await at.start_hub()
        (project / "go").touch()
        events = await turn(at, terminal, 1, "The first has ended.")
        assert kinds(events) == ["TurnStarted", "Init", "ToolUse", "ToolResult", "Text", "Done"]

        # A turn of which the hub heard nothing.
        await at.kill_hub()
        at.home.rig.play([Run("touch second")], [Say("The second has ended.")])
        await terminal.submit("the second")
        await terminal.shows("The second has ended.")
        await at.start_hub()
        events = await turn(at, terminal, 2, "The second has ended.")
        assert kinds(events) == ["TurnStarted", "ToolUse", "ToolResult", "Text", "Done"]

        at.home.rig.play([Run("touch third; sleep 600")])
        await terminal.submit("the third")
        await eventually((project / "third").exists, "its tool does not run", timeout=BOUND)
        await at.session("attached", "working", 2)
        await terminal.kill()
        closed = await at.session("attached", "closed", 3)
        assert closed.id == session.id
        events = await at.log(session.id)
        each_once(events)
        assert kinds(events)[-4:] == ["ToolUse", "ToolResult", "Error", "Done"]

        # Resumed in another terminal it is the same session.
        again = await stack.enter_async_context(at.home.terminal("--resume", session.native_id))
        await again.shows("The second has ended.")
        assert (await at.session("attached", "idle", 3)).id == session.id
