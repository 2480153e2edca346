"""Mistral Vibe in a real terminal, read along: its turns, its tools and what it asks are shown elsewhere, and decided
at the terminal."""

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest
from tests.harnesses.at_the_terminal import QUESTIONS, asks_for_commands, inquiring
from tests.harnesses.desk import BOUND
from tests.harnesses.person import Person, person
from tests.harnesses.test_adopt_and_return import six_turns
from tests.harnesses.test_terminal_events import hold_to_the_table
from tests.more_agents.python.install import binaries
from tests.more_agents.test_qwen_terminal import answers, each_once, kinds, turn

from tieline.errors import TielineError
from tieline.events import Command, Done, Edit, Error, ToolResult, TurnStarted
from tieline.protocol.request_bodies import Decision
from tieline.script import Fail, Run, Say, Stall, Think, Write
from tieline.sessions.attached_session import ANSWER_THERE
from tieline.testing.harness_terminals import HarnessHome, vibe_home
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
ASKED = QUESTIONS["vibe"]


def home_of(root: Path, _: Path) -> AbstractAsyncContextManager[HarnessHome]:
    return vibe_home(root, binaries("vibe"))


async def vibe(stack: AsyncExitStack, root: Path) -> Person:
    """Who is asked before a command runs."""
    at = await person(stack, "vibe", root, home_of=home_of)
    asks_for_commands("vibe", at.home)
    return at


async def test_a_terminal_is_read_and_what_it_asks_is_shown_until_it_is_decided_there(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await vibe(stack, tmp_path)
        terminal = await stack.enter_async_context(at.home.terminal())
        project, play = at.home.project, at.home.rig.play
        session = await at.session("attached", "idle", 0)
        assert (session.agent, session.cwd, session.remote) == ("vibe", str(project), ())

        play([Think("A greeting."), Say("Hello.")])
        await terminal.submit("say hello")
        told = await turn(at, terminal, 1, "Hello.")
        assert (await at.session("attached", "idle", 1)).model == "scripted"
        assert kinds(told) == ["TurnStarted", "Init", "Thinking", "Text", "Done"]
        assert isinstance(told[0], TurnStarted) and told[0].prompt == "say hello"
        assert isinstance(done := told[-1], Done)
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
        told = await turn(at, terminal, 2, "It was allowed.")
        assert kinds(told) == ["TurnStarted", "Text", "ToolUse", "Ask", "Answer", "ToolResult", "Text", "Done"]
        assert answers(told) == [("terminal", "allow")]

        # Denied: the turn goes on.
        play([Write(str(tmp_path / "new.txt"), "hello\n")], [Say("It was denied.")])
        await terminal.submit("write it")
        await terminal.shows(ASKED)
        ask = await at.ask()
        assert isinstance(ask.ask.action, Edit) and "+hello" in ask.ask.action.diff
        await terminal.answer(ASKED, "Escape")
        told = await turn(at, terminal, 3, "It was denied.")
        assert kinds(told) == ["TurnStarted", "ToolUse", "Ask", "Answer", "ToolResult", "Text", "Done"]
        assert answers(told) == [("terminal", "deny")]
        assert isinstance(denied := told[-3], ToolResult) and denied.status == "denied"
        assert not (tmp_path / "new.txt").exists()

        # A question is shown as one.
        play(inquiring("vibe", "Which colour?", ("red", "blue")), [Say("Red it is.")])
        await terminal.submit("ask me")
        question = await at.ask()
        assert question.ask.kind == "question" and question.ask.questions[0].text == "Which colour?"
        assert [choice.label for choice in question.ask.questions[0].choices] == ["red", "blue"]
        await terminal.answer("Enter select", "Enter")
        told = await turn(at, terminal, 4, "Red it is.")
        assert answers(told) == [("terminal", "allow")]

        # Interrupted in the middle of an answer.
        play([Say("Half an answer"), Stall()])
        await terminal.submit("say something long")
        await terminal.shows("Half an answer")
        await terminal.key("Escape")
        told = await turn(at, terminal, 5, "Interrupted")
        assert isinstance(done := told[-1], Done) and done.status == "interrupted"

        # An error of its model is one.
        play([Fail(400, "scripted refusal")])
        await terminal.submit("try")
        told = await turn(at, terminal, 6, status="failed")
        assert isinstance(error := told[-2], Error) and "scripted refusal" in error.message
        assert isinstance(done := told[-1], Done) and done.status == "error" and "scripted refusal" in done.error

        # What was decided in a turn is told once, though the hub and then the terminal die in its midst.
        play([Run("touch seventh; until test -e on; do sleep 0.1; done")], [Run("touch eighth; sleep 100")])
        await terminal.submit("run both")
        await terminal.answer(ASKED, "Enter")
        await eventually((project / "seventh").exists, "its tool does not run", timeout=BOUND)
        await at.session("attached", "working", 6)
        await at.kill_hub()
        await at.start_hub()
        (project / "on").touch()
        ask = await at.ask()
        assert isinstance(ask.ask.action, Command) and "touch eighth" in ask.ask.action.command
        await terminal.answer(ASKED, "Enter")
        async with asyncio.timeout(BOUND):
            while await at.client.asks():  # noqa: ASYNC110 (a client looks)
                await asyncio.sleep(0.1)
        await terminal.kill()
        told = await turn(at, terminal, 7, status="closed")
        assert kinds(told) == [
            "TurnStarted", "ToolUse", "Ask", "Answer", "ToolResult", "ToolUse", "Ask", "Answer", "ToolResult", "Error",
            "Done",
        ]  # fmt: skip


async def test_each_event_once_when_the_hub_dies_and_the_terminal_after_it(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await person(stack, "vibe", tmp_path, home_of=home_of)
        terminal = await stack.enter_async_context(at.home.terminal())
        session = await at.session("attached", "idle", 0)
        project = at.home.project
        at.home.rig.play([Run("touch begun; until test -e go; do sleep 0.1; done")], [Say("The first has ended.")])
        await terminal.submit("the first")
        await eventually((project / "begun").exists, "its tool does not run", timeout=BOUND)
        await at.session("attached", "working", 0)
        await at.kill_hub()
        await at.start_hub()
        (project / "go").touch()
        told = await turn(at, terminal, 1, "The first has ended.")
        assert kinds(told) == ["TurnStarted", "Init", "ToolUse", "ToolResult", "Text", "Done"]

        # Turns of which the hub heard nothing: the last one whole, the other as the history has it.
        await at.kill_hub()
        for name in ("second", "third"):
            at.home.rig.play([Run(f"touch {name}")], [Say(f"The {name} has ended.")])
            await terminal.submit(f"the {name}")
            await terminal.shows(f"The {name} has ended.")
        await at.start_hub()
        told = await turn(at, terminal, 3)
        assert kinds(told) == ["TurnStarted", "ToolUse", "ToolResult", "Text", "Done"]
        ended = [event for event in await at.log(session.id) if isinstance(event, Done)]
        assert [(done.status, done.text, done.usage) for done in ended] == [
            ("success", "The first has ended.", "complete"),
            ("success", "The second has ended.", "unknown"),
            ("success", "The third has ended.", "complete"),
        ]

        at.home.rig.play([Run("touch fourth; sleep 600")])
        await terminal.submit("the fourth")
        await eventually((project / "fourth").exists, "its tool does not run", timeout=BOUND)
        await at.session("attached", "working", 3)
        await terminal.kill()
        assert (await at.session("attached", "closed", 4)).id == session.id
        told = await at.log(session.id)
        each_once(told)
        assert kinds(told)[-4:] == ["ToolUse", "ToolResult", "Error", "Done"]

        # Resumed in another terminal it is the same session, and after /clear another one.
        again = await stack.enter_async_context(at.home.terminal("--resume", session.native_id))
        await again.shows("The third has ended.")
        assert (await at.session("attached", "idle", 4)).id == session.id
        at.home.rig.play([Say("The fifth has ended.")])
        await again.submit("the fifth")
        told = await turn(at, again, 5, "The fifth has ended.")
        assert kinds(told) == ["TurnStarted", "Text", "Done"]
        await again.submit("/clear")
        other = await at.session("attached", "idle", 0)
        assert other.id != session.id and other.cwd == session.cwd

        # A terminal beside it, in the same folder, has a session of its own.
        beside = await stack.enter_async_context(at.home.terminal())
        at.home.rig.play([Say("Beside it.")])
        await beside.submit("the other terminal")
        await beside.shows("Beside it.")
        third = await at.session("attached", "idle", 1)
        assert third.id not in (session.id, other.id)
        statuses = {one.id: one.status for one in await at.client.sessions()}
        assert statuses == {session.id: "closed", other.id: "idle", third.id: "idle"}


async def test_what_it_tells_is_what_the_table_says(tmp_path: Path) -> None:
    await hold_to_the_table("vibe", home_of, tmp_path)


async def test_six_turns_at_the_terminal_on_the_phone_and_at_the_terminal_again(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        await six_turns(stack, await person(stack, "vibe", tmp_path, home_of=home_of))
