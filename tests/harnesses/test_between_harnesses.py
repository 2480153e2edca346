"""Agents in different harnesses talk to each other: real terminals in one home, installed by the command, one hub.

Nobody tells an agent to look for messages: an idle terminal wakes up with what the other one sent.
"""

from itertools import pairwise
from pathlib import Path

import pytest
from tests.harnesses.desk import desk, tool, until_exists

from tieline.script import Say

pytestmark = pytest.mark.real


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
            [until_exists("go")],
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
