"""Codex over ACP (codex-acp) against the contract, all policies and the matrix of asks."""

from pathlib import Path

import pytest
from tests.asks.agents import MORE
from tests.drivers.acp_contract import OnAgentsOfTheirOwn, OnSharedAgents, agents, shared_rig
from tests.drivers.codex_repositories import PLACES, folder_under_rules

from tieline.events import Init, ToolResult
from tieline.policy import Policy
from tieline.script import Run, Say
from tieline.testing.rigs.acp import CodexAcpRig
from tieline.testing.stream_checks import collect, done, the

pytestmark = pytest.mark.real
__all__ = ["agents", "shared_rig"]


@pytest.mark.asyncio(loop_scope="class")
class TestCodexAcp(OnSharedAgents):
    RIG = CodexAcpRig
    BINARIES = MORE

    async def test_commands_that_only_read_are_asked_about(self, rig: CodexAcpRig, cwd: Path) -> None:
        rig.play([Run("ls")], [Say("Refused.")])
        async with self.session(rig, cwd, policy=Policy("allow", "deny", "allow")) as session:
            seen = await collect(session.turn("do it"))
        assert the(seen, ToolResult).status == "denied"
        assert (done(seen).status, done(seen).text.strip()) == ("success", "Refused."), "its model goes on"

    async def test_no_model_call_is_its_own(self, rig: CodexAcpRig, cwd: Path) -> None:
        """Neither one that thinks up a title, nor one that decides."""
        rig.play([Run("true")], [Say("Done.")])
        before = len(rig.model.requests)
        async with self.session(rig, cwd) as session:
            await collect(session.turn("do it"))
            rig.play([Say("Again.")])
            await collect(session.turn("again"))
        assert len(rig.model.requests) - before == 3

    async def test_init(self, rig: CodexAcpRig, cwd: Path) -> None:
        rig.play([Say("Done.")])
        async with self.session(rig, cwd) as session:
            init = the(await collect(session.turn("hello")), Init)
        assert init.version == rig.driver.tested


class TestCodexAcpAlone(OnAgentsOfTheirOwn):
    RIG = CodexAcpRig
    BINARIES = MORE

    @pytest.mark.parametrize("where", PLACES)
    async def test_rules_of_a_repository_allow_nothing(self, rig: CodexAcpRig, tmp_path: Path, where: str) -> None:
        """Neither because Codex has been told that it is trusted, nor in a conversation that is resumed or forked."""
        repository, cwd = folder_under_rules(tmp_path, where)
        with (tmp_path / "home/.codex/config.toml").open("a") as config:
            for trusted in {repository.resolve(), cwd.resolve()}:
                config.write(f'\n[projects."{trusted}"]\ntrust_level = "trusted"\n')
        native = ""
        for fork in (False, False, True):
            rig.play([Run("touch denied.txt")], [Say("Refused.")])
            policy = Policy("allow", "deny", "allow")
            async with self.session(rig, cwd, policy=policy, resume=native, fork=fork) as session:
                seen = await collect(session.turn("do it"))
                native = session.native_id
            assert the(seen, ToolResult).status == "denied"
            assert not (cwd / "denied.txt").exists()
