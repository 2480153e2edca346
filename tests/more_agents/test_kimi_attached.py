"""Kimi Code in a real terminal, read along: its turns, its tools and what it asks are shown elsewhere, and decided
at the terminal."""

import re
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest
from tests.asks.agents import MORE
from tests.harnesses.at_the_terminal import QUESTIONS
from tests.harnesses.test_terminal_events import hold_to_the_table
from tests.more_agents.test_qwen_terminal import answers, kinds, turn
from tests.more_agents.watched_terminals import WatchedTerminal

from tieline.events import Command, Done
from tieline.harnesses.kimi.transcript import LOOP, TYPES
from tieline.script import Call, Run, Say
from tieline.sessions.attached_session import ANSWER_THERE
from tieline.testing.harness_terminals import HarnessHome, kimi_home

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
PROGRAM = MORE.parent / "@moonshot-ai/kimi-code/dist/main.mjs"
CLASS = re.compile(r'static type = "([^"]+)";(?:\s+static \w+ = [^;]+;)*?\s+static durable = true;')
"""An event of Kimi's that it writes down."""
JOURNAL = re.compile(r"AGENT_WIRE_RECORD_TYPES = new Set\(\[(.*?)\]\)", re.DOTALL)
READER, READER_LENGTH = 'case "micro_compaction.apply":', 4000
"""Where its own viewer of records reads one of each kind, also of older versions."""
LOOP_EVENT = re.compile(r'\n\t+type: "((?:step|content|tool)\.(?:begin|end|part|call|result))",\n')


def home_of(root: Path, _: Path) -> AbstractAsyncContextManager[HarnessHome]:
    return kimi_home(root, MORE)


KIMI = WatchedTerminal(
    harness="kimi",
    home_of=home_of,
    mode="manual",
    question=[("[3] Other", "Enter"), ("Ready to submit", "Enter")],
    interrupted="Interrupted by user",
    resume="--session",
    clear="/new",
)


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
        at = await KIMI.person(stack, tmp_path, asks=True)
        terminal = await stack.enter_async_context(at.home.terminal())
        turns = await KIMI.is_read_and_asks(at, terminal, tmp_path)

        # What a subagent asks is shown as well; what it spends is not told.
        work = Call("Agent", {"description": "look", "prompt": "run a command", "subagent_type": "coder"})
        at.home.rig.play([work], [Run("touch below")], [Say("It is there.")], [Say("It was delegated.")])
        await terminal.submit("delegate it")
        ask = await at.ask()
        assert isinstance(ask.ask.action, Command) and ask.ask.action.command == "touch below"
        assert ask.ask.at_terminal == ANSWER_THERE
        await terminal.answer(QUESTIONS["kimi"], "Enter")
        events = await turn(at, terminal, turns + 1, "It was delegated.")
        assert kinds(events) == ["TurnStarted", "ToolUse", "Ask", "Answer", "ToolResult", "Text", "Done"]
        assert answers(events) == [("terminal", "allow")]
        assert isinstance(done := events[-1], Done) and done.usage == "partial"

        await KIMI.decides_once(at, terminal, turns + 1)


async def test_each_event_once_when_the_hub_dies_and_the_terminal_after_it(tmp_path: Path) -> None:
    await KIMI.tells_each_event_once(tmp_path)


async def test_what_it_tells_is_what_the_table_says(tmp_path: Path) -> None:
    await hold_to_the_table("kimi", home_of, tmp_path)


async def test_six_turns_at_the_terminal_on_the_phone_and_at_the_terminal_again(tmp_path: Path) -> None:
    await KIMI.is_taken_over_under_full_alone(tmp_path)
