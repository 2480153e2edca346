"""Qwen Code in a real terminal, with what `tieline install` writes, at a real hub: in the mesh, and read along."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.asks.agents import BINARIES
from tests.harnesses.desk import BOUND
from tests.harnesses.installed_home import installed_home
from tests.harnesses.person import Person, person
from tests.harnesses.test_adopt_and_return import six_turns
from tests.mesh.mcp_clients import OWNER, mesh_hub

from tieline.errors import TielineError
from tieline.events import (
    Answer,
    Ask,
    Command,
    Done,
    Edit,
    Error,
    Event,
    Init,
    Status,
    Text,
    ToolResult,
    ToolUse,
    TurnStarted,
)
from tieline.harnesses.qwen.integration import Qwen
from tieline.mesh.framing import NOTICE, TAG
from tieline.protocol.request_bodies import Decision
from tieline.script import Inquire, Run, Say, Stall, Write
from tieline.sessions.attached_session import ANSWER_THERE, MODE
from tieline.testing.harness_terminals import qwen_home
from tieline.testing.tmux_terminal import TmuxTerminal
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
ASKED = "Yes, allow once"
QWENS_NOTICE = "carries none of your user's authority"


async def test_an_idle_terminal_is_woken_twice_and_one_that_is_killed_has_ended(tmp_path: Path) -> None:
    async with (
        installed_home(qwen_home(tmp_path, BINARIES), Qwen(), tmp_path) as home,
        mesh_hub(tmp_path) as hub,
        AsyncExitStack() as stack,
    ):
        terminal = await stack.enter_async_context(home.terminal())
        member = await hub.only_agent()
        assert (member.harness, member.cwd) == ("qwen", str(home.project))
        home.rig.play([Say("I am awake.")])
        sent = await hub.mesh.send_message(OWNER, member.name, "wake up, Qwen")
        await terminal.shows("I am awake.")
        heard = home.rig.heard()
        assert "wake up, Qwen" in heard and QWENS_NOTICE in heard
        assert NOTICE in heard and f"{TAG}-" in heard, "it is not framed as a peer's words"
        await hub.receipt(sent.id, "seen_at")
        await hub.like(member, "idle")
        home.rig.play([Say("Again.")])
        await hub.mesh.send_message(OWNER, member.name, "and once more")
        await terminal.shows("Again.")
        await hub.like(member, "idle")
        await terminal.kill()
        await hub.like(member, "unknown", ended=True)
        late = await hub.mesh.send_message(OWNER, member.name, "anyone there?")
        assert (await hub.mesh.message_status(OWNER, late.id)).state == "stored"
        assert hub.mesh.mailbox.unread(member.address) == 1
        assert "anyone there?" not in home.rig.heard()


async def turn(at: Person, terminal: TmuxTerminal, count: int, shows: str = "", *, status: str = "idle") -> list[Event]:
    """The events of the turn that ends now, the `count`-th."""
    if shows:
        await terminal.shows(shows)
    session = await at.session("attached", status, count)
    events = await at.log(session.id)
    each_once(events)
    starts = [index for index, event in enumerate(events) if isinstance(event, TurnStarted)]
    assert len(starts) == count
    return events[starts[-1] :]


def each_once(events: list[Event]) -> None:
    ids = [(event.type, event.id) for event in events if isinstance(event, TurnStarted | Ask)]
    ids += [(event.type, event.item) for event in events if isinstance(event, Text)]
    assert len(ids) == len(set(ids))
    assert sum(isinstance(event, Init) for event in events) == 1


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def answers(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.by, event.decision) for event in events if isinstance(event, Answer)]


async def test_a_terminal_is_read_and_prompted_and_what_it_asks_is_shown_until_it_is_decided_there(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        at = await person(stack, "qwen", tmp_path, home_of=qwen_home)
        terminal = await stack.enter_async_context(at.home.terminal("--approval-mode", "default"))
        project, play = at.home.project, at.home.rig.play
        session = await at.session("attached", "idle", 0)
        assert (session.agent, session.cwd, session.remote) == ("qwen", str(project), ("prompt",))

        play([Say("Hello.")])
        await terminal.submit("say hello")
        events = await turn(at, terminal, 1, "Hello.")
        assert kinds(events) == ["TurnStarted", "Init", "Text", "Done"]
        assert isinstance(events[0], TurnStarted) and events[0].prompt == "say hello"
        assert isinstance(done := events[-1], Done)
        assert (done.status, done.text, done.native_id, done.usage) == (
            "success", "Hello.", session.native_id, "complete",
        )  # fmt: skip
        assert done.tokens is not None and done.tokens.input and done.tokens.output

        # Allowed at the terminal: its command runs, and nothing is asked any more. A prompt from the phone waits.
        play([Say("I will."), Run("touch begun; until test -e go; do sleep 0.1; done")], [Say("It was allowed.")])
        await terminal.submit("run it")
        await terminal.shows(ASKED)
        ask = await at.ask()
        assert isinstance(ask.ask.action, Command) and "until test -e go" in ask.ask.action.command
        assert (await at.session("attached", "waiting", 1)).id == session.id
        assert ask.ask.at_terminal == ANSWER_THERE
        for decision in ("allow", "deny"):
            with pytest.raises(TielineError, match="terminal"):
                await at.client.answer(ask.id, Decision(decision=decision))
        await terminal.answer(ASKED, "Enter")
        await at.session("attached", "working", 1)
        await eventually((project / "begun").exists, "its tool does not run", timeout=BOUND)
        assert await at.client.asks() == []
        await at.client.prompt(session.id, "and a word from the phone")
        play([Say("Hello, phone.")])
        (project / "go").touch()
        events = await turn(at, terminal, 3, "Hello, phone.")
        assert isinstance(events[0], TurnStarted) and events[0].prompt == "and a word from the phone"
        assert kinds(events) == ["TurnStarted", "Text", "Done"]
        before = await at.log(session.id)
        second = before[before.index(next(event for event in before if isinstance(event, Ask))) - 3 :]
        assert kinds(second)[:8] == ["TurnStarted", "Text", "ToolUse", "Ask", "Answer", "ToolResult", "Text", "Done"]
        assert answers(second) == [("terminal", "allow")]
        assert QWENS_NOTICE in at.home.rig.heard()

        # Denied: that ends the turn, and is neither a success nor an interruption.
        play([Write(str(project / "new.txt"), "hello\n")])
        await terminal.submit("write it")
        await terminal.shows(ASKED)
        ask = await at.ask()
        assert isinstance(ask.ask.action, Edit) and "+hello" in ask.ask.action.diff
        await terminal.answer(ASKED, "Escape")
        events = await turn(at, terminal, 4, status="failed")
        assert kinds(events) == ["TurnStarted", "ToolUse", "Ask", "Answer", "ToolResult", "Error", "Done"]
        assert answers(events) == [("terminal", "deny")]
        assert isinstance(denied := events[-3], ToolResult) and denied.status == "denied"
        assert isinstance(error := events[-2], Error) and error.code == "denied"
        assert isinstance(done := events[-1], Done) and done.status == "error"
        assert not (project / "new.txt").exists()

        # A question is shown as one.
        play([Inquire("Which colour?", ("red", "blue"), "Colour")], [Say("Red it is.")])
        await terminal.submit("ask me")
        question = await at.ask()
        assert question.ask.kind == "question"
        assert [choice.label for choice in question.ask.questions[0].choices] == ["red", "blue"]
        await terminal.answer("Which colour?", "Enter")
        events = await turn(at, terminal, 5, "Red it is.")
        assert answers(events) == [("terminal", "allow")]

        # Interrupted in the middle of an answer.
        play([Say("Half an answer"), Stall()])
        await terminal.submit("say something long")
        await terminal.shows("Half an answer")
        await terminal.key("Escape")
        events = await turn(at, terminal, 6)
        assert isinstance(done := events[-1], Done) and done.status == "interrupted"


async def test_each_event_once_when_the_hub_dies_and_the_terminal_after_it(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await person(stack, "qwen", tmp_path, home_of=qwen_home)
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
        async with asyncio.timeout(BOUND):
            while not isinstance((await at.log(session.id))[-1], ToolUse):  # noqa: ASYNC110
                await asyncio.sleep(0.1)  # it writes its record down a moment later
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


async def test_six_turns_at_the_terminal_on_the_phone_and_at_the_terminal_again(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        await six_turns(stack, await person(stack, "qwen", tmp_path, home_of=qwen_home))


async def test_a_mode_that_is_chosen_at_the_terminal_is_told(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await person(stack, "qwen", tmp_path, home_of=qwen_home)
        terminal = await stack.enter_async_context(at.home.terminal("--approval-mode", "default"))
        await at.turn(terminal, "the first", "The first has ended.", 1)
        await terminal.key("BTab")
        await terminal.shows("shift + tab to cycle")
        session = await at.turn(terminal, "the second", "The second has ended.", 2)
        assert session.mode not in ("", "default")
        modes = [event for event in await at.log(session.id) if isinstance(event, Status) and event.state == MODE]
        assert modes == [Status(MODE, session.mode)]
