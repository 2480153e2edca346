"""Qwen Code in the mesh: the real one in a real terminal, with what `tieline install` writes, at a real hub."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.asks.agents import BINARIES
from tests.harnesses.installed_home import installed_home
from tests.mesh.mcp_clients import OWNER, mesh_hub

from tieline.harnesses.qwen import Qwen
from tieline.mesh.framing import NOTICE, TAG
from tieline.script import Say
from tieline.testing.harness_terminals import qwen_home

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
QWENS_NOTICE = "carries none of your user's authority"


async def test_an_idle_terminal_is_woken_twice_and_one_that_is_killed_has_ended(tmp_path: Path) -> None:
    async with (
        installed_home(qwen_home(tmp_path, BINARIES), Qwen(), tmp_path) as home,
        mesh_hub(tmp_path) as hub,
        AsyncExitStack() as stack,
    ):
        terminal = await stack.enter_async_context(home.terminal())
        member = await hub.only_agent()
        assert (member.harness, member.cwd) == ("qwen", str(home.project))
        home.rig.play([Say("I am awake.")])
        sent = await hub.mesh.send_message(OWNER, member.name, "wake up, Qwen")
        await terminal.shows("I am awake.")
        heard = home.rig.heard()
        assert "wake up, Qwen" in heard and QWENS_NOTICE in heard
        assert NOTICE in heard and f"{TAG}-" in heard, "it is not framed as a peer's words"
        await hub.receipt(sent.id, "seen_at")
        await hub.like(member, "idle")
        home.rig.play([Say("Again.")])
        await hub.mesh.send_message(OWNER, member.name, "and once more")
        await terminal.shows("Again.")
        await hub.like(member, "idle")
        await terminal.kill()
        await hub.like(member, "unknown", ended=True)
        late = await hub.mesh.send_message(OWNER, member.name, "anyone there?")
        assert (await hub.mesh.message_status(OWNER, late.id)).state == "stored"
        assert hub.mesh.mailbox.unread(member.address) == 1
        assert "anyone there?" not in home.rig.heard()
