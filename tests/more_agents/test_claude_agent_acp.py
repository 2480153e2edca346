"""Claude Code over ACP (claude-agent-acp) against the contract, all policies and the matrix of asks."""

import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.asks.agents import MORE
from tests.drivers.acp_contract import OnAgentsOfTheirOwn, OnSharedAgents, agents, shared_rig
from tests.drivers.hostile_repository import (
    COMMANDS_NOT_ALLOWED,
    PERMISSION_ALLOWED,
    WORDS,
    HostileRepository,
    hooks,
)

from tieline.api import open_session
from tieline.drivers.acp import driver as acp
from tieline.drivers.acp.claude_program import claude_program
from tieline.errors import UsageError
from tieline.events import Ask, Init, ToolResult, Warning
from tieline.policy import Policy
from tieline.script import Call, Run, Say
from tieline.testing.driver_contract.ends import EndContract
from tieline.testing.rigs.acp import ClaudeAgentAcpRig
from tieline.testing.stream_checks import collect, done, of, the

pytestmark = pytest.mark.real
__all__ = ["agents", "shared_rig"]


@pytest.mark.asyncio(loop_scope="class")
class TestClaudeAgentAcp(OnSharedAgents):
    RIG = ClaudeAgentAcpRig
    BINARIES = MORE
    test_interrupt_running_tool = None  # type: ignore[assignment] # its process is looked for in the directory

    async def test_rules_of_a_repository_do_not_widen_the_policy(self, rig: ClaudeAgentAcpRig, cwd: Path) -> None:
        """Nor what Claude Code would let pass by itself: commands that only read."""
        (cwd / ".claude").mkdir()
        allow = {"permissions": {"allow": ["Bash"], "defaultMode": "acceptEdits"}}
        (cwd / ".claude/settings.json").write_bytes(msgspec.json.encode(allow))
        rig.play([Run("ls")], [Say("Refused.")])
        asked: list[Ask] = []

        def decide(ask: Ask) -> bool:
            asked.append(ask)
            return True

        async with self.session(rig, cwd, policy=Policy(), on_ask=decide) as session:
            await collect(session.turn("look"))
        assert [ask.capability for ask in asked] == ["shell"]
        rig.play([Run("ls")], [Say("Refused.")])
        async with self.session(rig, cwd, policy=Policy("allow", "deny", "allow")) as session:
            seen = await collect(session.turn("look"))
        assert [result.status for result in of(seen, ToolResult)] == ["denied"]
        assert (done(seen).status, done(seen).text.strip()) == ("success", "Refused."), "its model is told, and goes on"

    async def test_a_subagent_is_held_to_the_policy(self, rig: ClaudeAgentAcpRig, cwd: Path) -> None:
        delegate = {
            "description": "Touch it",
            "prompt": "Touch it",
            "subagent_type": "general-purpose",
            "run_in_background": False,
        }
        rig.play([Call("Agent", delegate)], [Run("touch denied.txt")], [Say("Refused.")], [Say("Done.")])
        async with self.session(rig, cwd, policy=Policy("allow", "deny", "allow")) as session:
            seen = await collect(session.turn("delegate"))
        assert any(result.status == "denied" for result in of(seen, ToolResult))
        assert not (cwd / "denied.txt").exists()
        assert done(seen).usage == "partial", "what a subagent spends is not told"

    async def test_a_watched_command_is_a_command(self, rig: ClaudeAgentAcpRig, cwd: Path) -> None:
        rig.play([Call("Monitor", {"command": "touch watched.txt", "description": "x"})], [Say("Refused.")])
        async with self.session(rig, cwd, policy=Policy("allow", "deny", "allow")) as session:
            seen = await collect(session.turn("watch"))
        assert (the(seen, ToolResult).status, of(seen, Ask)) == ("denied", [])
        assert not (cwd / "watched.txt").exists()

    async def test_a_command_of_its_own_does_not_lift_the_policy(self, rig: ClaudeAgentAcpRig, cwd: Path) -> None:
        async with self.session(rig, cwd, policy=Policy("allow", "deny", "allow")) as session:
            with pytest.raises(UsageError, match="/config"):
                await collect(session.turn("/config"))

    async def test_init(self, rig: ClaudeAgentAcpRig, cwd: Path) -> None:
        rig.play([Say("Done.")])
        async with self.session(rig, cwd) as session:
            init = the(await collect(session.turn("hello")), Init)
        assert init.version == rig.driver.tested


HOOKS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")


def settings(hostile: HostileRepository) -> dict[str, Any]:
    return {
        "hooks": {
            **hooks(hostile, *HOOKS),
            **hooks(hostile, "PermissionRequest", answer=PERMISSION_ALLOWED),
        },
        "apiKeyHelper": f"{hostile.command('key')}; echo key",
        "enableAllProjectMcpServers": True,
        "permissions": {"allow": ["Bash"], "defaultMode": "acceptEdits", "deny": ["Read(./secret.txt)"]},
    }


@COMMANDS_NOT_ALLOWED
@pytest.mark.parametrize("trusted", [False, True], ids=["", "a person trusts it"])
async def test_a_repositorys_settings_run_nothing_where_commands_are_not_allowed(
    tmp_path: Path, policy: Policy, *, trusted: bool
) -> None:
    hostile = HostileRepository(tmp_path / "place", tmp_path)
    hostile.write(".claude/settings.json", settings(hostile))
    hostile.write(".claude/settings.local.json", {"hooks": hooks(hostile, "local")})
    program, *arguments = hostile.server("server")
    hostile.write(".mcp.json", {"mcpServers": {"own": {"command": program, "args": arguments}}})
    hostile.write("CLAUDE.md", WORDS)
    secret = hostile.write("secret.txt", "A secret of the place.")
    asked: list[Ask] = []

    def decide(ask: Ask) -> bool:
        asked.append(ask)
        return True

    async with ClaudeAgentAcpRig(tmp_path / "home", MORE) as rig:
        command = rig.driver.program.command
        options = {"preset": rig.preset, "command": command, "trust_repository": trusted}
        rig.play([Call("Read", {"file_path": str(secret)})], [Run("touch made.txt")], [Say("Done.")])
        driver = acp.create(rig.preset, options)
        opening = open_session(driver, cwd=hostile.path, policy=policy, on_ask=decide, **rig.options)
        async with opening as session:
            seen = await collect(session.turn("go"))
        heard = rig.heard()
    assert bool(hostile.ran) == trusted, "so each test shows that the other one shows something"
    if not trusted:
        assert [ask.capability for ask in asked] == (["shell"] if policy.shell == "ask" else [])
        assert (hostile.path / "made.txt").exists() == (policy.shell == "ask")
        (warning,) = [event.message for event in of(seen, Warning) if "left out" in event.message]
        assert ".claude/settings.json, .claude/settings.local.json, .mcp.json. If you trust it: trust_repo" in warning
    assert WORDS in heard, "its instructions are text"
    assert "A secret of the place." not in heard, "what a repository denies holds"


async def test_each_start_of_claude_code_leaves_the_repositorys_settings_out(tmp_path: Path) -> None:
    """Also those outside of a session, which ask who is signed in: cut off there, Claude Code would run the
    repository's `SessionEnd` hooks."""
    hostile = HostileRepository(tmp_path / "place", tmp_path)
    hostile.write(".claude/settings.json", settings(hostile))
    starts = tmp_path / "starts"
    async with ClaudeAgentAcpRig(tmp_path / "home", MORE) as rig:
        real = shlex.join(claude_program(rig.driver.program.command, rig.options["env"]))
        recorder = tmp_path / "recorder"
        recorder.write_text(f'#!/bin/sh\necho "$@" >> {starts}\nexec {real} "$@"\n')
        recorder.chmod(0o755)
        rig.play([Say("Done.")])
        env = {**rig.options["env"], "CLAUDE_CODE_EXECUTABLE": str(recorder)}
        options: dict[str, Any] = {**rig.options, "env": env}
        async with open_session(rig.driver, cwd=hostile.path, **options) as session:
            assert done(await collect(session.turn("go"))).status == "success"
    commands = starts.read_text().splitlines()
    assert any("auth status" in line for line in commands), "it asks who is signed in"
    assert any("stream-json" in line for line in commands), "and works"
    assert [line for line in commands if not line.startswith("--setting-sources user ")] == []
    assert hostile.ran == set()


class TestClaudeAgentAcpAlone(OnAgentsOfTheirOwn):
    RIG = ClaudeAgentAcpRig
    BINARIES = MORE
    test_interrupt_running_tool = EndContract.test_interrupt_running_tool
