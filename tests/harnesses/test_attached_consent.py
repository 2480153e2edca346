"""Nothing of a session is read that began before its person agreed. The real harnesses in real terminals, with a hub of
its own process."""

import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.harnesses.person import person

from tieline.events import TurnStarted
from tieline.harnesses.attach_consent import STARTS_S
from tieline.script import Say
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.mark.parametrize("harness", ["claude-code", "codex", "opencode", "gemini"])
async def test_a_session_that_began_before_the_consent_is_never_read(harness: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await person(stack, harness, tmp_path, attach=False)
        earlier = await stack.enter_async_context(at.home.terminal())
        at.home.rig.play([Say("That was before.")])
        await earlier.submit("said before")
        await earlier.shows("That was before.")
        said_at = time.time()
        await eventually(lambda: time.time() - said_at > STARTS_S + 1, "no time passes")  # their clocks are rounded
        status, output = await at.tieline("install", harness, "--attach", "--yes")
        assert status == 0, output
        at.home.rig.play([Say("That was after.")])
        await earlier.submit("said after")
        await earlier.shows("That was after.")
        # One that begins now is read; by then the other one would be as well.
        terminal = await stack.enter_async_context(at.home.terminal())
        await at.turn(terminal, "said in another", "That is another.", 1)
        at.home.rig.play([Say("That was last.")])
        await earlier.submit("said at last")
        await earlier.shows("That was last.")
        await at.turn(terminal, "said once more", "That is the end.", 2)
        (session,) = await at.client.sessions()
        prompts = [event.prompt for event in await at.log(session.id) if isinstance(event, TurnStarted)]
        assert prompts == ["said in another", "said once more"]
