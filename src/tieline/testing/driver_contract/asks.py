"""Decisions: asked, answered, refused by policy, expired."""

import asyncio
from pathlib import Path

import pytest

from ...errors import PolicyUnenforceable
from ...events import (
    Answer,
    Ask,
    Command,
    Diff,
    Plan,
    ToolResult,
    ToolUse,
    Usage,
)
from ...policy import Policy
from ...script import Inquire, Outline, Propose, Run, Say, Write
from ..rig import Rig
from ..stream_checks import collect, done, of, the
from .base import DriverContractBase, yes


class AskContract(DriverContractBase):
    async def test_ask_allow(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "tools")
        asked: list[Ask] = []

        async def decide(ask: Ask) -> bool:
            asked.append(ask)
            assert not (cwd / "asked.txt").exists(), "it ran before it was allowed"
            return True

        rig.play([Run("touch asked.txt")], [Say("Touched.")])
        async with self.session(rig, cwd, policy=Policy("allow", "ask", "allow"), on_ask=decide) as session:
            seen = await collect(session.turn("touch it"))
        assert len(asked) == 1
        assert asked[0].kind == "permission"
        assert asked[0].capability == "shell"
        assert isinstance(asked[0].action, Command)
        assert "touch asked.txt" in asked[0].action.command
        assert (cwd / "asked.txt").exists()
        ask, answer = the(seen, Ask), the(seen, Answer)
        assert ask == asked[0]
        assert (answer.ask, answer.decision, answer.by) == (ask.id, "allow", "caller")
        order = [event.type for event in seen]
        assert order.index("tool_use") < order.index("ask") < order.index("answer") < order.index("tool_result")

    async def test_ask_deny(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "tools")
        rig.play([Run("touch denied.txt")], [Say("It was refused.")])

        def decide(ask: Ask) -> Answer:
            return Answer(ask.id, "deny", by="caller", reason="not on my machine")

        async with self.session(rig, cwd, policy=Policy("allow", "ask", "allow"), on_ask=decide) as session:
            seen = await collect(session.turn("touch it"))
            if "not on my machine" not in rig.heard():  # at the latest it goes with the next prompt
                rig.play([Say("I see.")])
                await collect(session.turn("go on"))
        assert "not on my machine" in rig.heard(), "what the person said reached the model"
        assert not (cwd / "denied.txt").exists()
        call = next(use for use in of(seen, ToolUse) if isinstance(use.action, Command))
        assert next(r for r in of(seen, ToolResult) if r.id == call.id).status == "denied"
        assert the(seen, Answer).reason == "not on my machine"
        ended = done(seen)
        if "goes_on_when_denied" in rig.limits:  # then the turn has failed: it was not answered, and nobody stopped it
            assert ended.status == "error" and ended.error
        else:
            assert (ended.status, ended.text.strip()) == ("success", "It was refused.")

    async def test_deny_by_policy(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "tools")
        rig.play([Run("touch denied.txt")], [Say("It was refused.")])
        policy = Policy("allow", "deny", "allow")
        if rig.driver.enforce(policy).unenforced():
            with pytest.raises(PolicyUnenforceable, match="shell"):
                self.session(rig, cwd, policy=policy)
            return
        async with self.session(rig, cwd, policy=policy, on_ask=yes) as session:
            seen = await collect(session.turn("touch it"))
        assert not (cwd / "denied.txt").exists()
        assert not of(seen, Ask), "the policy has decided: nobody is asked"
        assert any(result.status == "denied" for result in of(seen, ToolResult)), "the refusal must be visible"

    async def test_nobody_to_ask(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "tools")
        rig.play([Run("touch denied.txt")], [Say("It was refused.")])
        async with self.session(rig, cwd, policy=Policy("allow", "ask", "allow")) as session:
            seen = await collect(session.turn("touch it"))
        assert not (cwd / "denied.txt").exists()
        assert the(seen, Answer).by == "nobody"

    async def test_unanswered_ask_expires(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "tools")
        never = asyncio.Event()

        async def decide(ask: Ask) -> bool:
            await never.wait()
            return True

        rig.play([Run("touch denied.txt")], [Say("It was refused.")])
        policy = Policy("allow", "ask", "allow")
        async with self.session(rig, cwd, policy=policy, on_ask=decide, ask_expiry_s=0.2) as session:
            seen = await collect(session.turn("touch it"))
        assert the(seen, Answer).by == "expiry"
        assert not (cwd / "denied.txt").exists()

    async def test_question(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "question")
        if not rig.driver.features.questions:
            pytest.skip(f"{rig.driver.name} asks no questions")
        rig.play([Inquire("Which colour?", ("Red", "Blue"), header="Colour")], [Say("Thank you.")])

        def decide(ask: Ask) -> Answer:
            (question,) = ask.questions
            assert question.text == "Which colour?"
            assert [choice.label for choice in question.choices][:2] == ["Red", "Blue"]
            return Answer(ask.id, "allow", by="caller", answers={question.id: ("Blue",)})

        async with self.session(rig, cwd, on_ask=decide) as session:
            seen = await collect(session.turn("ask me"))
        ask = the(seen, Ask)
        assert ask.kind == "question"
        assert done(seen).status == "success"
        assert "Blue" in rig.heard(), "the answer reached the model"
        self.saw(rig, "questions", seen)

    async def test_plan(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "plan")
        if not rig.driver.features.plans:
            pytest.skip(f"{rig.driver.name} shows no plan")
        rig.play([Outline(("Look", "Change", "Test"), done=1)], [Say("Planned.")])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("plan it"))
        plan = of(seen, Plan)[-1]
        assert [step.text for step in plan.steps] == ["Look", "Change", "Test"]
        assert plan.steps[0].status == "done"
        self.saw(rig, "plans", seen)

    async def test_proposed_plan(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "propose")
        rig.play([Propose("1. Look\n2. Change")], [Say("Approved.")])
        async with self.session(rig, cwd, on_ask=yes) as session:
            seen = await collect(session.turn("propose it"))
        ask = next(ask for ask in of(seen, Ask) if ask.kind == "plan")
        assert "2. Change" in ask.plan

    async def test_diff(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "diff")
        if not rig.driver.features.diffs:
            pytest.skip(f"{rig.driver.name} tells no diffs")
        rig.play([Write(str(cwd / "new.txt"), "a new line\n")], [Say("Written.")])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("write it"))
        diff = of(seen, Diff)[-1]
        assert "+a new line" in diff.diff
        assert any(path.endswith("new.txt") for path in diff.paths)
        self.saw(rig, "diffs", seen)

    async def test_usage(self, rig: Rig, cwd: Path) -> None:
        if not rig.driver.features.usage:
            pytest.skip(f"{rig.driver.name} tells no usage")
        rig.play([Say("some words")])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("say some words"))
        tokens = done(seen).tokens
        assert tokens is not None
        assert done(seen).usage == "complete"
        assert (tokens.input or 0) > 0
        assert (tokens.output or 0) > 0
        for usage in of(seen, Usage):
            assert usage.tokens.output is None or usage.tokens.output <= (tokens.output or 0)
        self.saw(rig, "usage", seen)
