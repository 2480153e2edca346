"""OpenCode in the mesh: the real OpenCode in a real terminal, with what `tieline install` writes, at a real hub."""

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest
from tests.harnesses.installed_home import installed_home
from tests.mesh.mcp_clients import OWNER, MeshHub, mesh_hub

import tieline
from tieline.drivers.opencode.driver import create
from tieline.harnesses.opencode.integration import OpenCodeIntegration
from tieline.protocol.mesh import MemberView
from tieline.script import Call, Run, Say
from tieline.testing.harness_terminals import HarnessHome, opencode_home
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.real

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"
BOUND = 120.0


def opencode_in(path: Path) -> AbstractAsyncContextManager[HarnessHome]:
    return installed_home(opencode_home(path, BINARIES), OpenCodeIntegration(), path)


async def only(hub: MeshHub, activity: str, *, ended: bool = False) -> MemberView:
    """The only agent, once it is like that."""

    def is_so() -> bool:
        return [(agent.activity, agent.ended) for agent in hub.agents] == [(activity, ended)]

    await eventually(is_so, f"no agent is {activity}", timeout=BOUND)
    return hub.agents[0]


async def test_an_idle_terminal_wakes_also_after_a_restart_of_the_hub(tmp_path: Path) -> None:
    async with (
        opencode_in(tmp_path) as home,
        AsyncExitStack() as stack,
    ):
        async with mesh_hub(tmp_path) as hub:
            terminal = await stack.enter_async_context(home.terminal())
            home.rig.play([Say("Hello.")])
            await terminal.submit("say hello")
            await terminal.shows("Hello.")
            member = await only(hub, "idle")
            assert (member.harness, member.cwd) == ("opencode", str(home.project))
            home.rig.play([Say("The first has come.")])
            sent = await hub.mesh.send_message(OWNER, member.name, "the first message")
            await terminal.shows("The first has come.")
            await only(hub, "idle")
            await hub.receipt(sent.id, "injected_at")
        async with mesh_hub(tmp_path) as hub:
            again = await only(hub, "idle")
            assert again.id == member.id
            home.rig.play([Say("The second has come.")])
            await hub.mesh.send_message(OWNER, member.name, "the second message")
            await terminal.shows("The second has come.")
            assert str(home.rig.model.requests[-1]).count("the first message") == 1
            await stack.aclose()
            await only(hub, "unknown", ended=True)


async def test_a_message_gets_into_a_running_turn_and_tools_are_called_as_the_session(tmp_path: Path) -> None:
    wait = Run("touch runs; while [ ! -e go ]; do sleep 0.1; done")
    async with (
        opencode_in(tmp_path) as home,
        mesh_hub(tmp_path) as hub,
        home.terminal() as terminal,
    ):
        home.rig.play([wait], [Call("tieline_send_message", {"to": "owner", "text": "my news"})], [Say("It is over.")])
        await terminal.submit("wait for the file")
        member = await only(hub, "working")
        await eventually((home.project / "runs").exists, "its command was not run")  # before, words begin the turn
        sent = await hub.mesh.send_message(OWNER, member.name, "news in between")
        await terminal.shows("news in between")
        assert "news in between" not in home.rig.heard()  # the tool is not interrupted
        await hub.receipt(sent.id, "injected_at")
        (home.project / "go").touch()
        await terminal.shows("It is over.")
        assert "news in between" in home.rig.heard()
        await only(hub, "idle")
        history = await hub.mesh.fetch_message_history(OWNER)
        assert [message.sender for message in history if message.text == "my news"] == [member.name]


async def test_its_agents_know_the_rules_also_after_compaction_and_its_person_sees_a_message_come(
    tmp_path: Path,
) -> None:
    async with (
        opencode_in(tmp_path) as home,
        mesh_hub(tmp_path) as hub,
        home.terminal() as terminal,
    ):
        home.rig.play([Say("Hello.")])
        await terminal.submit("say hello")
        await terminal.shows("Hello.")
        member = await only(hub, "idle")
        await terminal.submit("/compact")
        await terminal.shows("Compaction · Scripted")  # it is over
        await only(hub, "idle")
        home.rig.play([Say("The message has come.")])
        await hub.mesh.send_message(OWNER, member.name, "after the compaction")
        await terminal.shows("Message from owner")  # a toast
        await terminal.shows("The message has come.")
        last = str(home.rig.model.requests[-1])
        assert "after the compaction" in last and "say hello" not in last
        assert "Other agents on this machine (Tieline)" in last
        assert (await only(hub, "idle")).id == member.id


async def test_a_subagent_is_no_member_and_speaks_for_its_session(tmp_path: Path) -> None:
    task = {"description": "ask around", "prompt": "register", "subagent_type": "general"}
    async with (
        opencode_in(tmp_path) as home,
        mesh_hub(tmp_path) as hub,
        home.terminal() as terminal,
    ):
        home.rig.play(
            [Call("task", task)],
            [Call("tieline_register_agent", {"name": "scout"})],
            [Say("The subagent is done.")],
            [Say("All is done.")],
        )
        await terminal.submit("let somebody ask around")
        await terminal.shows("All is done.")
        assert (await only(hub, "idle")).name == "scout"


async def test_a_session_that_tieline_drives_is_left_alone(tmp_path: Path) -> None:
    async with (
        opencode_in(tmp_path) as home,
        mesh_hub(tmp_path) as hub,
    ):
        home.rig.play([Say("Driven.")])
        driver = create("opencode", {"command": [str(BINARIES / "opencode")]})
        async with tieline.open_session(driver, cwd=home.project, env=dict(home.env)) as driven:
            async for _event in driven.turn("hello"):
                pass
        audit = (tmp_path / "state" / "audit.jsonl").read_text()
        assert "/api/v1/harness-plugins" in audit, "the plugin did not try"
        assert not hub.agents
