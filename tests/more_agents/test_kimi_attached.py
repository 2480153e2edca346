"""Kimi Code in a real terminal, read along: its turns, its tools and what it asks are shown elsewhere, and decided
at the terminal."""

import asyncio
import re
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest
from tests.asks.agents import MORE
from tests.harnesses.at_the_terminal import QUESTIONS, asks_for_commands, inquiring
from tests.harnesses.desk import BOUND
from tests.harnesses.person import Person, person
from tests.harnesses.test_adopt_and_return import six_turns
from tests.harnesses.test_terminal_events import hold_to_the_table
from tests.more_agents.test_qwen_terminal import answers, each_once, kinds, turn

from tieline.environment import config_path
from tieline.errors import TielineError
from tieline.events import Command, Done, Edit, Error, ToolResult, TurnStarted
from tieline.harnesses.kimi.transcript import LOOP, TYPES
from tieline.protocol.request_bodies import Decision
from tieline.script import Call, Fail, Run, Say, Stall, Think, Write
from tieline.sessions.attached_session import ANSWER_THERE
from tieline.testing.harness_terminals import HarnessHome, kimi_home
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
ASKED = QUESTIONS["kimi"]


PROGRAM = MORE.parent / "@moonshot-ai/kimi-code/dist/main.mjs"
CLASS = re.compile(r'static type = "([^"]+)";(?:\s+static \w+ = [^;]+;)*?\s+static durable = true;')
"""An event of Kimi's that it writes down."""
JOURNAL = re.compile(r"AGENT_WIRE_RECORD_TYPES = new Set\(\[(.*?)\]\)", re.DOTALL)
READER, READER_LENGTH = 'case "micro_compaction.apply":', 4000
"""Where its own viewer of records reads one of each kind, also of older versions."""
LOOP_EVENT = re.compile(r'\n\t+type: "((?:step|content|tool)\.(?:begin|end|part|call|result))",\n')


def home_of(root: Path, _: Path) -> AbstractAsyncContextManager[HarnessHome]:
    return kimi_home(root, MORE)


async def kimi(stack: AsyncExitStack, root: Path) -> Person:
    """Who is asked before a command runs."""
    at = await person(stack, "kimi", root, home_of=home_of)
    asks_for_commands("kimi", at.home)
    return at


def test_all_that_kimi_can_write_down_is_in_the_table() -> None:
    program = PROGRAM.read_text()
    written, journal = set(CLASS.findall(program)), JOURNAL.search(program)
    assert journal is not None
    written |= set(re.findall(r'"([^"]+)"', journal[1]))
    read = program[program.index(READER) :][:READER_LENGTH]
    assert len(written) > 50 and written - TYPES.keys() == set()
    assert set(re.findall(r'case "([a-z_]+\.[a-zA-Z_.]+)":', read)) - TYPES.keys() == set()
    assert {type for type, means in TYPES.items() if means != "own"} <= written
    assert set(LOOP_EVENT.findall(program)) == LOOP.keys()


async def test_a_terminal_is_read_and_what_it_asks_is_shown_until_it_is_decided_there(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await kimi(stack, tmp_path)
        terminal = await stack.enter_async_context(at.home.terminal())
        project, play = at.home.project, at.home.rig.play
        play([Think("A greeting."), Say("Hello.")])
        await terminal.submit("say hello")
        told = await turn(at, terminal, 1, "Hello.")
        session = await at.session("attached", "idle", 1)
        assert (session.agent, session.cwd, session.remote, session.model, session.mode) == (
            "kimi", str(project), (), "scripted", "manual",
        )  # fmt: skip
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
        play(inquiring("kimi", "Which colour?", ("red", "blue")), [Say("Red it is.")])
        await terminal.submit("ask me")
        question = await at.ask()
        assert question.ask.kind == "question" and question.ask.questions[0].text == "Which colour?"
        assert [choice.label for choice in question.ask.questions[0].choices] == ["red", "blue"]
        await terminal.answer("[3] Other", "Enter")
        await terminal.answer("Ready to submit", "Enter")
        told = await turn(at, terminal, 4, "Red it is.")
        assert answers(told) == [("terminal", "allow")]

        # Interrupted in the middle of an answer.
        play([Say("Half an answer"), Stall()])
        await terminal.submit("say something long")
        await terminal.shows("Half an answer")
        await terminal.key("Escape")
        told = await turn(at, terminal, 5, "Interrupted by user")
        assert isinstance(done := told[-1], Done) and done.status == "interrupted"

        # What a subagent asks is shown as well; what it spends is not told.
        work = Call("Agent", {"description": "look", "prompt": "run a command", "subagent_type": "coder"})
        play([work], [Run("touch below")], [Say("It is there.")], [Say("It was delegated.")])
        await terminal.submit("delegate it")
        ask = await at.ask()
        assert isinstance(ask.ask.action, Command) and ask.ask.action.command == "touch below"
        assert ask.ask.at_terminal == ANSWER_THERE
        await terminal.answer(ASKED, "Enter")
        told = await turn(at, terminal, 6, "It was delegated.")
        assert kinds(told) == ["TurnStarted", "ToolUse", "Ask", "Answer", "ToolResult", "Text", "Done"]
        assert answers(told) == [("terminal", "allow")]
        assert isinstance(done := told[-1], Done) and done.usage == "partial"

        # An error of its model is one.
        play([Fail(400, "scripted refusal")])
        await terminal.submit("try")
        told = await turn(at, terminal, 7, status="failed")
        assert isinstance(error := told[-2], Error) and "scripted refusal" in error.message
        assert isinstance(done := told[-1], Done) and done.status == "error" and "scripted refusal" in done.error

        # What was decided in a turn is told once, though the hub and then the terminal die in its midst.
        play([Run("touch one; until test -e on; do sleep 0.1; done")], [Run("touch other; sleep 100")])
        await terminal.submit("run both")
        await terminal.answer(ASKED, "Enter")
        await eventually((project / "one").exists, "its tool does not run", timeout=BOUND)
        await at.session("attached", "working", 7)
        await at.kill_hub()
        await at.start_hub()
        (project / "on").touch()
        ask = await at.ask()
        assert isinstance(ask.ask.action, Command) and "touch other" in ask.ask.action.command
        await terminal.answer(ASKED, "Enter")
        async with asyncio.timeout(BOUND):
            while await at.client.asks():  # noqa: ASYNC110 (a client looks)
                await asyncio.sleep(0.1)
        await terminal.kill()
        told = await turn(at, terminal, 8, status="closed")
        assert kinds(told) == [
            "TurnStarted", "ToolUse", "Ask", "Answer", "ToolResult", "ToolUse", "Ask", "Answer", "ToolResult", "Error",
            "Done",
        ]  # fmt: skip


async def test_each_event_once_when_the_hub_dies_and_the_terminal_after_it(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await person(stack, "kimi", tmp_path, home_of=home_of)
        terminal = await stack.enter_async_context(at.home.terminal())
        project = at.home.project
        at.home.rig.play([Run("touch begun; until test -e go; do sleep 0.1; done")], [Say("The first has ended.")])
        await terminal.submit("the first")
        await eventually((project / "begun").exists, "its tool does not run", timeout=BOUND)
        session = await at.session("attached", "working", 0)
        await at.kill_hub()
        await at.start_hub()
        (project / "go").touch()
        told = await turn(at, terminal, 1, "The first has ended.")
        assert kinds(told) == ["TurnStarted", "Init", "ToolUse", "ToolResult", "Text", "Done"]

        # Turns of which the hub heard nothing are told whole.
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
            ("success", f"The {name} has ended.", "complete") for name in ("first", "second", "third")
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

        # Resumed in another terminal it is the same session, and after /new another one.
        again = await stack.enter_async_context(at.home.terminal("--session", session.native_id))
        await again.shows("The third has ended.")
        at.home.rig.play([Say("The fifth has ended.")])
        await again.submit("the fifth")
        told = await turn(at, again, 5, "The fifth has ended.")
        assert kinds(told) == ["TurnStarted", "Text", "Done"]
        assert (await at.session("attached", "idle", 5)).id == session.id
        await again.submit("/new")
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
    await hold_to_the_table("kimi", home_of, tmp_path)


async def test_six_turns_at_the_terminal_on_the_phone_and_at_the_terminal_again(tmp_path: Path) -> None:
    """Under the only policy that Kimi can be held to; under the usual one it is not taken over."""
    async with AsyncExitStack() as stack:
        at = await person(stack, "kimi", tmp_path, home_of=home_of)
        terminal = await stack.enter_async_context(at.home.terminal())
        session = await at.turn(terminal, "say hello", "Hello.", 1)
        await terminal.hang_up()
        await at.session("attached", "closed", 1)
        status, output = await at.tieline("adopt", session.id)
        assert status != 0 and "kimi cannot be kept from: file_write" in output
        await at.kill_hub()
        config = Path(config_path(at.env))
        config.write_text(f'policy = "full"\n{config.read_text()}')
        await at.start_hub()
        await six_turns(stack, at, asks=False)
