"""Copilot CLI with `--experimental` in a real terminal: the extension that `tieline install` writes wakes it when it is
idle, and it is prompted, steered and interrupted from elsewhere."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.asks.agents import BINARIES
from tests.harnesses.desk import BOUND
from tests.harnesses.installed_home import installed_home
from tests.harnesses.person import person
from tests.mesh.mcp_clients import OWNER, mesh_hub
from tests.more_agents.test_qwen_terminal import kinds, turn

from tieline.events import Done, Status, TurnStarted
from tieline.harnesses.copilot.integration import Copilot
from tieline.mesh.framing import NOTICE, TAG
from tieline.script import Run, Say, Stall
from tieline.sessions.attached_session import SAID
from tieline.testing.harness_terminals import copilot_home
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
BY_EXTENSION = ("prompt", "steer", "abort")


async def test_an_idle_terminal_is_woken_and_a_running_turn_gets_a_message(tmp_path: Path) -> None:
    async with (
        installed_home(copilot_home(tmp_path, BINARIES), Copilot(), tmp_path) as home,
        mesh_hub(tmp_path) as hub,
        AsyncExitStack() as stack,
    ):
        terminal = await stack.enter_async_context(home.terminal("--experimental"))
        member = await hub.only_agent()
        assert (member.harness, member.cwd) == ("copilot", str(home.project))
        home.rig.play([Say("I am awake.")])
        sent = await hub.mesh.send_message(OWNER, member.name, "wake up, Copilot")
        await terminal.shows("I am awake.")
        heard = home.rig.heard()
        assert "wake up, Copilot" in heard
        assert NOTICE in heard and f"{TAG}-" in heard, "it is not framed as a peer's words"
        await hub.receipt(sent.id, "seen_at")
        await hub.like(member, "idle")

        home.rig.play([Run("touch begun; until test -e go; do sleep 0.1; done")], [Say("It has come.")])
        await terminal.submit("run it")
        await eventually((home.project / "begun").exists, "its tool does not run", timeout=BOUND)
        await hub.like(member, "working")
        between = await hub.mesh.send_message(OWNER, member.name, "a word in between")
        await hub.receipt(between.id, "injected_at")
        (home.project / "go").touch()
        await terminal.shows("It has come.")
        assert "a word in between" in home.rig.heard()
        await terminal.kill()
        await hub.like(member, "unknown", ended=True)


async def test_it_is_prompted_steered_and_interrupted_from_elsewhere(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await person(stack, "copilot", tmp_path, home_of=copilot_home)
        project, play = at.home.project, at.home.rig.play
        terminal = await stack.enter_async_context(at.home.terminal("--experimental"))
        play([Say("Hello.")])
        await terminal.submit("say hello")
        await turn(at, terminal, 1, "Hello.")
        session = await at.session("attached", "idle", 1)
        await at.takes(session.id, BY_EXTENSION)

        play([Say("Hello, phone.")])
        await at.client.prompt(session.id, "a word from the phone")
        told = await turn(at, terminal, 2, "Hello, phone.")
        assert isinstance(told[0], TurnStarted) and told[0].prompt == "a word from the phone"
        assert kinds(told) == ["TurnStarted", "Text", "Done"]

        play([Run("touch begun; until test -e go; do sleep 0.1; done")], [Say("I have read them.")])
        await terminal.submit("run it")
        await eventually((project / "begun").exists, "its tool does not run", timeout=BOUND)
        await at.session("attached", "working", 2)
        await at.client.steer(session.id, "words in between")
        (project / "go").touch()
        told = await turn(at, terminal, 3, "I have read them.")
        assert Status(SAID, "words in between") in told

        play([Say("Half an answer"), Stall()])
        await terminal.submit("say something long")
        await terminal.shows("Half an answer")
        await at.session("attached", "working", 3)
        await at.client.abort(session.id)
        told = await turn(at, terminal, 4)
        assert isinstance(done := told[-1], Done) and done.status == "interrupted"

        # A hub that dies finds it again.
        await at.kill_hub()
        await at.start_hub()
        await at.takes(session.id, BY_EXTENSION)
        await terminal.kill()
        await at.session("attached", "closed", 4)
