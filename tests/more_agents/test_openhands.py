"""The real OpenHands against the contract, all policies and the matrix of asks, and what is special about it."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.asks.agents import binaries
from tests.drivers.acp_contract import OnAgentsOfTheirOwn, OnSharedAgents, agents, shared_rig

from tieline.errors import PolicyUnenforceable, UsageError
from tieline.events import Ask, Command, Init, Thinking, ToolResult
from tieline.policy import Policy
from tieline.processes import spawn
from tieline.script import Call, Run, Say, Think
from tieline.testing.driver_contract.base import yes
from tieline.testing.driver_contract.ends import EndContract
from tieline.testing.rigs.acp import OpenHandsRig
from tieline.testing.stream_checks import collect, done, of, the

pytestmark = pytest.mark.real
__all__ = ["agents", "shared_rig"]
NO_COMMANDS = Policy("allow", "deny", "allow")
SUBAGENT = {"description": "Touch it", "prompt": "Touch it", "subagent_type": "bash", "security_risk": "LOW"}
HOOKS = '{"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "touch hook-ran"}]}]}}'


@pytest.mark.asyncio(loop_scope="class")
class TestOpenHands(OnSharedAgents):
    RIG = OpenHandsRig
    BINARIES = binaries("openhands")
    test_interrupt_running_tool = None  # type: ignore[assignment] # its process is looked for in the directory

    async def test_init(self, rig: OpenHandsRig, cwd: Path) -> None:
        rig.play([Say("Done.")])
        async with self.session(rig, cwd) as session:
            init = the(await collect(session.turn("hello")), Init)
        assert init.version == rig.driver.tested

    async def test_its_own_words_are_not_its_models_thoughts(self, rig: OpenHandsRig, cwd: Path) -> None:
        """It begins with its whole system prompt, as a thought."""
        rig.play([Think("A thought."), Run("true")], [Say("Done.")])
        async with self.session(rig, cwd) as session:
            thought = "".join(item.text for item in of(await collect(session.turn("think")), Thinking))
        assert "A thought." in thought and "System Prompt" not in thought

    @pytest.mark.parametrize("held", [NO_COMMANDS, Policy("allow", "ask", "allow")])
    async def test_a_subagent_whose_asks_reach_nobody_is_denied(
        self, rig: OpenHandsRig, cwd: Path, held: Policy
    ) -> None:
        rig.play([Call("task", SUBAGENT)], [Say("Refused.")])
        async with self.session(rig, cwd, policy=held, on_ask=yes) as session:
            seen = await collect(session.turn("delegate it"))
        assert the(seen, Ask).withheld and the(seen, ToolResult).status == "denied"
        assert done(seen).text == "Refused."

    async def test_where_everything_is_allowed_there_are_subagents(self, rig: OpenHandsRig, cwd: Path) -> None:
        rig.play([Call("task", SUBAGENT)], [Run("touch made.txt")], [Say("Made.")], [Say("Done.")])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("delegate it"))
        assert (cwd / "made.txt").exists() and done(seen).text == "Done."

    async def test_several_calls_go_together(self, rig: OpenHandsRig, cwd: Path) -> None:
        """Its ask is for all calls of an answer: one that is denied denies the others, too."""
        rig.play([Run("touch one.txt"), Run("touch two.txt")], [Say("None.")])

        def decide(ask: Ask) -> bool:
            return "two" not in str(ask.input)

        async with self.session(rig, cwd, policy=Policy("allow", "ask", "allow"), on_ask=decide) as session:
            seen = await collect(session.turn("try"))
        assert [ask.action for ask in of(seen, Ask)] == [Command("touch one.txt"), Command("touch two.txt")]
        assert [result.status for result in of(seen, ToolResult)] == ["denied", "denied"]
        assert not [*cwd.glob("*.txt")]

    async def test_a_command_of_its_own_does_not_lift_the_policy(self, rig: OpenHandsRig, cwd: Path) -> None:
        async with self.session(rig, cwd, policy=NO_COMMANDS) as session:
            with pytest.raises(UsageError, match="/confirm"):
                await collect(session.turn("/confirm always-approve"))


class TestOpenHandsAlone(OnAgentsOfTheirOwn):
    RIG = OpenHandsRig
    BINARIES = binaries("openhands")
    test_interrupt_running_tool = EndContract.test_interrupt_running_tool

    async def test_a_call_of_before_that_it_asks_about_again_is_denied(self, rig: OpenHandsRig, cwd: Path) -> None:
        """It was ended while it asked. Its ask does not say what it is about."""
        rig.play([Run("touch denied.txt")])
        policy = Policy("allow", "ask", "allow")
        never = asyncio.Event()

        async def end_it(ask: Ask) -> bool:
            for pid in spawn.live().values():
                os.kill(pid, signal.SIGKILL)
            return await never.wait()

        async with self.session(rig, cwd, policy=policy, on_ask=end_it) as session:
            assert done(await collect(session.turn("touch it"))).status == "error"
            native = session.native_id
        rig.play([Say("Refused.")])
        async with self.session(rig, cwd, policy=policy, on_ask=yes, resume=native) as session:
            seen = await collect(session.turn("go on"))
        assert all(ask.withheld for ask in of(seen, Ask)) and not (cwd / "denied.txt").exists(), seen

    async def test_each_session_has_its_own_terminal_server(self, rig: OpenHandsRig, cwd: Path) -> None:
        """The end of one must not end the commands of another."""
        rig.play([Run("echo $TMUX")], [Say("One.")], [Run("echo $TMUX")], [Say("Two.")])
        servers: list[str] = []
        async with self.session(rig, cwd) as first, self.session(rig, cwd) as second:
            for session in (first, second):
                servers.append(the(await collect(session.turn("where")), ToolResult).output)
        assert "tieline-" in servers[0] and servers[0] != servers[1]

    async def test_hooks_of_a_repository_run_under_no_policy_that_holds_something(
        self, rig: OpenHandsRig, cwd: Path
    ) -> None:
        hooks = cwd / ".openhands/hooks.json"
        hooks.parent.mkdir()
        hooks.write_text(HOOKS)
        with pytest.raises(PolicyUnenforceable) as refused:
            async with self.session(rig, cwd, policy=NO_COMMANDS):
                pass
        assert str(hooks) in refused.value.hint
        rig.play([Run("true")], [Say("Done.")])
        async with self.session(rig, cwd) as session:
            await collect(session.turn("run it"))
        assert (cwd / "hook-ran").exists(), "else nothing need be refused"
