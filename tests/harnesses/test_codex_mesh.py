"""Codex in the mesh: the real Codex in a real terminal, installed by us, and another member that it talks with."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tieline.bootstrap.daemon import hub_on
from tieline.bootstrap.process_lock import running_file
from tieline.client.hub_address import RunningHub
from tieline.config import Config, HubConfig
from tieline.harnesses import installer
from tieline.harnesses.base import InstallOptions
from tieline.harnesses.codex.integration import Codex
from tieline.mesh.mesh import Mesh
from tieline.mesh.records import Caller
from tieline.protocol.mesh import MemberView
from tieline.script import Call, Say
from tieline.testing.harness_terminals import HarnessHome, codex_home
from tieline.testing.tmux_terminal import TmuxTerminal
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.real

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"
PROGRAM = str(Path(sys.executable).with_name("tieline"))
ALICE = Caller(machine="elsewhere", harness="generic", session="alice-1")
BOUND = 120.0


@asynccontextmanager
async def installed(tmp_path: Path) -> AsyncGenerator[tuple[HarnessHome, Config], None]:
    """A home with Codex in which Tieline is installed, and what its hub is configured with."""
    async with codex_home(tmp_path, BINARIES) as home:
        environ = {**home.env, "TIELINE_HOME": str(tmp_path / "state")}
        options = InstallOptions(env=environ, program=PROGRAM, python=sys.executable)
        installer.apply(installer.plan_install(Codex(), options), environ)
        yield home, Config(environ=environ, hub=HubConfig(port=0))


@asynccontextmanager
async def mesh_of(config: Config) -> AsyncGenerator[Mesh, None]:
    """The mesh of a hub that runs here, with Alice as a member."""
    async with hub_on(config) as (hub, serving):
        assert hub.mesh is not None
        await hub.mesh.register_agent(ALICE, name="alice")
        with running_file(config.environ, RunningHub(serving.url, os.getpid(), socket=serving.socket)):
            yield hub.mesh


async def test_it_registers_over_mcp_as_the_member_that_its_daemon_tells_of_and_answers(tmp_path: Path) -> None:
    async with installed(tmp_path) as (home, config), mesh_of(config) as mesh, home.terminal() as terminal:
        member = await idle(mesh)
        await has_our_tools(terminal)
        home.rig.play(
            [tool("register_agent", name="shop-codex", role="reviewer")],
            [tool("send_message", to="@alice", text="pong")],
            [Say("I have answered.")],
        )
        ping = await mesh.send_message(ALICE, member.id, "ping")
        for name in ("register_agent", "send_message"):  # Codex asks its user about each tool of a server
            await terminal.answer(f'run tool "{name}"?', "Enter")
        await terminal.shows("I have answered.")
        assert [(known.id, known.name, known.role) for known in codex(mesh)] == [(member.id, "shop-codex", "reviewer")]
        (pong,) = (await mesh.wait_for_messages(ALICE, 30)).messages
        assert (pong.text, pong.sender) == ("pong", "shop-codex")
        status = await mesh.message_status(ALICE, ping.id)
        assert status.state == "answered"
        assert 0 < status.injected_at <= status.seen_at <= status.answered_at


async def test_a_restart_of_the_hub_keeps_the_member_and_asks_nothing_twice(tmp_path: Path) -> None:
    async with installed(tmp_path) as (home, config), home.terminal() as terminal:
        async with mesh_of(config) as mesh:
            member = await idle(mesh)
            home.rig.play([Say("The first has come.")])
            first = await mesh.send_message(ALICE, member.id, "the first message")
            await terminal.shows("The first has come.")
            await handed_over(mesh, first.id)
        async with mesh_of(config) as mesh:
            assert (await idle(mesh)).id == member.id
            home.rig.play([Say("The second has come.")])
            await mesh.send_message(ALICE, member.id, "the second message")
            await terminal.shows("The second has come.")
        assert str(home.rig.model.requests[-1]).count("the first message") == 1


async def test_mail_for_a_terminal_killed_with_its_daemon_waits_for_its_resume(tmp_path: Path) -> None:
    async with installed(tmp_path) as (home, config), mesh_of(config) as mesh:
        async with home.terminal() as terminal:
            member = await idle(mesh)
            home.rig.play([Say("Hello.")])
            await terminal.submit("say hello")
            await terminal.shows("Hello.")
            await idle(mesh)
        sent = await mesh.send_message(ALICE, member.id, "for later")
        assert not (await mesh.message_status(ALICE, sent.id)).injected_at
        home.rig.play([Say("It was still there.")])
        async with home.terminal("resume", member.session) as resumed:
            await resumed.shows("It was still there.")
            await handed_over(mesh, sent.id)
            assert [known.id for known in codex(mesh)] == [member.id]
            assert str(home.rig.model.requests[-1]).count("for later") == 1


def tool(name: str, /, **arguments: Any) -> Call:
    """A call of one of our tools."""
    return Call(name, {"namespace": "mcp__tieline", **arguments})


async def has_our_tools(terminal: TmuxTerminal) -> None:
    """Codex starts MCP servers in the background, and turns begin without them."""
    for count in range(1, 6):
        await terminal.submit("/mcp")
        screen = await terminal.until(lambda now, count=count: now.count("Use /mcp verbose") == count, "its servers")
        if screen.rpartition("tieline: ")[2].startswith("connected"):
            return
    raise AssertionError("our server does not connect")


def codex(mesh: Mesh) -> list[MemberView]:
    return [member for member in mesh.directory.members() if member.harness == "codex"]


async def idle(mesh: Mesh) -> MemberView:
    """The only member in Codex, once it is idle."""

    def is_so() -> bool:
        return [member.activity for member in codex(mesh)] == ["idle"]

    await eventually(is_so, "no member of Codex is idle", timeout=BOUND)
    return codex(mesh)[0]


async def handed_over(mesh: Mesh, message: str) -> None:
    async with asyncio.timeout(BOUND):
        while not (await mesh.message_status(ALICE, message)).injected_at:  # noqa: ASYNC110 (receipts are looked up)
            await asyncio.sleep(0.05)
