"""The real Gemini CLI in a real terminal, with our integration installed: its hooks register it and bring messages."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.mesh.mcp_clients import PROGRAM, MeshHub, mesh_hub

from tieline.harnesses import installer, registry
from tieline.harnesses.base import InstallOptions
from tieline.harnesses.gemini.hook_format import GeminiHookFormat
from tieline.harnesses.hook_handler import HarnessHooks
from tieline.mesh.hook_events import HookKind, NativeReply
from tieline.mesh.records import Caller
from tieline.protocol.mesh import MemberView
from tieline.script import Run, Say
from tieline.testing.harness_terminals import HarnessHome, gemini_home
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.real

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"
OWNER = Caller(person="owner")


def install(home: HarnessHome, mesh: MeshHub) -> None:
    env = {"HOME": str(home.home), "TIELINE_HOME": mesh.env["TIELINE_HOME"]}
    python = str(Path(PROGRAM).with_name("python"))
    options = InstallOptions(env=env, program=PROGRAM, python=python)
    installer.apply(installer.plan_install(registry.create("gemini"), options), env)


def members(mesh: MeshHub) -> list[MemberView]:
    return [each for each in mesh.mesh.directory.members(ended=True) if each.harness == "gemini"]


class SendBefore:
    """Sends a message when a hook of that event comes in, just before it is handled."""

    def __init__(self, mesh: MeshHub, messages: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        assert isinstance(mesh.hub.hooks, HarnessHooks)
        self._mesh = mesh
        self._messages = dict(messages)
        self._handle = mesh.hub.hooks.handle
        self.events: list[str] = []
        self.kinds: list[HookKind] = []
        self.sent: dict[str, str] = {}
        monkeypatch.setattr(mesh.hub.hooks, "handle", self.handle)

    async def handle(self, caller: Caller, harness: str, input: Mapping[str, Any], pid: int = 0) -> NativeReply:
        event = input["hook_event_name"]
        self.events.append(event)
        self.kinds.append(GeminiHookFormat().read(input).kind)
        if text := self._messages.pop(event, ""):
            (member,) = members(self._mesh)
            self.sent[event] = (await self._mesh.mesh.send_message(OWNER, member.id, text)).id
        return await self._handle(caller, harness, input, pid)

    async def state(self, event: str) -> str:
        assert self._mesh.hub.relay is not None
        return (await self._mesh.hub.relay.status(self.sent[event])).state


async def test_messages_reach_a_terminal_in_a_turn_and_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gemini_home(tmp_path, BINARIES) as home, mesh_hub(tmp_path) as mesh:
        install(home, mesh)
        hooks = SendBefore(mesh, {"AfterTool": "look at main.css", "AfterAgent": "one more thing"}, monkeypatch)
        home.rig.play([Run("echo hello")], [Say("First answer.")], [Say("Second answer.")])
        async with home.terminal() as terminal:
            await eventually(
                lambda: [each.activity for each in members(mesh)] == ["idle"], "it did not register", timeout=60
            )
            (member,) = members(mesh)
            assert member.cwd == str(home.project)
            await terminal.submit("say hello")
            await terminal.shows("Second answer.")
            heard = home.rig.heard()
            assert f"You are {member.name} in the Tieline mesh" in heard
            assert heard.index("look at main.css") < heard.index("one more thing")
            await eventually(lambda: members(mesh)[0].activity == "idle", "its turn did not end")
            assert [await hooks.state(event) for event in ("AfterTool", "AfterAgent")] == ["seen", "seen"]
            went_on = ["BeforeAgent", "AfterAgent"]
            assert hooks.events == ["SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", *went_on]
            assert hooks.kinds == ["session_start", "prompt", "tool_done", "turn_end", "tool_done", "turn_end"]


async def test_a_run_without_a_terminal_registers_and_ends(tmp_path: Path) -> None:
    async with gemini_home(tmp_path, BINARIES) as home, mesh_hub(tmp_path) as mesh:
        install(home, mesh)
        home.rig.play([Say("Hello.")])
        async with asyncio.timeout(120):
            process = await asyncio.create_subprocess_exec(
                *home.argv, "-p", "say hello", cwd=home.project, env=home.env, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            output, _ = await process.communicate()
        assert process.returncode == 0 and b"Hello." in output, output
        await eventually(lambda: [each.ended for each in members(mesh)] == [True], "its end was not noticed")
        assert "in the Tieline mesh" in home.rig.heard()
