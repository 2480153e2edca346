"""Copilot CLI in a real terminal, read along: its turns, its tools and what it asks are shown elsewhere, and decided at
the terminal."""

from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from tests.harnesses.at_the_terminal import QUESTIONS, asks_for_commands, inquiring
from tests.harnesses.desk import BOUND
from tests.harnesses.person import Person, person
from tests.harnesses.test_terminal_events import hold_to_the_table
from tests.more_agents.test_qwen_terminal import answers, kinds, turn

from tieline.errors import TielineError
from tieline.events import Command, Done, Edit, Error, Fetch, Status, ToolResult, TurnStarted
from tieline.protocol.request_bodies import Decision
from tieline.script import Fail, Get, Run, Say, Stall, Write
from tieline.sessions.attached_session import ANSWER_THERE, SAID
from tieline.testing.harness_terminals import copilot_home
from tieline.testing.tmux_terminal import PRESS_AGAIN_S, TmuxTerminal
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
ASKED = QUESTIONS["copilot"]
AGAIN = "esc again"


async def copilot(stack: AsyncExitStack, root: Path) -> Person:
    """Who is asked before a tool is used."""
    at = await person(stack, "copilot", root, home_of=copilot_home)
    asks_for_commands("copilot", at.home)
    return at


async def test_a_terminal_is_read_and_what_it_asks_is_shown_until_it_is_decided_there(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await copilot(stack, tmp_path)
        terminal = await stack.enter_async_context(at.home.terminal())
        project, play = at.home.project, at.home.rig.play
        play([Say("Hello.")])
        await terminal.submit("say hello")
        events = await turn(at, terminal, 1, "Hello.")
        session = await at.session("attached", "idle", 1)
        assert (session.agent, session.cwd, session.remote) == ("copilot", str(project), ())
        assert kinds(events) == ["TurnStarted", "Init", "Text", "Done"]
        assert isinstance(events[0], TurnStarted) and events[0].prompt == "say hello"
        assert isinstance(done := events[-1], Done)
        assert (done.status, done.text, done.native_id, done.usage) == (
            "success", "Hello.", session.native_id, "complete",
        )  # fmt: skip
        assert done.tokens is not None and (done.tokens.input, done.tokens.output) == at.home.rig.model.reported_tokens

        # Allowed at the terminal: its command runs, and nothing is asked any more.
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
        (project / "go").touch()
        events = await turn(at, terminal, 2, "It was allowed.")
        assert kinds(events) == ["TurnStarted", "Text", "ToolUse", "Ask", "Answer", "ToolResult", "Text", "Done"]
        assert answers(events) == [("terminal", "allow")]

        # Denied: that ends the turn, and is neither a success nor an interruption.
        play([Write(str(project / "new.txt"), "hello\n")])
        await terminal.submit("write it")
        await terminal.shows(ASKED)
        ask = await at.ask()
        assert isinstance(ask.ask.action, Edit) and "+hello" in ask.ask.action.diff
        await terminal.answer(ASKED, "Escape")
        events = await turn(at, terminal, 3, status="failed")
        assert kinds(events) == ["TurnStarted", "ToolUse", "Ask", "Answer", "ToolResult", "Error", "Done"]
        assert answers(events) == [("terminal", "deny")]
        assert isinstance(denied := events[-3], ToolResult) and denied.status == "denied"
        assert isinstance(error := events[-2], Error) and error.code == "denied"
        assert not (project / "new.txt").exists()

        # An address is shown whole.
        play([Get("http://127.0.0.1:9/page?whole=1")], [Say("It is not there.")])
        await terminal.submit("fetch it")
        await terminal.shows(ASKED)
        ask = await at.ask()
        assert isinstance(ask.ask.action, Fetch) and ask.ask.action.url == "http://127.0.0.1:9/page?whole=1"
        await terminal.answer(ASKED, "Enter")
        events = await turn(at, terminal, 4, "It is not there.")
        assert answers(events) == [("terminal", "allow")]

        # A question is shown as one.
        play(inquiring("copilot", "Which colour?", ("red", "blue")), [Say("Red it is.")])
        await terminal.submit("ask me")
        question = await at.ask()
        assert question.ask.kind == "question" and question.ask.questions[0].text == "Which colour?"
        assert [choice.label for choice in question.ask.questions[0].choices] == ["red", "blue"]
        await terminal.answer("Which colour?", "Enter")
        events = await turn(at, terminal, 5, "Red it is.")
        assert answers(events) == [("terminal", "allow")]

        # Interrupted in the middle of an answer.
        play([Say("Half an answer"), Stall()])
        await terminal.submit("say something long")
        await terminal.shows("Half an answer")
        await interrupt(terminal)
        events = await turn(at, terminal, 6)
        assert isinstance(done := events[-1], Done) and done.status == "interrupted"

        # An error of its model is one.
        play([Fail(400, "scripted refusal")])
        await terminal.submit("try")
        events = await turn(at, terminal, 7, status="failed")
        assert isinstance(done := events[-1], Done) and done.status == "error" and "scripted refusal" in done.error


async def interrupt(terminal: TmuxTerminal) -> None:
    """By two keys: for a second it says that it waits for the other one."""
    while "Working" in await terminal.screen():
        await terminal.key("Escape")
        with suppress(AssertionError):
            await terminal.until(lambda screen: AGAIN in screen, "the first key's effect", timeout=PRESS_AGAIN_S)
            await terminal.key("Escape")
            await terminal.until(lambda screen: AGAIN not in screen, "the other's", timeout=PRESS_AGAIN_S)


async def test_words_in_a_turn_are_told(tmp_path: Path) -> None:
    """They send a command that runs to the background; its end begins a turn of its own."""
    async with AsyncExitStack() as stack:
        at = await person(stack, "copilot", tmp_path, home_of=copilot_home)
        terminal = await stack.enter_async_context(at.home.terminal())
        at.home.rig.play([Run("touch begun; until test -e go; do sleep 0.1; done")], [Say("I have read them.")])
        await terminal.submit("run it")
        await eventually((at.home.project / "begun").exists, "its tool does not run", timeout=BOUND)
        await terminal.submit("words in between")
        events = await turn(at, terminal, 1, "I have read them.")
        assert Status(SAID, "words in between") in events
        assert isinstance(done := events[-1], Done) and (done.status, done.text) == ("success", "I have read them.")
        at.home.rig.play([Say("It is over.")])
        (at.home.project / "go").touch()
        events = await turn(at, terminal, 2, "It is over.")
        assert isinstance(done := events[-1], Done) and (done.status, done.text) == ("success", "It is over.")


async def test_what_it_tells_is_what_the_table_says(tmp_path: Path) -> None:
    await hold_to_the_table("copilot", copilot_home, tmp_path, elsewhere=frozenset({"words_in_a_turn"}))
