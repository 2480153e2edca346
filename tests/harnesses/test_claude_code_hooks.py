"""The hooks that `tieline install` gives Claude Code, with the real one in a real terminal and a real hub."""

import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.mesh.mcp_clients import PROGRAM, MeshHub, mesh_hub

from tieline.harnesses import installer
from tieline.harnesses.base import InstallOptions
from tieline.harnesses.claude_code import ClaudeCode
from tieline.mesh.records import Caller
from tieline.protocol.mesh import MemberView
from tieline.script import Run, Say
from tieline.testing.harness_terminals import HarnessHome, claude_code_home
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.real

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"
OWNER = Caller(person="owner")
BOUND = 120.0
UNTIL_GO = Run("while [ ! -e go ]; do sleep 0.1; done")


@asynccontextmanager
async def installed(folder: Path) -> AsyncGenerator[tuple[HarnessHome, MeshHub], None]:
    async with claude_code_home(folder, BINARIES) as home, mesh_hub(folder) as hub:
        options = InstallOptions(env={**home.env, **hub.env}, program=PROGRAM, python=sys.executable)
        installer.apply(installer.plan_install(ClaudeCode(), options), home.env)
        env = {**home.env, "MCP_TIMEOUT": "60000"}
        yield HarnessHome(home.rig, home.home, home.project, home.argv, env), hub


async def present(hub: MeshHub, *others: str) -> MemberView:
    """The agent of the terminal, once it is there and idle; none of the sessions that were there before."""

    def agents() -> list[MemberView]:
        known = hub.mesh.directory.members()
        return [one for one in known if one.kind == "agent" and one.activity == "idle" and one.session not in others]

    await eventually(lambda: bool(agents()), "no agent is there", timeout=BOUND)
    (member,) = agents()
    return member


async def fired(hub: MeshHub, session: str, event: str) -> None:
    hooks = hub.hub.hooks
    assert hooks is not None

    def has() -> bool:
        return (session, event) in [(one.session, one.event) for one in hooks.activity()]

    await eventually(has, f"{event} did not fire", timeout=BOUND)


async def test_messages_come_in_the_middle_of_a_turn_and_at_its_end(tmp_path: Path) -> None:
    async with installed(tmp_path) as (home, hub), home.terminal() as terminal:
        member = await present(hub)
        home.rig.play([UNTIL_GO], [Run("echo second")], [Say("The turn is over.")])
        await terminal.submit("wait for the file")
        await fired(hub, member.session, "UserPromptSubmit")
        await terminal.shows("Running a command")
        await hub.mesh.send_message(OWNER, member.id, "news in between")
        (home.project / "go").touch()
        await terminal.shows("The turn is over.")
        first, second, third = (str(request) for request in home.rig.model.requests)
        assert f"You are {member.name} in the Tieline mesh" in first
        assert [text.count("news in between") for text in (first, second, third)] == [0, 1, 1]

        await present(hub)
        home.rig.play([Say("The first end.", delay_s=1.0)], [Say("The second end.")])
        await terminal.submit("say something")
        await eventually(lambda: len(home.rig.model.requests) == 4, "the model was not asked", timeout=BOUND)
        await hub.mesh.send_message(OWNER, member.id, "news at the end")
        await terminal.shows("The second end.")
        assert "news at the end" in str(home.rig.model.requests[4])  # Claude Code writes a refused end down twice


async def test_after_clear_the_hooks_are_of_the_new_session(tmp_path: Path) -> None:
    async with installed(tmp_path) as (home, hub), home.terminal() as terminal:
        member = await present(hub)
        await terminal.submit("/clear")
        cleared = await present(hub, member.session)
        home.rig.play([UNTIL_GO], [Say("After the clear.")])
        await terminal.submit("wait for the file")
        await fired(hub, cleared.session, "UserPromptSubmit")
        await hub.mesh.send_message(OWNER, cleared.id, "news for the new session")
        (home.project / "go").touch()
        await terminal.shows("After the clear.")
        assert str(home.rig.model.requests[-1]).count("news for the new session") == 1


async def test_mail_of_a_terminal_that_was_killed_comes_when_it_is_resumed(tmp_path: Path) -> None:
    async with installed(tmp_path) as (home, hub):
        async with home.terminal() as terminal:
            member = await present(hub)
            home.rig.play([Say("I am here.")], [UNTIL_GO])
            await terminal.submit("hello")  # what has no answer yet cannot be resumed
            await terminal.shows("I am here.")
            await present(hub)
            await terminal.submit("wait for the file")
            await terminal.shows("Running a command")
            await hub.mesh.send_message(OWNER, member.id, "never lost")
            (file,) = (home.home / ".claude/sessions").glob("*.json")
            os.kill(int(file.stem), signal.SIGKILL)
            await eventually(lambda: ended(hub, member), "its end was not noticed", timeout=BOUND)
        home.rig.play([Say("I have read it.")])
        async with home.terminal("--resume", member.session) as terminal:
            await terminal.shows("I have read it.")
            assert (await present(hub)).id == member.id
        assert home.rig.heard().count("never lost") == 1


def ended(hub: MeshHub, member: MemberView) -> bool:
    found = hub.mesh.directory.member(member.id)
    return found is not None and found.ended
