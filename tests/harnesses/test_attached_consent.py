"""Nothing of a session is read that began before its person agreed. The real harnesses in real terminals, with a hub of
its own process."""

import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.harnesses.person import Person, person

from tieline.events import TurnStarted
from tieline.harnesses.attach_consent import STARTS_S
from tieline.script import Say
from tieline.testing.wait_for import eventually

NEW = {"claude-code": "/clear", "codex": "/new", "opencode": "/new", "gemini": "/clear"}
"""How a person begins a new conversation in a terminal that is open."""

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
        assert await prompts_of(at, session.id) == ["said in another", "said once more"]
        await earlier.submit(NEW[harness])
        if harness == "gemini":  # which takes no words while it clears its screen
            await earlier.until(lambda screen: "That was last." not in screen, "an empty screen")
        at.home.rig.play([Say("That is new.")])
        await earlier.submit("said in a new one")
        await earlier.shows("That is new.")
        new = await at.session("attached", "idle", 1)
        assert await prompts_of(at, new.id) == ["said in a new one"], "a conversation that began after it is read"


async def prompts_of(at: Person, session: str) -> list[str]:
    return [event.prompt for event in await at.log(session) if isinstance(event, TurnStarted)]
