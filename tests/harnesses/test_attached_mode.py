"""A mode that a person chooses at the terminal is told once, also when the hub was away. The real harnesses in real
terminals."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.harnesses.at_the_terminal import choose_mode
from tests.harnesses.person import person

from tieline.events import Status
from tieline.sessions.attached_session import MODE

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

NAMES = {"claude-code": "acceptEdits", "codex": "plan", "opencode": "plan"}
"""Of the mode that is chosen."""


@pytest.mark.parametrize("harness", NAMES)
async def test_a_mode_that_is_chosen_at_the_terminal_is_told_once(harness: str, tmp_path: Path) -> None:
    mode = NAMES[harness]
    async with AsyncExitStack() as stack:
        at = await person(stack, harness, tmp_path)
        terminal = await stack.enter_async_context(at.home.terminal())
        session = await at.turn(terminal, "the first", "The first has ended.", 1)
        assert session.mode not in ("", mode)
        await choose_mode(harness, terminal)
        await at.turn(terminal, "the second", "The second has ended.", 2)
        await at.kill_hub()  # what it knew of the mode is in the record
        await at.start_hub()
        await at.session("attached", "idle", 2)
        session = await at.turn(terminal, "the third", "The third has ended.", 3)
        assert session.mode == mode
        modes = [event for event in await at.log(session.id) if isinstance(event, Status) and event.state == MODE]
        assert modes == [Status(MODE, mode)]
