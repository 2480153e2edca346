"""Mistral Vibe in a real terminal, read along: its turns, its tools and what it asks are shown elsewhere, and decided
at the terminal."""

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest
from tests.harnesses.test_adopt_and_return import six_turns
from tests.harnesses.test_terminal_events import hold_to_the_table
from tests.more_agents.python.install import binaries
from tests.more_agents.watched_terminals import WatchedTerminal

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


async def test_six_turns_at_the_terminal_on_the_phone_and_at_the_terminal_again(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        await six_turns(stack, await VIBE.person(stack, tmp_path))
