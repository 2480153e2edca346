"""A hub that was away while a person worked in a terminal for hours: all of it is in the log when it is back, each
event once and in order, and is found by the search. The real harnesses in real terminals, with a hub of its own
process."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from tests.harnesses.desk import BOUND, RESUME
from tests.harnesses.hours_of_work import last_turn_written, repeat_last_turn, text_of
from tests.harnesses.person import Person, person
from tests.harnesses.test_attached_goes_on import ARGUMENTS, each_once, ended, prompts

from tieline.events import Text, ToolResult, ToolUse
from tieline.script import Run, Say
from tieline.testing.tmux_terminal import TmuxTerminal

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

TURNS = 300


@pytest.mark.parametrize("harness", ["claude-code", "codex", "opencode", "gemini"])
async def test_hours_of_work_without_a_hub_are_told_once_when_it_is_back(harness: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await person(stack, harness, tmp_path)
        terminal = await stack.enter_async_context(at.home.terminal(*ARGUMENTS.get(harness, ())))
        await turn(at, terminal, 0)
        session = await at.session("attached", "idle", 1)
        await at.kill_hub()
        await turn(at, terminal, 1)
        if harness == "codex":  # whose daemon has a thread that is open in its memory
            await last_turn_written(harness, at.home.home, answer_of(1))
            await terminal.hang_up()
            end_daemon(at)
        await repeat_last_turn(harness, at.home.home, session.native_id, answer_of(1), range(2, TURNS))
        if harness == "codex":
            resumed = at.home.terminal(*RESUME[harness], session.native_id)
            terminal = await stack.enter_async_context(resumed)
        await at.start_hub()
        await at.session("attached", "idle", TURNS)
        await turn(at, terminal, TURNS)
        await at.session("attached", "idle", TURNS + 1)
        events = await at.log(session.id)
        assert prompts(events) == [f"please look at {text_of(number)}" for number in range(TURNS + 1)]
        assert ended(events) == ["success"] * (TURNS + 1)
        assert [event.text for event in events if isinstance(event, Text)] == [
            answer_of(number) for number in range(TURNS + 1)
        ]
        commands = [str(event.action) for event in events if isinstance(event, ToolUse)]
        assert [text_of(number) in command for number, command in enumerate(commands)] == [True] * (TURNS + 1)
        assert [event.status for event in events if isinstance(event, ToolResult)] == ["ok"] * (TURNS + 1)
        each_once(events)

        await wait_for_search(at, f'"Seen: {text_of(TURNS // 2)}"', session.id)
        await at.kill_hub()
        await at.start_hub()
        assert (await at.session("attached", "idle", TURNS + 1)).id == session.id
        assert await at.log(session.id) == events


def end_daemon(at: Person) -> None:
    file = at.home.home / ".codex/app-server-daemon/daemon.pid"
    os.kill(msgspec.json.decode(file.read_bytes())["pid"], signal.SIGKILL)


def answer_of(number: int) -> str:
    return f"Seen: {text_of(number)}."


async def turn(at: Person, terminal: TmuxTerminal, number: int) -> None:
    text = text_of(number)
    at.home.rig.play([Run(f"echo {text}")], [Say(answer_of(number))])
    await terminal.submit(f"please look at {text}")
    await terminal.shows(answer_of(number))


async def wait_for_search(at: Person, words: str, session: str) -> None:
    """By `tieline search`, once the hub has got as far in the log."""
    async with asyncio.timeout(BOUND):
        while True:
            status, shown = await at.tieline("search", words, "--json")
            assert status == 0, shown
            if session in shown:
                return
