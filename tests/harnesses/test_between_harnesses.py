"""Agents in different harnesses talk to each other: real terminals in one home, installed by the command, one hub.

Nobody tells an agent to look for messages: an idle terminal wakes up with what the other one sent.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from tieline.client import Client, connect
from tieline.paths import state as state_directory
from tieline.protocol.mesh import Activity, MemberView
from tieline.protocol.messages import MessageView
from tieline.script import Call, Run, Say
from tieline.testing.harness_terminals import HOMES, HarnessHome
from tieline.testing.rig import scratch_env
from tieline.testing.tmux_terminal import TmuxTerminal
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.real

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"
TIELINE = str(Path(sys.executable).with_name("tieline"))
BOUND = 120.0
ARGUMENTS = {"claude-code": ("--allowedTools", "mcp__tieline")}
"""The person lets the agent use Tieline's tools without asking. With options like that, Codex leaves its shared daemon:
there the person answers at the terminal."""


def tool(harness: str, name: str, **arguments: object) -> Call:
    """A call of one of our tools, as a harness names it to its model."""
    match harness:
        case "claude-code":
            return Call(f"mcp__tieline__{name}", arguments)
        case "gemini":
            return Call(f"mcp_tieline_{name}", arguments)
        case "codex":
            return Call(name, {"namespace": "mcp__tieline", **arguments})
        case _:
            return Call(f"tieline_{name}", arguments)


class Desk:
    """A person's terminals, each with another harness, and a client of the hub that runs beside them."""

    def __init__(self, client: Client, homes: Mapping[str, HarnessHome], terminals: Mapping[str, TmuxTerminal]) -> None:
        self.client = client
        self.homes = homes
        self.terminals = terminals

    async def member(self, harness: str) -> MemberView:
        """The agent of that terminal, once it is idle. It registered by itself."""
        return await self.activity(harness, "idle")

    async def activity(self, harness: str, activity: Activity) -> MemberView:
        async with asyncio.timeout(BOUND):
            while not (found := await self.client.members(harness=harness, activity=activity)):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        (member,) = found
        return member

    async def heard(self, harness: str, words: str) -> None:
        rig = self.homes[harness].rig
        await eventually(lambda: words in rig.heard(), f"{harness} never heard {words!r}", timeout=BOUND)

    async def reached(self, message: MessageView, *states: str) -> None:
        """The receipt says so; what the terminal shows may be a moment ahead of it."""
        seen: set[str] = set()
        with suppress(TimeoutError):
            async with asyncio.timeout(BOUND):
                while not set(states) <= seen:
                    seen = {step.state for step in (await self.client.message(message.receipt.id)).receipt.steps}
        assert set(states) <= seen

    async def allow(self, harness: str) -> None:
        """As a person does at the terminal, where the harness asks before it uses our tools."""
        if harness == "codex":
            await self.terminals[harness].shows("Allow the tieline MCP server")
            await self.terminals[harness].key("Down", "Enter")  # for this session

    async def messages(self) -> list[MessageView]:
        """All that were sent, oldest first."""
        (thread,) = await self.client.threads()
        return list((await self.client.trace(thread.first.receipt.id)).messages)


@asynccontextmanager
async def desk(root: Path, *harnesses: str) -> AsyncGenerator[Desk, None]:
    async with AsyncExitStack() as stack:
        homes = {name: await stack.enter_async_context(HOMES[name](root, BINARIES)) for name in harnesses}
        env = scratch_env(root / "home", path="/usr/bin:/bin")
        await tieline(env, root, "install", *harnesses, "--yes")
        await tieline(env, root, "up", "--port", "0")
        stack.push_async_callback(tieline, env, root, "down")
        client = await stack.enter_async_context(connect(env))
        terminals: dict[str, TmuxTerminal] = {}
        for number, name in enumerate(harnesses, 1):
            terminals[name] = await stack.enter_async_context(homes[name].terminal(*ARGUMENTS.get(name, ())))
            # Its MCP server has been opened and has listed its tools. What a model calls before is unknown to it.
            calls = partial(mcp_calls, state_directory(env) / "hub.log")
            await eventually(lambda: calls() >= 2 * number, f"{name} does not list our tools", timeout=BOUND)  # noqa: B023
        at = Desk(client, homes, terminals)
        if "opencode" in terminals:  # it has no session before its first prompt
            homes["opencode"].rig.play([Say("Hello, too.")])
            await terminals["opencode"].submit("hello")
            await terminals["opencode"].shows("Hello, too.")
        try:
            yield at
        except BaseException as error:
            error.add_note(f"The members: {await client.members(ended=True)}")
            for name, terminal in terminals.items():
                error.add_note(f"The screen of {name}:\n{await terminal.screen()}")
            raise


def mcp_calls(log: Path) -> int:
    return sum('"path": "/mcp", "status": 200' in line for line in log.read_text().splitlines())


async def tieline(env: Mapping[str, str], cwd: Path, *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        TIELINE, *arguments, cwd=cwd, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(BOUND):
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


@pytest.mark.parametrize(
    ("asker", "asked"), [("claude-code", "codex"), ("claude-code", "opencode"), ("codex", "opencode")]
)
async def test_two_harnesses_exchange_messages_while_idle(tmp_path: Path, asker: str, asked: str) -> None:
    async with desk(tmp_path, asker, asked) as at:
        first, second = await at.member(asker), await at.member(asked)
        at.homes[asked].rig.play(
            [tool(asked, "send_message", to=first.id, text="The answer is 42.")], [Say("I have answered.")]
        )
        at.homes[asker].rig.play(
            [tool(asker, "find_agents", query=asked)],
            [tool(asker, "send_message", to=second.id, text="What is the answer?")],
            [Say("I have asked.")],
            [Say("So it is 42.")],
        )
        await at.terminals[asker].submit("ask the other one")
        await at.allow(asker)
        await at.heard(asked, "What is the answer?")
        await at.allow(asked)
        await at.heard(asker, "The answer is 42.")
        await at.terminals[asker].shows("So it is 42.")
        await at.terminals[asked].shows("I have answered.")
        assert second.name in at.homes[asker].rig.heard(), "it did not find the other one"
        question, answer = await at.messages()
        assert (question.receipt.sender, question.receipt.subject) == (first.address, second.address)
        assert (answer.receipt.sender, answer.receipt.subject) == (second.address, first.address)
        await at.reached(question, "stored", "injected", "seen", "answered")
        await at.reached(answer, "stored", "injected")


async def test_gemini_is_written_to_in_its_turn_and_answers(tmp_path: Path) -> None:
    """Its terminal cannot be woken, so it is at work when the other one writes."""
    async with desk(tmp_path, "claude-code", "gemini") as at:
        claude, gemini = await at.member("claude-code"), await at.member("gemini")
        at.homes["gemini"].rig.play(
            [Run("while [ ! -e go ]; do sleep 0.1; done")],
            [tool("gemini", "send_message", to=claude.id, text="The answer is 42.")],
            [Say("I have answered.")],
        )
        at.homes["claude-code"].rig.play(
            [tool("claude-code", "find_agents", query="gemini")],
            [tool("claude-code", "send_message", to=gemini.id, text="What is the answer?")],
            [Say("I have asked.")],
            [Say("So it is 42.")],
        )
        await at.terminals["gemini"].submit("wait for the file")
        await at.activity("gemini", "working")
        await at.terminals["claude-code"].submit("ask the other one")
        await at.terminals["claude-code"].shows("I have asked.")
        assert "What is the answer?" not in at.homes["gemini"].rig.heard()  # its tool is not interrupted
        (at.homes["gemini"].project / "go").touch()
        await at.terminals["claude-code"].shows("So it is 42.")
        await at.terminals["gemini"].shows("I have answered.")
        assert gemini.name in at.homes["claude-code"].rig.heard(), "it did not find the other one"
        question, answer = await at.messages()
        assert (question.receipt.sender, question.receipt.subject) == (claude.address, gemini.address)
        assert (answer.receipt.sender, answer.receipt.subject) == (gemini.address, claude.address)
        await at.reached(question, "stored", "injected", "seen", "answered")


async def test_a_chain_through_three_harnesses_and_back_has_one_budget(tmp_path: Path) -> None:
    async with desk(tmp_path, "claude-code", "codex", "opencode") as at:
        chain = [await at.member(name) for name in ("claude-code", "codex", "opencode")]
        claude, codex, opencode = chain
        at.homes["opencode"].rig.play(
            [tool("opencode", "send_message", to=claude.id, text="The third has it.")], [Say("It went back.")]
        )
        at.homes["codex"].rig.play(
            [tool("codex", "send_message", to=opencode.id, text="For the third.")], [Say("It went on.")]
        )
        at.homes["claude-code"].rig.play(
            [tool("claude-code", "send_message", to=codex.id, text="For the second.")],
            [Say("It is on its way.")],
            [Say("It came back.")],
        )
        await at.terminals["claude-code"].submit("send it round")
        await at.heard("codex", "For the second.")
        await at.allow("codex")
        await at.terminals["claude-code"].shows("It came back.")
        await at.heard("claude-code", "The third has it.")
        messages = await at.messages()
        passed = [(one.receipt.sender, one.receipt.subject) for one in messages]
        round_trip = [member.address for member in (*chain, claude)]
        assert passed == list(pairwise(round_trip))
        budgets = [one.envelope.budget for one in messages if one.envelope is not None]
        hops, calls = [budget.hops for budget in budgets], [budget.calls_left for budget in budgets]
        assert hops == [1, 2, 3]
        assert calls == sorted(calls, reverse=True) and len(set(calls)) == 3
