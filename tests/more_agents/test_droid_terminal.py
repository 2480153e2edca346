"""Droid in the mesh: the real one in a real terminal, with what `tieline install` writes, at a real hub."""

from pathlib import Path

import pytest
from tests.harnesses.installed_home import installed_home
from tests.mesh.mcp_clients import OWNER, mesh_hub
from tests.more_agents.test_droid_attached import PROGRAM, home_of

from tieline.harnesses.droid.integration import Droid
from tieline.mesh.framing import NOTICE
from tieline.script import Run, Say
from tieline.testing.wait_for import eventually

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not PROGRAM.exists(), reason="Droid is pinned for Linux on x86_64 only"),
]
BOUND = 180.0


async def test_it_registers_with_its_first_prompt_and_has_its_messages_after_a_tool_and_at_the_end_of_a_turn(
    tmp_path: Path,
) -> None:
    async with (
        installed_home(home_of(tmp_path, tmp_path), Droid(), tmp_path) as home,
        mesh_hub(tmp_path) as hub,
        home.terminal() as terminal,
    ):
        assert not hub.agents
        wait = "while [ ! -e {0} ]; do sleep 0.1; done"
        home.rig.play(
            [Run(f"touch runs; {wait.format('go')}")],
            [Run(f"touch other; {wait.format('on')}")],
            [Say("The tools are over.", delay_s=1.0)],
            [Say("I have both.")],
        )
        await terminal.submit("wait for the file")
        await eventually((home.project / "runs").exists, "its command was not run", timeout=BOUND)
        (member,) = [agent for agent in hub.agents if agent.harness == "droid"]
        assert member.cwd == str(home.project)
        await hub.like(member, "working")
        await hub.mesh.send_message(OWNER, member.name, "news in between")
        (home.project / "go").touch()
        await eventually((home.project / "other").exists, "its command was not run", timeout=BOUND)
        assert NOTICE in str(home.rig.model.requests[-1]) and "news in between" in str(home.rig.model.requests[-1])
        before = len(home.rig.model.requests)
        (home.project / "on").touch()
        await eventually(lambda: len(home.rig.model.requests) > before, "its model is not asked", timeout=BOUND)
        sent = await hub.mesh.send_message(OWNER, member.name, "the last news")  # no tool comes any more
        await terminal.shows("I have both.")
        assert "the last news" in home.rig.heard()
        await hub.receipt(sent.id, "seen_at")
        await hub.like(member, "idle")
