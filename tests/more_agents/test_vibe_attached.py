"""Mistral Vibe in a real terminal, read along: its turns, its tools and what it asks are shown elsewhere, and decided
at the terminal."""

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest
from tests.harnesses.test_terminal_events import hold_to_the_table
from tests.more_agents.python.install import binaries
from tests.more_agents.watched_terminals import WatchedTerminal

from tieline.script import Say
from tieline.testing.harness_terminals import HarnessHome, vibe_home

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def home_of(root: Path, _: Path) -> AbstractAsyncContextManager[HarnessHome]:
    return vibe_home(root, binaries("vibe"))


VIBE = WatchedTerminal(
    harness="vibe",
    home_of=home_of,
    at_once=True,
    usage_unseen="unknown",
    question=[("Enter select", "Enter")],
    interrupted="Interrupted",
    resume="--resume",
    clear="/clear",
)


async def test_a_terminal_is_read_and_what_it_asks_is_shown_until_it_is_decided_there(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await VIBE.person(stack, tmp_path, asks=True)
        terminal = await stack.enter_async_context(at.home.terminal())
        turns = await VIBE.is_read_and_asks(at, terminal, tmp_path)
        await VIBE.decides_once(at, terminal, turns)


async def test_each_event_once_when_the_hub_dies_and_the_terminal_after_it(tmp_path: Path) -> None:
    await VIBE.tells_each_event_once(tmp_path)


async def test_what_it_tells_is_what_the_table_says(tmp_path: Path) -> None:
    await hold_to_the_table("vibe", home_of, tmp_path)


async def test_a_session_of_its_terminal_cannot_be_taken_over(tmp_path: Path) -> None:
    """Vibe opens none without subagents that had them, and their profiles lift what is asked. It is said at once, and
    the terminal has its session as before."""
    async with AsyncExitStack() as stack:
        at = await VIBE.person(stack, tmp_path)
        terminal = await stack.enter_async_context(at.home.terminal())
        session = await at.turn(terminal, "say hello", "Hello.", 1)
        await terminal.hang_up()
        await at.session("attached", "closed", 1)
        status, output = await at.tieline("adopt", session.id)
        assert status != 0 and "Tieline runs Vibe without subagents" in output
        assert (await at.session("attached", "closed", 1)).id == session.id
        status, command = await at.tieline("open", session.id, "--terminal", "--print")
        assert status == 0, command
        again = await stack.enter_async_context(at.home.terminal_of("sh", "-c", command))
        at.home.rig.play([Say("Here again.")])
        await again.submit("and now")
        await again.shows("Here again.")
