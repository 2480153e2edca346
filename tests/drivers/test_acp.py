"""The ACP driver: the real Gemini CLI and the real OpenCode against the contract, and what is special about each."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.drivers.acp_contract import OnAgentsOfTheirOwn, OnSharedAgents, agents, shared_rig
from tests.drivers.shared_acp_agents import SharedAcpAgents

from tieline.drivers.acp.nodejs_eager_compile import PRELOAD
from tieline.drivers.base import Spec
from tieline.events import Answer, Ask, Fetch, Init, Text, ToolResult, ToolUse
from tieline.policy import CAPABILITIES, Policy, every_policy, preset
from tieline.processes import spawn
from tieline.script import Call, Run, Say, Write
from tieline.sessions.session import Session
from tieline.testing.policy_contract import Web
from tieline.testing.rig import Rig
from tieline.testing.rigs.acp import GeminiRig, OpencodeAcpRig
from tieline.testing.stream_checks import collect, done, of, the

pytestmark = pytest.mark.real
__all__ = ["agents", "shared_rig"]


def yes(ask: Ask) -> bool:
    return True


def by_rules(policy: Policy) -> list[bool]:
    """A denial is asked of us too: so few starts are enough for all policies, one after the other."""
    return [policy.level(capability) == "allow" for capability in CAPABILITIES]


@pytest.mark.asyncio(loop_scope="class")
class TestGemini(OnSharedAgents):
    RIG = GeminiRig
    POLICIES = tuple(sorted(every_policy(), key=by_rules))

    async def test_its_fetch_tool_refuses_loopback_itself(self, rig: GeminiRig, web: Web, cwd: Path) -> None:
        """Why the policies are tried with a public address, which its vendor fetches."""
        rig.play([Call("web_fetch", {"prompt": f"Read {web.url}"})], [Say("Refused.")])
        async with self.session(rig, cwd, policy=preset("full")) as session:
            result = the(await collect(session.turn("fetch")), ToolResult)
        assert not web.fetched
        assert result.status == "error"
        assert "Blocked Host" in result.output

    async def test_what_it_would_let_pass_is_asked_too(self, rig: GeminiRig, cwd: Path) -> None:
        """On its own it runs commands that it knows as safe, and searches the web, without a question."""
        rig.play([Run("echo harmless")], [Call("google_web_search", {"query": "weather"})], [Say("Done.")])
        asked: list[Ask] = []

        def decide(ask: Ask) -> bool:
            asked.append(ask)
            return True

        async with self.session(rig, cwd, policy=Policy(), on_ask=decide) as session:
            seen = await collect(session.turn("try"))
        assert [ask.capability for ask in asked] == ["shell", "network"]
        assert isinstance(asked[1].action, Fetch)
        assert [result.status for result in of(seen, ToolResult)] == ["ok", "ok"]

    async def test_disallowed_tools_are_not_offered(self, rig: GeminiRig, cwd: Path) -> None:
        rig.play([Say("Done.")])
        async with self.session(rig, cwd, disallowed_tools=("run_shell_command",)) as session:
            await collect(session.turn("hello"))
        (tools,) = (request["tools"] for request in rig.model.requests)
        offered = {tool["name"] for entry in tools for tool in entry["functionDeclarations"]}
        assert "run_shell_command" not in offered
        assert "write_file" in offered

    async def test_a_refused_call_does_not_end_the_turn(self, rig: GeminiRig, cwd: Path) -> None:
        rig.play([Run("touch denied.txt")], [Write(str(cwd / "made.txt"), "x\n")], [Say("One of two.")])
        async with self.session(rig, cwd, policy=Policy("allow", "deny", "allow")) as session:
            seen = await collect(session.turn("try"))
        assert [result.status for result in of(seen, ToolResult)] == ["denied", "ok"]
        assert done(seen).text == "One of two."
        assert the(seen, Answer).by == "policy"

    async def test_init(self, rig: GeminiRig, cwd: Path) -> None:
        rig.play([Say("Done.")])
        async with self.session(rig, cwd) as session:
            init = the(await collect(session.turn("hello")), Init)
        assert (init.model, init.version) == (rig.model_name, rig.driver.tested)


class TestGeminiAlone(OnAgentsOfTheirOwn):
    RIG = GeminiRig

    async def test_a_persons_own_rules_do_not_widen_the_policy(self, rig: GeminiRig, cwd: Path) -> None:
        rules = Path(rig.options["env"]["HOME"], ".gemini", "policies")
        rules.mkdir(parents=True)
        rule = '[[rule]]\ntoolName = "*"\ndecision = "allow"\npriority = 999\n'
        (rules / "mine.toml").write_text(rule)
        rig.play([Run("touch denied.txt")], [Say("Refused.")])
        async with self.session(rig, cwd, policy=Policy("allow", "deny", "allow")) as session:
            seen = await collect(session.turn("try"))
        assert the(seen, ToolResult).status == "denied"
        assert not (cwd / "denied.txt").exists()

    async def test_one_that_is_started_ahead(self, rig: GeminiRig, cwd: Path) -> None:
        """It is compiled whole, and works like any other; the commands that it runs are not touched by it."""
        look = "node -p 'process.execArgv.includes(`--import`) || process.env.NODE_OPTIONS' > seen.txt"
        rig.play([Run(look)], [Say("Done.")])
        spec = Spec(cwd=str(cwd), policy=preset("full"), ahead=True, **rig.options)
        async with Session(rig.driver, spec) as session:
            (pid,) = (spawn.live()[mark] for mark in session.marks)
            assert PRELOAD.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            seen = await collect(session.turn("try"))
        assert done(seen).text == "Done."
        assert (cwd / "seen.txt").read_text() == "undefined\n"

    async def test_replayed_history_is_not_told_again(self, rig: GeminiRig, cwd: Path) -> None:
        """It comes after the answer to session/load."""
        rig.play(*[[Say(f"answer {number}")] for number in range(12)])
        async with self.session(rig, cwd) as session:
            for number in range(11):
                await collect(session.turn(f"question {number}"))
            native = session.native_id
        async with self.session(rig, cwd, resume=native) as session:
            seen = await collect(session.turn("and now"))
        assert [text.text for text in of(seen, Text)] == ["answer 11"]

    async def test_an_unknown_session_cannot_be_resumed(self, rig: GeminiRig, cwd: Path) -> None:
        _, error = await self.attempt(rig, cwd, resume="00000000-0000-4000-8000-000000000000")
        assert "session/load failed" in str(error)


@pytest.mark.asyncio(loop_scope="class")
class TestOpencodeAcp(OnSharedAgents):
    RIG = OpencodeAcpRig
    POLICIES = (preset("full"), preset("ask"), preset("read-only"))
    """The ends and the middle: all 27 are held against OpenCode with its own driver, and over ACP with Gemini."""

    @pytest_asyncio.fixture(loop_scope="class")
    async def rig(self, shared_rig: OpencodeAcpRig, agents: SharedAcpAgents) -> AsyncIterator[Rig]:  # type: ignore[override]
        yield shared_rig.borrow()
        await agents.settled()

    async def test_subagents_only_where_nothing_is_asked(self, rig: Rig, cwd: Path) -> None:
        """Their asks reach nobody over ACP: they would wait for ever."""
        task = {"description": "sub", "prompt": "run it", "subagent_type": "general"}
        rig.play([Call("task", task)], [Say("There is none.")])
        async with self.session(rig, cwd, policy=Policy("allow", "ask", "allow"), on_ask=yes) as session:
            seen = await collect(session.turn("delegate"))
        assert the(seen, ToolResult).status == "error"
        assert the(seen, ToolUse).name == "task"
        assert done(seen).status == "success"


class TestOpencodeAcpAlone(OnAgentsOfTheirOwn):
    RIG = OpencodeAcpRig
