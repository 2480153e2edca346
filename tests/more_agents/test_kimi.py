"""The real Kimi Code against the contract, all policies and the matrix of asks, and what is special about it."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.asks.agents import MORE
from tests.drivers.acp_contract import OnAgentsOfTheirOwn, OnSharedAgents, agents, shared_rig
from tests.drivers.hostile_repository import HostileRepository
from tests.sessions.repositories import git

from tieline.api import open_session
from tieline.errors import PolicyUnenforceable
from tieline.events import Ask, Command, Init, ToolResult
from tieline.policy import Policy
from tieline.script import Call, Run, Say
from tieline.testing.model_apis import chat
from tieline.testing.rigs.acp import KimiRig
from tieline.testing.stream_checks import collect, done, of, the

pytestmark = pytest.mark.real
__all__ = ["agents", "shared_rig"]
NO_COMMANDS = Policy("allow", "deny", "allow")


@pytest.mark.asyncio(loop_scope="class")
class TestKimi(OnSharedAgents):
    RIG = KimiRig
    BINARIES = MORE

    @pytest.fixture(autouse=True)
    def repository(self, tmp_path: Path) -> Iterator[None]:
        """Where it writes without a question."""
        git(tmp_path, "init", "-q")
        yield

    async def test_calls_with_one_id_are_asked_about_each_by_its_own_command(
        self, rig: KimiRig, cwd: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(chat, "_calls", itertools.repeat(1))
        asked: list[Ask] = []
        rig.play([Run("touch first.txt")], [Run("touch second.txt")], [Say("Done.")])

        def decide(ask: Ask) -> bool:
            asked.append(ask)
            return ask.action == Command("touch first.txt")

        async with self.session(rig, cwd, policy=Policy("allow", "ask", "allow"), on_ask=decide) as session:
            seen = await collect(session.turn("do it"))
        assert [ask.action for ask in asked] == [Command("touch first.txt"), Command("touch second.txt")]
        assert [result.status for result in of(seen, ToolResult)] == ["ok", "denied"]
        assert (cwd / "first.txt").exists() and not (cwd / "second.txt").exists()

    async def test_a_subagent_is_held_to_the_policy(self, rig: KimiRig, cwd: Path) -> None:
        rig.play([Call("Agent", {"description": "Touch", "prompt": "Touch it."})], [Run("touch denied.txt")],
                 [Say("Refused.")], [Say("Refused.")])  # fmt: skip
        async with self.session(rig, cwd, policy=NO_COMMANDS) as session:
            seen = await collect(session.turn("touch it"))
        assert "denied" in [result.status for result in of(seen, ToolResult)]
        assert not (cwd / "denied.txt").exists()

    async def test_a_policy_about_what_it_does_not_ask_is_refused(self, rig: KimiRig, cwd: Path) -> None:
        for policy in (Policy("ask", "allow", "allow"), Policy("allow", "allow", "deny")):
            with pytest.raises(PolicyUnenforceable):
                async with self.session(rig, cwd, policy=policy):
                    pass

    async def test_init(self, rig: KimiRig, cwd: Path) -> None:
        rig.play([Say("Done.")])
        async with self.session(rig, cwd, model="scripted") as session:
            init = the(await collect(session.turn("hello")), Init)
        assert (init.version, init.model) == (rig.driver.tested, "scripted")


class TestKimiAlone(OnAgentsOfTheirOwn):
    RIG = KimiRig
    BINARIES = MORE

    @pytest.mark.parametrize("command", ["ls", "touch denied.txt", f"touch denied.txt {'x' * 32}😀"])
    async def test_every_command_is_asked_about(self, rig: KimiRig, cwd: Path, command: str) -> None:
        """Also one that only reads, and one that it cuts, where it asks, through a character."""
        asked: list[Ask] = []
        rig.play([Run(command)], [Say("Refused.")])

        def decide(ask: Ask) -> bool:
            asked.append(ask)
            return False

        async with self.session(rig, cwd, policy=Policy("allow", "ask", "allow"), on_ask=decide) as session:
            seen = await collect(session.turn("do it"))
        assert [ask.action for ask in asked] == [Command(command)]
        assert the(seen, ToolResult).status == "denied" and not (cwd / "denied.txt").exists()
        assert (done(seen).status, done(seen).text.strip()) == ("success", "Refused."), "its model is told, and goes on"

    @pytest.mark.parametrize("mode", ["yolo", "auto"])
    async def test_settings_of_the_user_do_not_widen_the_policy(self, rig: KimiRig, cwd: Path, mode: str) -> None:
        """Its session says "default", whatever mode they choose; also one that is resumed. Nor do rules that allow."""
        mine = Path(rig.options["env"]["HOME"], ".kimi-code/config.toml")
        rules = '\n[[permission.rules]]\ndecision = "allow"\npattern = "Bash"\n'
        mine.write_text(f'default_permission_mode = "{mode}"\n{mine.read_text()}{rules}')
        native = ""
        for fork in (False, False, True):
            rig.play([Run("touch denied.txt")], [Say("Refused.")])
            async with self.session(rig, cwd, policy=NO_COMMANDS, resume=native, fork=fork) as session:
                seen = await collect(session.turn("touch it"))
                native = session.native_id
            assert the(seen, ToolResult).status == "denied" and not (cwd / "denied.txt").exists()


async def test_a_repositorys_settings_run_nothing(tmp_path: Path) -> None:
    """Those of its person run, so that it is shown that these would."""
    hostile = HostileRepository(tmp_path / "place", tmp_path)

    def server(name: str) -> dict[str, Any]:
        program, *arguments = hostile.server(name)
        return {"mcpServers": {name: {"command": program, "args": arguments}}}

    hostile.write(".mcp.json", server("root"))
    hostile.write(".kimi-code/mcp.json", server("folder"))
    events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop")
    hooks = "".join(f'[[hooks]]\nevent = "{event}"\ncommand = "{hostile.command("hook")}"\n' for event in events)
    hostile.write(".kimi-code/config.toml", hooks)
    async with KimiRig(tmp_path / "home", MORE) as rig:
        (tmp_path / "home/.kimi-code/mcp.json").write_text(json.dumps(server("own")))
        rig.play([Run(f"until test -e {tmp_path}/ran/own; do sleep 0.1; done")], [Say("Done.")])
        opening = open_session(rig.driver, cwd=hostile.path, policy="full", **rig.options)
        async with opening as session:
            await collect(session.turn("go"))
    assert hostile.ran == {"own"}
