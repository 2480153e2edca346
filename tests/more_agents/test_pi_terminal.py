"""Pi in the mesh: the real Pi in a real terminal, with what `tieline install` writes, at a real hub."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.asks.agents import MORE
from tests.harnesses.installed_home import installed_home
from tests.mesh.mcp_clients import OWNER, call, mesh_hub

import tieline
from tieline.drivers.pi.driver import create
from tieline.harnesses.pi.integration import PiIntegration
from tieline.mesh.framing import NOTICE, TAG
from tieline.policy import preset
from tieline.script import Call, Run, Say
from tieline.testing.harness_terminals import pi_home
from tieline.testing.rigs.pi import MODEL
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

BOUND = 120.0
WAIT = Run("touch runs; while [ ! -e go ]; do sleep 0.1; done")


async def test_an_idle_terminal_wakes_and_answers_also_after_the_hub_was_away(tmp_path: Path) -> None:
    async with installed_home(pi_home(tmp_path, MORE), PiIntegration(), tmp_path) as home, AsyncExitStack() as stack:
        async with mesh_hub(tmp_path) as hub:
            terminal = await stack.enter_async_context(home.terminal())
            member = await hub.only_agent()
            assert (member.harness, member.cwd) == ("pi", str(home.project))
            async with hub.client("other") as other:
                await call(other, "register_agent", name="other")
            reply = Call("tieline_send_message", {"to": "@other", "text": "my answer"})
            home.rig.play([reply], [Say("The first has come.")])
            sent = await hub.mesh.send_message(OWNER, member.name, "the first message")
            await terminal.shows("The first has come.")
            asked = str(home.rig.model.requests[-2])
            assert NOTICE in asked and f"<{TAG}-" in asked and "the first message" in asked
            assert "Other agents on this machine (Tieline)" in asked
            await hub.like(member, "idle")
            await hub.receipt(sent.id, "seen_at")
            async with hub.client("other") as other:
                (answer,) = (await call(other, "fetch_messages"))["messages"]
            assert answer["sender"] == member.name and "my answer" in answer["text"]
        # The hub is away: the person notices nothing.
        home.rig.play([Call("tieline_list_agents", {})], [Say("Without a hub.")])
        await terminal.submit("go on alone")
        await terminal.shows("Without a hub.")
        assert "hub does not run" in str(home.rig.model.requests[-1])
        async with mesh_hub(tmp_path) as hub:
            await hub.like(member, "idle")
            home.rig.play([Say("The second has come.")])
            await hub.mesh.send_message(OWNER, member.name, "the second message")
            await terminal.shows("The second has come.")
            assert str(home.rig.model.requests[-1]).count("the first message") == 1
            await stack.aclose()
            await hub.like(member, "unknown", ended=True)


async def test_a_message_gets_into_a_running_turn_and_none_is_lost_when_the_turn_is_stopped(tmp_path: Path) -> None:
    async with (
        installed_home(pi_home(tmp_path, MORE), PiIntegration(), tmp_path) as home,
        mesh_hub(tmp_path) as hub,
        home.terminal() as terminal,
    ):
        member = await hub.only_agent()
        home.rig.play([WAIT], [Say("It is over.")])
        await terminal.submit("wait for the file")
        await hub.like(member, "working")
        await eventually((home.project / "runs").exists, "its command was not run", timeout=BOUND)
        sent = await hub.mesh.send_message(OWNER, member.name, "news in between")
        await terminal.shows("Message from owner")
        assert "news in between" not in home.rig.heard()  # the tool is not interrupted
        await eventually(lambda: hub.mesh.mailbox.unread(member.address) == 0, "Pi did not take it", timeout=BOUND)
        (home.project / "go").touch()
        await terminal.shows("It is over.")
        assert "news in between" in home.rig.heard()
        await hub.like(member, "idle")
        # Its person stops the next turn before that has what came for it.
        for name in ("runs", "go"):
            (home.project / name).unlink()
        home.rig.play([WAIT])
        await terminal.submit("wait once more")
        await eventually((home.project / "runs").exists, "its command was not run", timeout=BOUND)
        sent = await hub.mesh.send_message(OWNER, member.name, "for the next turn")
        await eventually(lambda: hub.mesh.mailbox.unread(member.address) == 0, "Pi did not take it", timeout=BOUND)
        await terminal.key("Escape")
        await hub.like(member, "idle")
        home.rig.play([Say("I have both.")])
        await terminal.submit("go on")
        await terminal.shows("I have both.")
        heard = str(home.rig.model.requests[-1])
        assert heard.count("for the next turn") == 1 and heard.count("news in between") == 1
        await hub.receipt(sent.id, "seen_at")


async def test_a_session_that_tieline_drives_is_left_alone(tmp_path: Path) -> None:
    async with installed_home(pi_home(tmp_path, MORE), PiIntegration(), tmp_path) as home, mesh_hub(tmp_path) as hub:
        home.rig.play([Say("Driven.")])
        driver = create("pi", {"command": [str(MORE / "pi")]})
        opened = tieline.open_session(driver, cwd=home.project, policy=preset("full"), env=dict(home.env), model=MODEL)
        async with opened as driven:
            async for _event in driven.turn("hello"):
                pass
        tools = str(home.rig.model.requests[-1]["tools"])
        assert "bash" in tools and "tieline_" not in tools
        assert not hub.agents
