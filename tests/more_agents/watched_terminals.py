"""What holds in every terminal that is read along by its record alone: its turns, its tools and what it asks are shown
elsewhere, and decided at the terminal."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec import Struct
from tests.harnesses.at_the_terminal import QUESTIONS, asks_for_commands, inquiring
from tests.harnesses.desk import BOUND
from tests.harnesses.person import Person, person
from tests.harnesses.test_adopt_and_return import six_turns
from tests.more_agents.test_qwen_terminal import answers, each_once, kinds, turn

from tieline.environment import config_path
from tieline.errors import TielineError
from tieline.events import Command, Done, Edit, Error, Event, ToolResult, TurnStarted
from tieline.protocol.request_bodies import Decision
from tieline.script import Fail, Run, Say, Stall, Think, Write
from tieline.sessions.attached_session import ANSWER_THERE
from tieline.testing.harness_terminals import HarnessHomeFactory
from tieline.testing.tmux_terminal import TmuxTerminal
from tieline.testing.wait_for import eventually

ASKED_FOR = ["TurnStarted", "Text", "ToolUse", "Ask", "Answer", "ToolResult", "Text", "Done"]
"""A turn with one call that is allowed."""


class WatchedTerminal(Struct, frozen=True, kw_only=True):
    harness: str
    home_of: HarnessHomeFactory
    at_once: bool = False
    """Its session is told of when it opens, and not with its first prompt."""
    model: str = "scripted"
    mode: str = ""
    usage: str = "complete"
    usage_unseen: str = "complete"
    """Of a turn that ended, with another one after it, while no hub ran."""
    goes_on_when_denied: bool = True
    question: Sequence[tuple[str, str]]
    """What it shows of a question, each with the key that answers it."""
    interrupted: str
    """What it shows then."""
    resume: str
    clear: str
    """Its option and its command."""

    async def is_taken_over_under_full_alone(self, root: Path) -> None:
        """It can be held to no other policy, so under the usual one it is not."""
        async with AsyncExitStack() as stack:
            at = await self.person(stack, root)
            terminal = await stack.enter_async_context(at.home.terminal())
            session = await at.turn(terminal, "say hello", "Hello.", 1)
            await terminal.hang_up()
            await at.session("attached", "closed", 1)
            status, output = await at.tieline("adopt", session.id)
            assert status != 0 and f"{self.harness} cannot be kept from: file_write" in output, output
            await at.kill_hub()
            config = Path(config_path(at.env))
            config.write_text(f'policy = "full"\n{config.read_text()}')
            await at.start_hub()
            await six_turns(stack, at, asks=False)

    async def person(self, stack: AsyncExitStack, root: Path, *, asks: bool = False) -> Person:
        """Who, with `asks`, is asked before a command runs."""
        at = await person(stack, self.harness, root, home_of=self.home_of)
        if asks:
            asks_for_commands(self.harness, at.home)
        return at

    async def is_read_and_asks(self, at: Person, terminal: TmuxTerminal, outside: Path) -> int:
        """How many turns there were. `outside` is a folder that is not the project."""
        asked = QUESTIONS[self.harness]
        project, play = at.home.project, at.home.rig.play
        if self.at_once:
            await at.session("attached", "idle", 0)
        play([Think("A greeting."), Say("Hello.")])
        await terminal.submit("say hello")
        events = await turn(at, terminal, 1, "Hello.")
        session = await at.session("attached", "idle", 1)
        assert (session.agent, session.cwd, session.remote, session.model, session.mode) == (
            self.harness, str(project), (), self.model, self.mode,
        )  # fmt: skip
        assert kinds(events) == ["TurnStarted", "Init", "Thinking", "Text", "Done"], kinds(events)
        assert isinstance(events[0], TurnStarted) and events[0].prompt == "say hello"
        assert isinstance(done := events[-1], Done)
        assert (done.status, done.text, done.native_id, done.usage) == (
            "success", "Hello.", session.native_id, self.usage,
        )  # fmt: skip
        if self.usage == "complete":
            assert (
                done.tokens is not None and (done.tokens.input, done.tokens.output) == at.home.rig.model.reported_tokens
            )

        # Allowed at the terminal: its command runs, and nothing is asked any more.
        play([Say("I will."), Run("touch begun; until test -e go; do sleep 0.1; done")], [Say("It was allowed.")])
        await terminal.submit("run it")
        await terminal.shows(asked)
        ask = await at.ask()
        assert isinstance(ask.ask.action, Command) and "until test -e go" in ask.ask.action.command
        assert (await at.session("attached", "waiting", 1)).id == session.id
        assert ask.ask.at_terminal == ANSWER_THERE
        for decision in ("allow", "deny"):
            with pytest.raises(TielineError, match="terminal"):
                await at.client.answer(ask.id, Decision(decision=decision))
        await terminal.answer(asked, "Enter")
        await at.session("attached", "working", 1)
        await eventually((project / "begun").exists, "its tool does not run", timeout=BOUND)
        await _nothing_is_asked(at)
        (project / "go").touch()
        events = await turn(at, terminal, 2, "It was allowed.")
        assert kinds(events) == ASKED_FOR, kinds(events)
        assert answers(events) == [("terminal", "allow")]

        play([Write(str(outside / "new.txt"), "hello\n")], [Say("It was denied.")])
        await terminal.submit("write it")
        await terminal.shows(asked)
        ask = await at.ask()
        assert isinstance(ask.ask.action, Edit) and "+hello" in ask.ask.action.diff
        await terminal.answer(asked, "Escape")
        await self._was_denied(at, terminal)
        assert not (outside / "new.txt").exists()
        at.home.rig.model.drop_replies()

        # A question is shown as one.
        play(inquiring(self.harness, "Which colour?", ("red", "blue")), [Say("Red it is.")])
        await terminal.submit("ask me")
        question = await at.ask()
        assert question.ask.kind == "question" and question.ask.questions[0].text == "Which colour?"
        assert [choice.label for choice in question.ask.questions[0].choices] == ["red", "blue"]
        for shown, key in self.question:
            await terminal.answer(shown, key)
        events = await turn(at, terminal, 4, "Red it is.")
        assert answers(events) == [("terminal", "allow")]

        # Interrupted in the middle of an answer.
        play([Say("Half an answer"), Stall()])
        await terminal.submit("say something long")
        await at.home.rig.stalled()
        await terminal.key("Escape")
        events = await turn(at, terminal, 5, self.interrupted)
        assert isinstance(done := events[-1], Done) and done.status == "interrupted"

        # An error of its model is one.
        play([Fail(400, "scripted refusal")])
        await terminal.submit("try")
        events = await turn(at, terminal, 6, status="failed")
        assert isinstance(error := events[-2], Error) and "scripted refusal" in error.message
        assert isinstance(done := events[-1], Done) and done.status == "error" and "scripted refusal" in done.error
        return 6

    async def _was_denied(self, at: Person, terminal: TmuxTerminal) -> None:
        """It is no success, and nobody interrupted it."""
        if self.goes_on_when_denied:
            events = await turn(at, terminal, 3, "It was denied.")
            end = ["Text", "Done"]
        else:
            events = await turn(at, terminal, 3, status="failed")
            end = ["Error", "Done"]
            assert isinstance(error := events[-2], Error) and error.code == "denied"
        assert kinds(events) == ["TurnStarted", "ToolUse", "Ask", "Answer", "ToolResult", *end], kinds(events)
        assert answers(events) == [("terminal", "deny")]
        assert isinstance(denied := events[-3], ToolResult) and denied.status == "denied"

    async def decides_once(self, at: Person, terminal: TmuxTerminal, turns: int) -> list[Event]:
        """What was decided in a turn is told once, though the hub and then the terminal die in its midst."""
        asked, project = QUESTIONS[self.harness], at.home.project
        at.home.rig.play([Run("touch one; until test -e on; do sleep 0.1; done")], [Run("touch other; sleep 100")])
        await terminal.submit("run both")
        await terminal.shows(asked)
        await at.ask()
        await terminal.answer(asked, "Enter")
        await eventually((project / "one").exists, "its tool does not run", timeout=BOUND)
        await at.session("attached", "working", turns)
        await at.kill_hub()
        await at.start_hub()
        (project / "on").touch()
        ask = await at.ask()
        assert isinstance(ask.ask.action, Command) and "touch other" in ask.ask.action.command
        await terminal.answer(asked, "Enter")
        await _nothing_is_asked(at)
        await terminal.kill()
        events = await turn(at, terminal, turns + 1, status="closed")
        assert kinds(events) == [
            "TurnStarted", "ToolUse", "Ask", "Answer", "ToolResult", "ToolUse", "Ask", "Answer", "ToolResult", "Error",
            "Done",
        ], kinds(events)  # fmt: skip
        return events

    async def tells_each_event_once(self, root: Path) -> None:
        """When the hub dies, and the terminal after it."""
        async with AsyncExitStack() as stack:
            at = await self.person(stack, root)
            terminal = await stack.enter_async_context(at.home.terminal())
            if self.at_once:
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
            assert kinds(events) == ["TurnStarted", "Init", "ToolUse", "ToolResult", "Text", "Done"], kinds(events)

            # Turns of which the hub heard nothing are told whole.
            await at.kill_hub()
            for name in ("second", "third"):
                at.home.rig.play([Run(f"touch {name}")], [Say(f"The {name} has ended.")])
                await terminal.submit(f"the {name}")
                await terminal.shows(f"The {name} has ended.")
            await at.start_hub()
            events = await turn(at, terminal, 3)
            assert kinds(events) == ["TurnStarted", "ToolUse", "ToolResult", "Text", "Done"], kinds(events)
            ended = [event for event in await at.log(session.id) if isinstance(event, Done)]
            assert [(done.status, done.text, done.usage) for done in ended] == [
                ("success", "The first has ended.", self.usage),
                ("success", "The second has ended.", self.usage_unseen),
                ("success", "The third has ended.", self.usage),
            ]

            at.home.rig.play([Run("touch fourth; sleep 600")])
            await terminal.submit("the fourth")
            await eventually((project / "fourth").exists, "its tool does not run", timeout=BOUND)
            await at.session("attached", "working", 3)
            await terminal.kill()
            assert (await at.session("attached", "closed", 4)).id == session.id
            events = await at.log(session.id)
            each_once(events)
            assert kinds(events)[-4:] == ["ToolUse", "ToolResult", "Error", "Done"]

            # Resumed in another terminal it is the same session, and after that another one.
            again = await stack.enter_async_context(at.home.terminal(self.resume, session.native_id))
            await again.shows("The third has ended.")
            if self.at_once:
                assert (await at.session("attached", "idle", 4)).id == session.id
            at.home.rig.play([Say("The fifth has ended.")])
            await again.submit("the fifth")
            events = await turn(at, again, 5, "The fifth has ended.")
            assert kinds(events) == ["TurnStarted", "Text", "Done"], kinds(events)
            assert (await at.session("attached", "idle", 5)).id == session.id
            await again.submit(self.clear)
            other = await at.session("attached", "idle", 0)
            assert other.id != session.id and other.cwd == session.cwd

            # A terminal beside it, in the same folder, has a session of its own.
            beside = await stack.enter_async_context(at.home.terminal())
            at.home.rig.play([Say("Beside it.")])
            await beside.submit("the other terminal")
            await beside.shows("Beside it.")
            third = await at.session("attached", "idle", 1)
            assert third.id not in (session.id, other.id)
            statuses = {record.id: record.status for record in await at.client.sessions()}
            assert statuses == {session.id: "closed", other.id: "idle", third.id: "idle"}


async def _nothing_is_asked(at: Person) -> None:
    async with asyncio.timeout(BOUND):
        while await at.client.asks():  # noqa: ASYNC110 (a client looks)
            await asyncio.sleep(0.1)
