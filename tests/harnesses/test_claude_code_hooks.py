"""What `tieline install` gives Claude Code, with the real one in a real terminal and a real hub."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.harnesses.desk import tool
from tests.harnesses.older_claude_code import OlderClaudeCode
from tests.mesh.mcp_clients import PROGRAM, MeshHub, mesh_hub

from tieline.harnesses import installer
from tieline.harnesses.base import InstallOptions
from tieline.harnesses.claude_code.integration import ClaudeCode
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
async def installed(folder: Path, harness: ClaudeCode | None = None) -> AsyncGenerator[tuple[HarnessHome, MeshHub]]:
    async with claude_code_home(folder, BINARIES) as home, mesh_hub(folder) as hub:
        options = InstallOptions(env={**home.env, **hub.env}, program=PROGRAM, python=sys.executable)
        installer.apply(installer.plan_install(harness or ClaudeCode(), options), home.env)
        env = {**home.env, "MCP_TIMEOUT": "60000"}
        yield HarnessHome(home.rig, home.home, home.project, home.argv, env), hub


async def present(hub: MeshHub, *others: str) -> MemberView:
    """The agent of the terminal, once it is there and idle; none of the sessions that were there before."""

    def idle() -> list[MemberView]:
        return [member for member in agents(hub) if member.activity == "idle" and member.session not in others]

    await eventually(lambda: bool(idle()), "no agent is there", timeout=BOUND)
    (member,) = idle()
    return member


def agents(hub: MeshHub) -> list[MemberView]:
    return [member for member in hub.mesh.directory.members() if member.kind == "agent"]


async def working(hub: MeshHub, id: str) -> None:
    def is_working() -> bool:
        member = hub.mesh.directory.member(id)
        return member is not None and member.activity == "working"

    await eventually(is_working, "it is not told to work", timeout=BOUND)


async def reached(hub: MeshHub, message: str, *states: str) -> None:
    async with asyncio.timeout(BOUND):
        while (await hub.mesh.message_status(OWNER, message)).state not in states:  # noqa: ASYNC110 (a receipt)
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("harness", [ClaudeCode(), OlderClaudeCode()], ids=["", "installed by an older version"])
async def test_messages_come_in_the_middle_of_a_turn_and_at_its_end(harness: ClaudeCode, tmp_path: Path) -> None:
    async with installed(tmp_path, harness) as (home, hub), home.terminal() as terminal:
        member = await present(hub)
        home.rig.play([UNTIL_GO], [Run("echo second")], [Say("The turn is over.")])
        await terminal.submit("wait for the file")
        await working(hub, member.id)
        await terminal.shows("Running a command")
        sent = await hub.mesh.send_message(OWNER, member.id, "news in between")
        await reached(hub, sent.id, "injected")
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
        assert "news at the end" in str(home.rig.model.requests[4])


async def test_a_message_of_a_turn_that_its_person_stops_is_the_next_turn(tmp_path: Path) -> None:
    async with installed(tmp_path) as (home, hub), home.terminal() as terminal:
        member = await present(hub)
        home.rig.play([UNTIL_GO], [Say("I have it all the same.")])
        await terminal.submit("wait for the file")
        await working(hub, member.id)
        await terminal.shows("Running a command")
        sent = await hub.mesh.send_message(OWNER, member.id, "not lost with the turn")
        await reached(hub, sent.id, "injected")
        await terminal.key("Escape")
        await terminal.shows("I have it all the same.")
        await reached(hub, sent.id, "seen")
        assert home.rig.heard().count("not lost with the turn") == 1


async def test_a_prompt_on_the_command_line_gets_its_messages_too(tmp_path: Path) -> None:
    """`claude -p` has no terminal; nobody reads along."""
    async with installed(tmp_path) as (home, hub):
        home.rig.play([UNTIL_GO], [Say("The answer.")])
        command = (*home.argv, "--allowedTools", "Bash", "-p", "wait for the file")
        process = await asyncio.create_subprocess_exec(
            *command, cwd=home.project, env=home.env, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
        )
        try:
            await eventually(lambda: len(home.rig.model.requests) == 1, "the model was not asked", timeout=BOUND)
            await eventually(lambda: bool(agents(hub)), "no agent is there", timeout=BOUND)
            (member,) = agents(hub)
            sent = await hub.mesh.send_message(OWNER, member.id, "news for a script")
            await reached(hub, sent.id, "injected")
            (home.project / "go").touch()
            async with asyncio.timeout(BOUND):
                answer, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        assert answer.decode().strip() == "The answer."
        assert [str(request).count("news for a script") for request in home.rig.model.requests] == [0, 1]


async def test_after_clear_messages_and_calls_are_of_the_new_session(tmp_path: Path) -> None:
    """Claude Code keeps the MCP server that it started for the session before."""
    async with installed(tmp_path) as (home, hub), home.terminal("--allowedTools", "mcp__tieline") as terminal:
        member = await present(hub)
        await terminal.submit("/clear")
        cleared = await present(hub, member.session)
        home.rig.play([UNTIL_GO], [tool("claude-code", "send_message", to="owner", text="It is me.")], [Say("Sent.")])
        await terminal.submit("wait for the file")
        await working(hub, cleared.id)
        await terminal.shows("Running a command")
        sent = await hub.mesh.send_message(OWNER, cleared.id, "news for the new session")
        await reached(hub, sent.id, "injected")
        (home.project / "go").touch()
        await terminal.shows("Sent.")
        heard = [str(request).count("news for the new session") for request in home.rig.model.requests]
        assert heard == [0, 1, 1]
        (message,) = (await hub.mesh.fetch_messages(OWNER)).messages
        assert ("It is me." in message.text, message.sender_id) == (True, cleared.id)


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
            sent = await hub.mesh.send_message(OWNER, member.id, "never lost")
            await reached(hub, sent.id, "injected")  # in the memory of Claude Code
            (file,) = (home.home / ".claude/sessions").glob("*.json")
            os.kill(int(file.stem), signal.SIGKILL)
            await eventually(lambda: ended(hub, member), "its end was not noticed", timeout=BOUND)
        home.rig.play([Say("I have read it.")])
        async with home.terminal("--resume", member.session) as terminal:
            await terminal.shows("I have read it.")
            assert (await present(hub)).id == member.id
        assert home.rig.heard().count("never lost") == 1


def ended(hub: MeshHub, member: MemberView) -> bool:
    view = hub.mesh.directory.member(member.id)
    return view is not None and view.ended
