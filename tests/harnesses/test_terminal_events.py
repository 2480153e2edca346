"""The table of what each harness tells of a session in its terminal is true: a person does in a real terminal all that
can be told, and what the hub was told is what the table says."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.harnesses.at_the_terminal import (
    COMPACT,
    MODELS,
    MODES,
    QUESTIONS,
    YES,
    asking,
    asks_for_commands,
    choose_mode,
    choose_model,
    inquiring,
    say_in_a_turn,
    words_wait,
)
from tests.harnesses.desk import BOUND
from tests.harnesses.person import Person, person

from tieline.background_tasks import cancel_and_wait
from tieline.cli.doc_generators.harnesses import tables
from tieline.events import Answer, Ask, Command, Done, Event, Status, Text, TextDelta, ToolResult, ToolUse, TurnStarted
from tieline.harnesses import registry
from tieline.harnesses.base import TerminalEvents
from tieline.protocol.stream_frames import DeltaFrame
from tieline.script import Say
from tieline.sessions.attached_session import AT_THE_TERMINAL, MODE, SAID
from tieline.sessions.records import SessionRecord
from tieline.testing.harness_terminals import HOMES, HarnessHomeFactory, qwen_home
from tieline.testing.tmux_terminal import PRESS_AGAIN_S, TmuxTerminal
from tieline.testing.wait_for import eventually

ATTACHED = [name for name in registry.names() if registry.create(name).attach_terms is not None]
TERMINALS: dict[str, HarnessHomeFactory] = {**HOMES, "qwen": qwen_home}
ELSEWHERE = {"copilot", "droid", "kimi", "pi", "vibe"}
"""Those that `make test-agents` holds to it."""
PROMPT, ANSWER, WORDS = "the first", "The first has ended.", "words in between"
UNTIL = "until test -e go; do sleep 0.1; done"
COMMAND = f"touch began; {UNTIL}"


def told_by(harness: str) -> set[str]:
    """As the table has it."""
    terms = registry.create(harness).attach_terms
    assert terms is not None
    return {field for field in TerminalEvents.__struct_fields__ if getattr(terms.tells, field)}


def test_the_table_is_on_its_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "harnesses.md").read_text()
    assert tables() in page
    for field in TerminalEvents.__struct_fields__:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {field.replace('_', ' ')} |")]
        assert row.count("|") == len(ATTACHED) + 2


def test_each_harness_is_held_to_it() -> None:
    assert set(ATTACHED) == TERMINALS.keys() | ELSEWHERE


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.parametrize("harness", TERMINALS)
async def test_each_harness_tells_what_the_table_says(harness: str, tmp_path: Path) -> None:
    await hold_to_the_table(harness, TERMINALS[harness], tmp_path)


async def hold_to_the_table(
    harness: str, home_of: HarnessHomeFactory, root: Path, *, elsewhere: frozenset[str] = frozenset()
) -> None:
    """`elsewhere`: what another test shows."""
    async with AsyncExitStack() as stack:
        at = await person(stack, harness, root, home_of=home_of)
        asks_for_commands(harness, at.home)
        look = Look(harness, at, told_by(harness) - elsewhere)
        deltas = await stack.enter_async_context(look.at_deltas())
        terminal = await stack.enter_async_context(at.home.terminal())
        if harness not in ("copilot", "droid", "kimi", "opencode"):  # whose sessions begin with their first prompt
            await at.session("attached", "idle", 0)
        session = await look.at_a_turn(terminal)
        before = session.model
        if harness in MODES:
            await look.at_a_mode(terminal)
        if harness in QUESTIONS:
            await look.at_a_question(terminal)
        if harness in COMPACT:
            await look.at_a_compaction(terminal)
        if harness in MODELS:
            await look.at_a_model(terminal)
        assert before not in ("", MODELS.get(harness))
        await terminal.hang_up()
        await at.session("attached", "closed", look.turns)
        look.seen.add("session_end")
        if deltas:
            look.seen.add("text_deltas")
        look.at_log(await at.log(session.id))
        assert look.seen == told_by(harness) - elsewhere


IN_THE_LOG: dict[str, Callable[[Event], bool]] = {
    "prompt": lambda event: isinstance(event, TurnStarted) and event.prompt == PROMPT,
    "words_in_a_turn": lambda event: event == Status(SAID, WORDS),
    "text": lambda event: isinstance(event, Text) and event.text == ANSWER,
    "tool_end": lambda event: isinstance(event, ToolResult) and event.status == "ok",
    "permission_ask": lambda event: isinstance(event, Ask) and event.kind == "permission" and has_command(event),
    "answer_at_the_terminal": lambda event: isinstance(event, Answer) and event.by == AT_THE_TERMINAL,
    "question": lambda event: isinstance(event, Ask) and event.kind == "question",
    "turn_end": lambda event: isinstance(event, Done) and (event.status, event.text) == ("success", ANSWER),
    "compaction": lambda event: isinstance(event, Status) and event.state == "compacted",
    "mode_change": lambda event: isinstance(event, Status) and event.state == MODE,
    "usage": lambda event: isinstance(event, Done) and event.tokens is not None and bool(event.tokens.output),
}


def has_command(event: Ask | ToolUse) -> bool:
    """The whole of it."""
    return isinstance(event.action, Command) and COMMAND in event.action.command


class Look:
    """What a client of the hub sees of what a person does in a terminal."""

    def __init__(self, harness: str, at: Person, facts: set[str]) -> None:
        self._facts = facts
        self.seen: set[str] = set()
        self.turns = 0
        self._harness = harness
        self._at = at

    @asynccontextmanager
    async def at_deltas(self) -> AsyncGenerator[list[str], None]:
        """Pieces of texts, as they come."""
        deltas: list[str] = []

        async def listen() -> None:
            async for frame in self._at.client.stream():
                if isinstance(frame, DeltaFrame) and isinstance(frame.event, TextDelta):
                    deltas.append(frame.event.text)

        listening = asyncio.create_task(listen())
        try:
            yield deltas
        finally:
            await cancel_and_wait(listening)

    def at_log(self, log: list[Event]) -> None:
        self.seen |= {what for what, shows in IN_THE_LOG.items() if any(shows(event) for event in log)}

    async def at_a_turn(self, terminal: TmuxTerminal) -> SessionRecord:
        """With a command that is allowed there, and words while it runs, where they go into the turn."""
        at, project = self._at, self._at.home.project
        answer = Say(ANSWER, delay_s=0.25)  # a text that is whole at once has no deltas
        at.home.rig.play([Say("I will."), asking(self._harness, COMMAND)], [answer])
        await terminal.submit(PROMPT)
        if self._harness in QUESTIONS:
            await at.ask()
            await terminal.answer(QUESTIONS[self._harness], YES[self._harness])
        await eventually((project / "began").exists, "its tool does not run", timeout=BOUND)
        session = await at.session("attached", "working", 0)
        self.seen.add("session_start")
        log = await at.log(session.id)
        if any(isinstance(event, ToolUse) and has_command(event) for event in log):
            self.seen.add("tool_start")
        if "words_in_a_turn" in self._facts:
            await say_in_a_turn(self._harness, terminal, WORDS)
            await words_wait(self._harness, at.home, terminal)
        (project / "go").touch()
        await terminal.shows(ANSWER)
        self.turns = 1
        self.seen.add("idle_or_busy")
        return await at.session("attached", "idle", self.turns)

    async def at_a_mode(self, terminal: TmuxTerminal) -> None:
        await choose_mode(self._harness, terminal)
        await self._turn(terminal, "mode")

    async def at_a_question(self, terminal: TmuxTerminal) -> None:
        at = self._at
        at.home.rig.play(inquiring(self._harness, "Which colour?", ("red", "blue")), [Say("It is chosen.")])
        await terminal.submit("ask me")
        await terminal.shows("Which colour?")
        if "question" in self._facts:
            await at.ask()
        async with asyncio.timeout(BOUND):  # what was asked stays on the screen
            while "It is chosen." not in await terminal.screen():
                await terminal.key("Enter")
                with suppress(AssertionError):
                    await terminal.shows("It is chosen.", timeout=PRESS_AGAIN_S)
        self.turns += 1
        await at.session("attached", "idle", self.turns)

    async def at_a_compaction(self, terminal: TmuxTerminal) -> None:
        command, shown = COMPACT[self._harness]
        if self._harness != "opencode":  # it asks as it does for a title, which the scripted model answers by itself
            self._at.home.rig.play([Say("What was said until now.")])
        await terminal.submit(command)
        await terminal.shows(shown)
        self.turns += self._harness in ("codex", "opencode")  # where it is a turn
        await self._at.session("attached", "idle", self.turns)
        self._at.home.rig.model.drop_replies()  # of a short history Gemini makes no summary
        await self._turn(terminal, "compaction")

    async def at_a_model(self, terminal: TmuxTerminal) -> None:
        await choose_model(self._harness, terminal)
        if self._harness != "codex":  # which tells it at once
            await self._turn(terminal, "model")
        async with asyncio.timeout(BOUND):
            while (await self._at.client.sessions())[0].model != MODELS[self._harness]:  # noqa: ASYNC110 (a client looks)
                await asyncio.sleep(0.1)
        self.seen.add("model_change")

    async def _turn(self, terminal: TmuxTerminal, after: str) -> None:
        self.turns += 1
        await self._at.turn(terminal, f"after the {after}", f"The turn after the {after} has ended.", self.turns)
