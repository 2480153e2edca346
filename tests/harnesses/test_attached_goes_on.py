"""A person's terminal goes on whatever happens beside it: words in the middle of a turn, a hub that is killed, a
conversation that is compacted or cleared, a directory that is off for a while. The log has each event once, in order.
The real harnesses in real terminals, with a hub of its own process."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.harnesses.at_the_terminal import words_wait
from tests.harnesses.desk import BOUND
from tests.harnesses.person import Person, person

from tieline.events import Answer, Ask, Done, Event, Init, Status, Text, ToolResult, ToolUse, TurnStarted
from tieline.script import Run, Say, Write
from tieline.sessions.attached_session import SAID
from tieline.testing.tmux_terminal import TmuxTerminal
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

ARGUMENTS = {"claude-code": ("--allowedTools", "Bash")}
COMPACTED = {"claude-code": "Compacted", "codex": "Context compacted", "opencode": "Compaction · Scripted"}
COMPACTION_TURNS = {"claude-code": [], "codex": [""], "opencode": ["/compact"]}
"""The prompts of the turns that a compaction is, where it is one."""
PRIVATE = "between you and me"


@pytest.mark.parametrize("harness", ["claude-code", "codex", "opencode"])
async def test_each_event_once_whatever_happens_beside_the_terminal(harness: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await person(stack, harness, tmp_path)
        terminal = await stack.enter_async_context(at.home.terminal(*ARGUMENTS.get(harness, ())))
        session = await words_in_the_middle_of_a_turn(harness, at, terminal)
        (member,) = await at.client.members(harness=harness)

        if harness != "opencode":  # it asks as it does for a title, which the scripted model answers by itself
            at.home.rig.play([Say("What was said until now.")])
        await terminal.submit("/compact")
        await terminal.shows(COMPACTED[harness])
        compaction = COMPACTION_TURNS[harness]
        turns = 1 + len(compaction)
        await at.session("attached", "idle", turns)
        await at.turn(terminal, "the second", "The second has ended.", turns + 1)
        events = await logged(at, session, lambda events: len(ended(events)) == turns + 1)
        assert prompts(events) == ["the first", *compaction, "the second"]
        assert [event.state for event in events if isinstance(event, Status)].count("compacted") == 1
        assert [view.id for view in await at.client.members(harness=harness)] == [member.id]

        # Nothing of the time is read in which the directory was off.
        await switch(at, "off")
        await at.session("attached", "closed", turns + 1)
        at.home.rig.play([Say("That stays here.")])
        await terminal.submit(PRIVATE)
        await terminal.shows("That stays here.")
        assert (await at.session("attached", "closed", turns + 1)).id == session
        await switch(at, "on")
        assert (await at.session("attached", "idle", turns + 1)).id == session
        await at.turn(terminal, "the third", "The third has ended.", turns + 2)
        events = await logged(at, session, lambda events: len(ended(events)) == turns + 2)
        assert prompts(events) == ["the first", *compaction, "the second", "the third"]
        assert ended(events) == ["success"] * (turns + 2)
        assert not [event for event in events if PRIVATE in str(event) or "That stays here." in str(event)]
        each_once(events)
        if harness == "claude-code":
            await asked_while_the_hub_dies_and_cleared(at, terminal, session, events)


@pytest.mark.parametrize("harness", ["claude-code", "codex", "opencode"])
async def test_turns_without_a_hub_are_told_once_when_it_is_back(harness: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await person(stack, harness, tmp_path)
        terminal = await stack.enter_async_context(at.home.terminal(*ARGUMENTS.get(harness, ())))
        session = (await at.turn(terminal, "the first", "The first has ended.", 1)).id
        await at.kill_hub()
        for number in ("second", "third"):
            at.home.rig.play([Run(f"touch {number}")], [Say(f"The {number} has ended.")])
            await terminal.submit(f"the {number}")
            await terminal.shows(f"The {number} has ended.")
        await at.start_hub()
        events = await logged(at, session, lambda events: len(ended(events)) == 3)
        await at.turn(terminal, "the fourth", "The fourth has ended.", 4)
        await at.kill_hub()
        await at.start_hub()
        assert (await at.session("attached", "idle", 4)).id == session
        events = await logged(at, session, lambda events: len(ended(events)) == 4)
        each_once(events)
        assert prompts(events) == ["the first", "the second", "the third", "the fourth"]
        assert ended(events) == ["success"] * 4
        assert [event.status for event in events if isinstance(event, ToolResult)] == ["ok"] * 2
        status, shown = await at.tieline("sessions")
        assert status == 0 and "terminal" in shown, shown


async def words_in_the_middle_of_a_turn(harness: str, at: Person, terminal: TmuxTerminal) -> str:
    """The session. The hub is killed after the words were told."""
    project = at.home.project
    at.home.rig.play([until_exists("one")], [until_exists("two")], [Say("The first has ended.")])
    await terminal.submit("the first")
    await eventually((project / "one-began").exists, "its tool does not run", timeout=BOUND)
    session = (await at.session("attached", "working", 0)).id
    await terminal.submit("words in between")
    await words_wait(harness, at.home, terminal)
    (project / "one").touch()
    await eventually((project / "two-began").exists, "it does not go on", timeout=BOUND)
    await logged(at, session, lambda events: len([event for event in events if isinstance(event, ToolUse)]) == 2)
    await at.kill_hub()
    await at.start_hub()
    (project / "two").touch()
    await terminal.shows("The first has ended.")
    await at.session("attached", "idle", 1)
    events = await logged(at, session, lambda events: len(ended(events)) == 1)
    each_once(events)
    assert "words in between" in at.home.rig.heard()
    words = [event.detail for event in events if isinstance(event, Status) and event.state == SAID]
    assert words == ["words in between"]
    order = [event.type for event in events if isinstance(event, ToolUse | Text) or event == Status(SAID, *words)]
    assert order.index("tool_use") < order.index("status") < order.index("text")
    return session


async def asked_while_the_hub_dies_and_cleared(
    at: Person, terminal: TmuxTerminal, session: str, events: list[Event]
) -> None:
    """What is asked is the terminal's to answer from then on, and the log says so. A cleared one is another session."""
    turns = len(ended(events)) + 1
    at.home.rig.play([Write("asked.txt", "hello")], [Say("The fourth has ended.")])
    await terminal.submit("the fourth")
    await terminal.shows("Do you want to create asked.txt?")
    lost = await at.ask()
    await at.kill_hub()
    await at.start_hub()
    async with asyncio.timeout(BOUND):
        while await at.client.asks():  # noqa: ASYNC110 (as a person looks)
            await asyncio.sleep(0.1)
    await terminal.answer("Do you want to create asked.txt?", "Enter")
    await terminal.shows("The fourth has ended.")
    await at.session("attached", "idle", turns)
    events = await logged(at, session, lambda events: len(ended(events)) == turns)
    each_once(events)
    assert [event.id for event in events if isinstance(event, Ask)] == [lost.id]
    assert [event.ask for event in events if isinstance(event, Answer)] == [lost.id]

    await terminal.submit("/clear")
    await at.turn(terminal, "the fifth", "The fifth has ended.", 1)
    new, old = await at.client.sessions()
    assert (new.id != session, old.id, old.status) == (True, session, "closed")
    assert prompts(await logged(at, new.id, lambda events: len(ended(events)) == 1)) == ["the fifth"]
    assert await at.log(session) == events


def until_exists(name: str) -> Run:
    return Run(f"touch {name}-began; until test -e {name}; do sleep 0.1; done")


async def switch(at: Person, to: str) -> None:
    status, output = await at.tieline("attach", to)
    assert status == 0, output


async def logged(at: Person, session: str, whole: Callable[[list[Event]], bool]) -> list[Event]:
    """The log, once it is like that."""
    events: list[Event] = []
    try:
        async with asyncio.timeout(BOUND):
            while not whole(events := await at.log(session)):  # noqa: ASYNC110 (as a client looks)
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"the log stays as it is: {events}") from None
    return events


def prompts(events: list[Event]) -> list[str]:
    return [event.prompt for event in events if isinstance(event, TurnStarted)]


def ended(events: list[Event]) -> list[str]:
    return [event.status for event in events if isinstance(event, Done)]


def each_once(events: list[Event]) -> None:
    ids = [(event.type, event.id) for event in events if isinstance(event, ToolUse | ToolResult | TurnStarted | Ask)]
    ids += [(event.type, event.item) for event in events if isinstance(event, Text)]
    assert len(ids) == len(set(ids))
    assert sum(isinstance(event, Init) for event in events) == 1
    turns = [event.type for event in events if isinstance(event, TurnStarted | Done)]
    assert turns == ["turn_started", "done"] * (len(turns) // 2)
