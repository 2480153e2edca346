"""Agents in different harnesses talk to each other: real terminals in one home, installed by the command, one hub.

Nobody tells an agent to look for messages: they come into a running turn, at its end, and wake an idle terminal.
"""

from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args

import pytest
from tests.harnesses.desk import Desk, desk, tool, until_exists

from tieline.harnesses import registry
from tieline.script import Say, Stall

Moment = Literal["mid_turn", "turn_end", "idle_wake"]
"""When a message reaches its receiver: while a tool of its runs, while its model gives the last answer of a turn, or
while nothing runs."""
PAIRS = [("claude-code", "codex"), ("claude-code", "opencode"), ("codex", "opencode"), ("claude-code", "gemini")]
MOMENTS: dict[str, tuple[Moment, ...]] = {
    "claude-code": ("mid_turn", "turn_end", "idle_wake"),
    "codex": ("mid_turn", "turn_end", "idle_wake"),
    "opencode": ("mid_turn", "turn_end", "idle_wake"),
    "gemini": ("mid_turn", "turn_end"),  # its terminal cannot be woken
}
"""Receiver → when it is sent something by each harness that it is paired with, in both directions of a pair."""


def test_every_moment_that_a_harness_declares_is_tried() -> None:
    assert {name for pair in PAIRS for name in pair} == MOMENTS.keys()
    for name, moments in MOMENTS.items():
        capabilities = registry.create(name).capabilities
        assert moments == tuple(moment for moment in get_args(Moment) if getattr(capabilities, moment))


@pytest.mark.real
@pytest.mark.parametrize(("asker", "asked"), PAIRS)
async def test_two_harnesses_exchange_messages_at_every_moment(tmp_path: Path, asker: str, asked: str) -> None:
    async with desk(tmp_path, asker, asked) as at:
        await find_ask_and_answer(at, asker, asked)
        for sender, receiver in ((asker, asked), (asked, asker)):
            for moment in MOMENTS[receiver]:
                await deliver(at, sender, receiver, moment)


async def find_ask_and_answer(at: Desk, asker: str, asked: str) -> None:
    first, second = await at.member(asker), await at.member(asked)
    wakes = "idle_wake" in MOMENTS[asked]
    at.homes[asked].rig.play(
        *([] if wakes else [[until_exists("asked")]]),
        [tool(asked, "send_message", to=first.id, text="The answer is 42.")],
        [Say("I have answered.")],
    )
    at.homes[asker].rig.play(
        [tool(asker, "find_agents", query=asked)],
        [tool(asker, "send_message", to=second.id, text="What is the answer?")],
        [Say("I have asked.")],
        [Say("So it is 42.")],
    )
    if not wakes:
        await at.terminals[asked].submit("wait for the file")
        await at.activity(asked, "working")
        await at.running(asked, "asked")
    await at.terminals[asker].submit("ask the other one")
    await at.allow(asker)
    if not wakes:
        await at.terminals[asker].shows("I have asked.")
        (at.homes[asked].project / "asked").touch()
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


async def deliver(at: Desk, sender: str, receiver: str, moment: Moment) -> None:
    """The sender's agent sends while the receiver's is like that, whose model hears it without being told to look."""
    to, rig, terminal = await at.member(receiver), at.homes[receiver].rig, at.terminals[receiver]
    await at.member(sender)
    row = f"{sender} to {receiver}, {moment}"
    if moment == "mid_turn":
        rig.play([until_exists(f"{sender}-{receiver}")], [Say(f"Heard: {row}.")])
        await terminal.submit(f"work for {row}")
        await at.activity(receiver, "working")
        await at.running(receiver, f"{sender}-{receiver}")
    elif moment == "turn_end":
        rig.play([Stall(), Say("It is done.")], [Say(f"Heard: {row}.")])
        await terminal.submit(f"work for {row}")
        await rig.stalled()
    else:
        rig.play([Say(f"Heard: {row}.")])
    at.homes[sender].rig.play([tool(sender, "send_message", to=to.id, text=f"News: {row}.")], [Say(f"Sent: {row}.")])
    await at.terminals[sender].submit(f"send {row}")
    await at.terminals[sender].shows(f"Sent: {row}.")
    message = await at.sent(f"News: {row}.")
    if moment == "mid_turn":
        assert f"News: {row}." not in rig.heard(), "its tool was interrupted"
    (at.homes[receiver].project / f"{sender}-{receiver}").touch()
    rig.model.go_on.set()
    await at.heard(receiver, f"News: {row}.")
    await terminal.shows(f"Heard: {row}.")
    await at.reached(message, "stored", "injected", "seen")
    rig.model.go_on.clear()


@pytest.mark.real
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
        passed = [(message.receipt.sender, message.receipt.subject) for message in messages]
        round_trip = [member.address for member in (*chain, claude)]
        assert passed == list(pairwise(round_trip))
        budgets = [message.envelope.budget for message in messages if message.envelope is not None]
        hops, calls = [budget.hops for budget in budgets], [budget.calls_left for budget in budgets]
        assert hops == [1, 2, 3]
        assert calls == sorted(calls, reverse=True) and len(set(calls)) == 3
