"""Mistral Vibe in the mesh: the real one in a real terminal, with what `tieline install` writes, at a real hub."""

from pathlib import Path

import pytest
from tests.harnesses.installed_home import installed_home
from tests.mesh.mcp_clients import OWNER, mesh_hub
from tests.more_agents.python.install import binaries

from tieline.harnesses.vibe.integration import Vibe
from tieline.mesh.framing import NOTICE
from tieline.script import Call, Run, Say
from tieline.testing.harness_terminals import vibe_home
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
BOUND = 180.0


async def test_it_registers_with_its_first_tool_and_has_its_messages_after_a_tool_and_at_the_end_of_a_turn(
    tmp_path: Path,
) -> None:
    async with (
        installed_home(vibe_home(tmp_path, binaries("vibe")), Vibe(), tmp_path) as home,
        mesh_hub(tmp_path) as hub,
        home.terminal() as terminal,
    ):
        look = Call("search_tool_functions", {"query": "send_message"})
        home.rig.play([Run("touch runs; while [ ! -e go ]; do sleep 0.1; done")], [look], [Say("The tool is over.")])
        await terminal.submit("wait for the file")
        await eventually((home.project / "runs").exists, "its command was not run", timeout=BOUND)
        (member,) = [agent for agent in hub.agents if agent.harness == "vibe"]
        assert member.cwd == str(home.project)
        await hub.like(member, "working")
        sent = await hub.mesh.send_message(OWNER, member.name, "news in between")
        (home.project / "go").touch()
        await terminal.shows("The tool is over.")
        heard = home.rig.heard()
        assert NOTICE in heard and "news in between" in heard
        await hub.receipt(sent.id, "seen_at")
        await hub.like(member, "idle")
        prompt = str(home.rig.model.requests[-1]["messages"][-1])
        assert "send_message" in prompt and "tieline" in prompt, "its model does not find our tools"
        # Nothing wakes it: what comes now is handed over at the end of its next turn.
        await hub.mesh.send_message(OWNER, member.name, "for the next turn")
        home.rig.play([Say("Not yet.")], [Say("I have both.")])
        await terminal.submit("go on")
        await terminal.shows("I have both.")
        assert str(home.rig.model.requests[-1]).count("for the next turn") == 1
        await hub.like(member, "idle")
