"""A person's Pi in a real terminal, read along by its extension, prompted, steered and interrupted from elsewhere."""

import os
import signal
import time
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest
from tests.asks.agents import MORE
from tests.harnesses.desk import BOUND
from tests.harnesses.person import Person, person
from tests.harnesses.test_terminal_events import hold_to_the_table

from tieline.events import Done, Error, Event, Init, Status, Text, ToolResult, ToolUse, TurnStarted
from tieline.mesh.plugin_connector import FIRST_LOOK_S
from tieline.processes.process_table import running_process
from tieline.script import Run, Say
from tieline.sessions.attached_session import SAID
from tieline.testing.harness_terminals import HarnessHome, pi_home
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
WAIT = Run("touch begun; while [ ! -e go ]; do sleep 0.1; done")


def home_of(root: Path, binaries: Path) -> AbstractAsyncContextManager[HarnessHome]:
    return pi_home(root, MORE)


async def pi(stack: AsyncExitStack, root: Path) -> Person:
    return await person(stack, "pi", root, home_of=home_of)


async def test_it_tells_what_the_table_says(tmp_path: Path) -> None:
    await hold_to_the_table("pi", home_of, tmp_path)


async def turn(at: Person, count: int) -> list[Event]:
    """The events of the `count`-th turn, once it is over. Each event is told once."""
    session = await at.session("attached", "idle", count)
    events = await at.log(session.id)
    ids = [(event.type, event.id) for event in events if isinstance(event, ToolUse | ToolResult | TurnStarted)]
    ids += [(event.type, event.item) for event in events if isinstance(event, Text)]
    assert len(ids) == len(set(ids))
    assert sum(isinstance(event, Init) for event in events) == 1
    starts = [index for index, event in enumerate(events) if isinstance(event, TurnStarted)]
    assert len(starts) == count
    return events[starts[-1] :]


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


async def test_a_terminal_is_read_and_prompted_steered_and_interrupted_from_elsewhere(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await pi(stack, tmp_path)
        terminal = await stack.enter_async_context(at.home.terminal())
        session = await at.session("attached", "idle", 0)
        assert (session.agent, session.cwd) == ("pi", str(at.home.project))
        assert set(session.remote) == {"prompt", "steer", "abort"}

        # Typed there: shown here.
        at.home.rig.play([Say("I will."), Run("echo from the tool")], [Say("It is done.")])
        await terminal.submit("do it")
        await terminal.shows("It is done.")
        events = await turn(at, 1)
        assert kinds(events) == ["TurnStarted", "Init", "Text", "ToolUse", "ToolResult", "Text", "Done"]
        started, done = events[0], events[-1]
        assert isinstance(started, TurnStarted) and started.prompt == "do it"
        assert isinstance(done, Done)
        assert (done.status, done.text, done.usage) == ("success", "It is done.", "complete")
        assert done.tokens is not None and done.tokens.output
        (result,) = (event for event in events if isinstance(event, ToolResult))
        assert (result.status, result.output.strip()) == ("ok", "from the tool")

        # Said here: done there. In the middle of the turn it hears one thing more.
        at.home.rig.play([WAIT], [Say("The second has ended.")])
        await at.client.prompt(session.id, "the second")
        await eventually((at.home.project / "begun").exists, "its tool does not run", timeout=BOUND)
        await at.session("attached", "working", 1)
        await at.client.steer(session.id, "mind the pelican")
        (at.home.project / "go").touch()
        await terminal.shows("The second has ended.")
        events = await turn(at, 2)
        assert [event.detail for event in events if isinstance(event, Status) and event.state == SAID] == [
            "mind the pelican"
        ]
        assert "mind the pelican" in at.home.rig.heard()

        # Interrupted here.
        for name in ("begun", "go"):
            (at.home.project / name).unlink()
        at.home.rig.play([WAIT])
        await terminal.submit("the third")
        await eventually((at.home.project / "begun").exists, "its tool does not run", timeout=BOUND)
        await at.session("attached", "working", 2)
        await at.client.abort(session.id)
        events = await turn(at, 3)
        assert [event.status for event in events if isinstance(event, Done)] == ["interrupted"]


async def test_each_event_once_when_the_hub_dies_and_the_terminal_after_it(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await pi(stack, tmp_path)
        terminal = await stack.enter_async_context(at.home.terminal())
        session = await at.session("attached", "idle", 0)
        at.home.rig.play([WAIT], [Say("The first has ended.")])
        await terminal.submit("the first")
        await eventually((at.home.project / "begun").exists, "its tool does not run", timeout=BOUND)
        await at.session("attached", "working", 0)
        process = running_process((await at.session("attached", "working", 0)).process)
        await at.kill_hub()
        os.kill(process, signal.SIGTTOU)  # it is slower than the hub's first look; tmux undoes a SIGSTOP
        await at.start_hub()
        started = time.monotonic()
        await eventually(lambda: time.monotonic() - started > FIRST_LOOK_S + 1, "no time passes")
        os.kill(process, signal.SIGCONT)
        (at.home.project / "go").touch()
        await terminal.shows("The first has ended.")
        assert kinds(await turn(at, 1)) == ["TurnStarted", "Init", "ToolUse", "ToolResult", "Text", "Done"]

        # A turn of which the hub heard nothing.
        await at.kill_hub()
        at.home.rig.play([Run("touch second")], [Say("The second has ended.")])
        await terminal.submit("the second")
        await terminal.shows("The second has ended.")
        await at.start_hub()
        assert kinds(await turn(at, 2)) == ["TurnStarted", "ToolUse", "ToolResult", "Text", "Done"]

        at.home.rig.play([Run("touch third; sleep 600")])
        await terminal.submit("the third")
        await eventually((at.home.project / "third").exists, "its tool does not run", timeout=BOUND)
        await at.session("attached", "working", 2)
        await terminal.kill()
        closed = await at.session("attached", "closed", 3)
        assert closed.id == session.id
        events = await at.log(session.id)
        assert [type(event) for event in events[-4:]] == [ToolUse, ToolResult, Error, Done]

        # Resumed in another terminal it is the same session.
        again = await stack.enter_async_context(at.home.terminal("--session", session.native_id))
        await again.shows("The second has ended.")
        assert (await at.session("attached", "idle", 3)).id == session.id
