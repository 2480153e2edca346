"""Droid in a real terminal, read along: its turns, its tools and what it asks are shown elsewhere, and decided at the
terminal."""

import re
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest
from tests.asks.agents import MORE
from tests.harnesses.test_terminal_events import hold_to_the_table
from tests.more_agents.watched_terminals import WatchedTerminal

from tieline.harnesses.droid.transcript import OUTCOMES, TYPES
from tieline.testing.harness_terminals import HarnessHome, droid_home

PROGRAM = MORE.parent / "@factory/cli-linux-x64/bin/droid"
pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not PROGRAM.exists(), reason="Droid is pinned for Linux on x86_64 only"),
]


def home_of(root: Path, _: Path) -> AbstractAsyncContextManager[HarnessHome]:
    return droid_home(root, PROGRAM.parent)


DROID = WatchedTerminal(
    harness="droid",
    home_of=home_of,
    model="custom:scripted",
    mode="off",
    usage="unknown",
    usage_unseen="unknown",
    goes_on_when_denied=False,
    question=[("Space/Enter/1–9 Select", "Enter")],
    interrupted="Request cancelled by user",
    resume="--resume",
    clear="/new",
)


def test_all_that_droid_can_write_down_is_in_the_table() -> None:
    """Its sources are in its program."""
    program = PROGRAM.read_bytes()
    reasons = re.search(rb'\w\.Completed="completed";(?:\w\.\w+="\w+";?)+\}\)\(yw', program)
    assert reasons is not None
    assert set(re.findall(rb'="(\w+)"', reasons[0])) == {reason.encode() for reason in OUTCOMES}
    assert TYPES


async def test_a_terminal_is_read_and_what_it_asks_is_shown_until_it_is_decided_there(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await DROID.person(stack, tmp_path, asks=True)
        terminal = await stack.enter_async_context(at.home.terminal())
        turns = await DROID.is_read_and_asks(at, terminal, tmp_path)
        await DROID.decides_once(at, terminal, turns)


async def test_each_event_once_when_the_hub_dies_and_the_terminal_after_it(tmp_path: Path) -> None:
    await DROID.tells_each_event_once(tmp_path)


async def test_what_it_tells_is_what_the_table_says(tmp_path: Path) -> None:
    await hold_to_the_table("droid", home_of, tmp_path, elsewhere=frozenset({"compaction"}))


async def test_six_turns_at_the_terminal_on_the_phone_and_at_the_terminal_again(tmp_path: Path) -> None:
    await DROID.is_taken_over_under_full_alone(tmp_path)
