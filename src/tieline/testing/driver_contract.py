"""The suite that every driver passes. Subclass it and give it a `rig` fixture.

What an agent cannot do is in its driver's `features`: then the suite checks that it is refused. What merely cannot be
scripted for it is in its rig's `limits`: then the test is left out, by name.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .. import script
from ..drivers.base import Attachment, McpServer, Prompt
from ..errors import PolicyUnenforceable, Unsupported, UsageError
from ..events import (
    Answer,
    Ask,
    Command,
    Diff,
    Done,
    Edit,
    Error,
    Event,
    Init,
    Plan,
    Text,
    TextDelta,
    Thinking,
    ToolResult,
    ToolUse,
    Usage,
)
from ..library import open_session
from ..policy import CAPABILITIES, Policy
from ..script import Fail, Inquire, Outline, Propose, Run, Say, Stall, Think, Write
from ..sessions.session import Session
from ..wire import launch
from .rig import Rig
from .streams import collect, done, of, the

FULL = Policy("allow", "allow", "allow")


class DriverContract:
    @pytest.fixture
    async def rig(self, tmp_path: Path) -> Rig:
        raise NotImplementedError("a subclass gives its rig")

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        """The session's directory."""
        place = tmp_path / "place"
        place.mkdir()
        return place

    def session(self, rig: Rig, place: Path, **changes: Any) -> Session:
        options: dict[str, Any] = {"policy": FULL, **rig.options, **changes}
        return open_session(rig.driver, cwd=place, **options)

    def able(self, rig: Rig, test: str) -> None:
        if test in rig.limits:
            pytest.skip(f"{rig.driver.name}: declared as not scriptable: {test}")

    # --- content ---------------------------------------------------------------------------------------

    async def test_text(self, rig: Rig, place: Path) -> None:
        rig.play([Say("Hello there, this is the answer.", chunks=5)])
        async with self.session(rig, place) as session:
            seen = await collect(session.turn("say hello"))
            assert done(seen).status == "success"
            assert done(seen).text.strip() == "Hello there, this is the answer."
            assert "".join(text.text for text in of(seen, Text)).strip() == "Hello there, this is the answer."
            if rig.driver.features.deltas:
                assert of(seen, TextDelta)
            init = the(seen, Init)
            assert init.agent == rig.driver.name
            assert init.receipt == session.receipt == rig.driver.enforce(FULL)

    async def test_several_turns(self, rig: Rig, place: Path) -> None:
        rig.play([Say("first answer")], [Say("second answer")])
        async with self.session(rig, place) as session:
            first = await collect(session.turn("one"))
            second = await collect(session.turn("two"))
            assert done(first).text.strip() == "first answer"
            assert done(second).text.strip() == "second answer"
            assert not of(second, Init), "init comes once"

    async def test_thinking(self, rig: Rig, place: Path) -> None:
        self.able(rig, "thinking")
        if not rig.driver.features.thinking:
            pytest.skip(f"{rig.driver.name} shows no thinking")
        rig.play([Think("Let me consider the matter."), Say("Considered.")])
        async with self.session(rig, place) as session:
            seen = await collect(session.turn("think"))
            assert "consider the matter" in "".join(item.text for item in of(seen, Thinking))
            assert done(seen).text.strip() == "Considered."

    async def test_write_and_result(self, rig: Rig, place: Path) -> None:
        self.able(rig, "tools")
        target = place / "made.txt"
        rig.play([Write(str(target), "written by the agent\n")], [Say("Written.")])
        async with self.session(rig, place) as session:
            seen = await collect(session.turn("write it"))
        call = next(use for use in of(seen, ToolUse) if isinstance(use.action, Edit))
        assert isinstance(call.action, Edit)
        assert any(path.endswith("made.txt") for path in call.action.paths)
        result = next(result for result in of(seen, ToolResult) if result.id == call.id)
        assert result.status == "ok"
        assert target.read_text() == "written by the agent\n"
        assert not of(seen, Ask), "the policy allows it: nobody is asked"

    async def test_command_and_result(self, rig: Rig, place: Path) -> None:
        self.able(rig, "tools")
        rig.play([Run("echo out-of-the-command")], [Say("Ran.")])
        async with self.session(rig, place) as session:
            seen = await collect(session.turn("run it"))
        call = next(use for use in of(seen, ToolUse) if isinstance(use.action, Command))
        assert isinstance(call.action, Command)
        assert "echo out-of-the-command" in call.action.command
        result = next(result for result in of(seen, ToolResult) if result.id == call.id)
        assert result.status == "ok"
        assert "out-of-the-command" in result.output

    # --- asks and policy -------------------------------------------------------------------------------

    async def test_ask_allow(self, rig: Rig, place: Path) -> None:
        self.able(rig, "tools")
        asked: list[Ask] = []

        async def decide(ask: Ask) -> bool:
            asked.append(ask)
            assert not (place / "asked.txt").exists(), "it ran before it was allowed"
            return True

        rig.play([Run("touch asked.txt")], [Say("Touched.")])
        async with self.session(rig, place, policy=Policy("allow", "ask", "allow"), on_ask=decide) as session:
            seen = await collect(session.turn("touch it"))
        assert len(asked) == 1
        assert asked[0].kind == "permission"
        assert asked[0].capability == "shell"
        assert isinstance(asked[0].action, Command)
        assert "touch asked.txt" in asked[0].action.command
        assert (place / "asked.txt").exists()
        ask, answer = the(seen, Ask), the(seen, Answer)
        assert ask == asked[0]
        assert (answer.ask, answer.decision, answer.by) == (ask.id, "allow", "caller")
        order = [event.type for event in seen]
        assert order.index("tool_use") < order.index("ask") < order.index("answer") < order.index("tool_result")

    async def test_ask_deny(self, rig: Rig, place: Path) -> None:
        self.able(rig, "tools")
        rig.play([Run("touch denied.txt")], [Say("It was refused.")])

        def decide(ask: Ask) -> Answer:
            return Answer(ask.id, "deny", by="caller", reason="not on my machine")

        async with self.session(rig, place, policy=Policy("allow", "ask", "allow"), on_ask=decide) as session:
            seen = await collect(session.turn("touch it"))
        assert not (place / "denied.txt").exists()
        call = next(use for use in of(seen, ToolUse) if isinstance(use.action, Command))
        assert next(r for r in of(seen, ToolResult) if r.id == call.id).status == "denied"
        assert the(seen, Answer).reason == "not on my machine"
        assert done(seen).status in ("success", "interrupted", "error")

    async def test_deny_by_policy(self, rig: Rig, place: Path) -> None:
        self.able(rig, "tools")
        rig.play([Run("touch denied.txt")], [Say("It was refused.")])
        policy = Policy("allow", "deny", "allow")
        if rig.driver.enforce(policy).unenforced():
            with pytest.raises(PolicyUnenforceable, match="shell"):
                self.session(rig, place, policy=policy)
            return
        async with self.session(rig, place, policy=policy, on_ask=yes) as session:
            seen = await collect(session.turn("touch it"))
        assert not (place / "denied.txt").exists()
        assert not of(seen, Ask), "the policy has decided: nobody is asked"
        assert any(result.status == "denied" for result in of(seen, ToolResult)), "the refusal must be visible"

    async def test_nobody_to_ask(self, rig: Rig, place: Path) -> None:
        self.able(rig, "tools")
        rig.play([Run("touch denied.txt")], [Say("It was refused.")])
        async with self.session(rig, place, policy=Policy("allow", "ask", "allow")) as session:
            seen = await collect(session.turn("touch it"))
        assert not (place / "denied.txt").exists()
        assert the(seen, Answer).by == "nobody"

    async def test_unanswered_ask_expires(self, rig: Rig, place: Path) -> None:
        self.able(rig, "tools")
        never = asyncio.Event()

        async def decide(ask: Ask) -> bool:
            await never.wait()
            return True

        rig.play([Run("touch denied.txt")], [Say("It was refused.")])
        policy = Policy("allow", "ask", "allow")
        async with self.session(rig, place, policy=policy, on_ask=decide, ask_expiry_s=0.2) as session:
            seen = await collect(session.turn("touch it"))
        assert the(seen, Answer).by == "expiry"
        assert not (place / "denied.txt").exists()

    async def test_question(self, rig: Rig, place: Path) -> None:
        self.able(rig, "question")
        if not rig.driver.features.questions:
            pytest.skip(f"{rig.driver.name} asks no questions")
        rig.play([Inquire("Which colour?", ("Red", "Blue"), header="Colour")], [Say("Thank you.")])

        def decide(ask: Ask) -> Answer:
            (question,) = ask.questions
            assert question.text == "Which colour?"
            assert [choice.label for choice in question.choices][:2] == ["Red", "Blue"]
            return Answer(ask.id, "allow", by="caller", answers={question.id: ("Blue",)})

        async with self.session(rig, place, on_ask=decide) as session:
            seen = await collect(session.turn("ask me"))
        ask = the(seen, Ask)
        assert ask.kind == "question"
        assert done(seen).status == "success"
        assert "Blue" in rig.heard(), "the answer reached the model"

    async def test_plan(self, rig: Rig, place: Path) -> None:
        self.able(rig, "plan")
        if not rig.driver.features.plans:
            pytest.skip(f"{rig.driver.name} shows no plan")
        rig.play([Outline(("Look", "Change", "Test"), done=1)], [Say("Planned.")])
        async with self.session(rig, place) as session:
            seen = await collect(session.turn("plan it"))
        plan = of(seen, Plan)[-1]
        assert [step.text for step in plan.steps] == ["Look", "Change", "Test"]
        assert plan.steps[0].status == "done"

    async def test_proposed_plan(self, rig: Rig, place: Path) -> None:
        self.able(rig, "propose")
        rig.play([Propose("1. Look\n2. Change")], [Say("Approved.")])
        async with self.session(rig, place, on_ask=yes) as session:
            seen = await collect(session.turn("propose it"))
        ask = next(ask for ask in of(seen, Ask) if ask.kind == "plan")
        assert "2. Change" in ask.plan

    async def test_diff(self, rig: Rig, place: Path) -> None:
        self.able(rig, "diff")
        if not rig.driver.features.diffs:
            pytest.skip(f"{rig.driver.name} tells no diffs")
        rig.play([Write(str(place / "new.txt"), "a new line\n")], [Say("Written.")])
        async with self.session(rig, place) as session:
            seen = await collect(session.turn("write it"))
        diff = of(seen, Diff)[-1]
        assert "+a new line" in diff.diff
        assert any(path.endswith("new.txt") for path in diff.paths)

    async def test_usage(self, rig: Rig, place: Path) -> None:
        if not rig.driver.features.usage:
            pytest.skip(f"{rig.driver.name} tells no usage")
        rig.play([Say("some words")])
        async with self.session(rig, place) as session:
            seen = await collect(session.turn("say some words"))
        tokens = done(seen).tokens
        assert tokens is not None
        assert done(seen).usage == "complete"
        assert (tokens.input or 0) > 0
        assert (tokens.output or 0) > 0
        for usage in of(seen, Usage):
            assert usage.tokens.output is None or usage.tokens.output <= (tokens.output or 0)

    # --- ends ------------------------------------------------------------------------------------------

    async def test_interrupt_mid_stream(self, rig: Rig, place: Path) -> None:
        rig.play([Say("The beginning of a long story. "), Stall()], [Say("after the interrupt")])
        async with self.session(rig, place) as session:

            async def stop() -> None:
                await rig.stalled()
                await session.interrupt()

            stopper = asyncio.create_task(stop())
            seen = await collect(session.turn("tell me"))
            await stopper
            assert done(seen).status == "interrupted"
            again = await collect(session.turn("go on"))
            assert done(again).status == "success", "the session is still usable"

    async def test_interrupt_running_tool(self, rig: Rig, place: Path) -> None:
        self.able(rig, "tools")
        rig.play([Run("touch started; sleep 300; touch finished")], [Say("never said")])
        async with self.session(rig, place) as session:

            async def stop() -> None:
                await eventually((place / "started").exists, "the command never started")
                await session.interrupt()

            stopper = asyncio.create_task(stop())
            seen = await collect(session.turn("run it"))
            await stopper
            assert done(seen).status == "interrupted"
        await self.nothing_left(place)

    async def test_interrupt_pending_ask(self, rig: Rig, place: Path) -> None:
        self.able(rig, "tools")
        asked = asyncio.Event()
        never = asyncio.Event()

        async def decide(ask: Ask) -> bool:
            asked.set()
            await never.wait()
            return True

        rig.play([Run("touch denied.txt")], [Say("never said")])
        async with self.session(rig, place, policy=Policy("allow", "ask", "allow"), on_ask=decide) as session:

            async def stop() -> None:
                await asked.wait()
                await session.interrupt()

            stopper = asyncio.create_task(stop())
            seen = await collect(session.turn("touch it"))
            await stopper
        assert done(seen).status == "interrupted"
        assert not (place / "denied.txt").exists()

    async def test_leaving_the_loop_interrupts(self, rig: Rig, place: Path) -> None:
        rig.play([Say("The beginning. "), Stall()], [Say("after the break")])
        async with self.session(rig, place) as session:
            turn = session.turn("tell me")
            async for _ in turn:
                await rig.stalled()
                break
            await turn.aclose()
            again = await collect(session.turn("go on"))
            assert done(again).status in ("success", "error")

    async def test_timeout(self, rig: Rig, place: Path) -> None:
        rig.play([Say("The beginning. "), Stall()])
        async with self.session(rig, place) as session:
            seen = await collect(session.turn("tell me", timeout=3.0))
        assert done(seen).status == "timeout"

    @pytest.mark.parametrize("status", [429, 500])
    async def test_model_error(self, rig: Rig, place: Path, status: int) -> None:
        """An agent may try again by itself or give up; either way the turn ends once and truthfully."""
        rig.play([Fail(status, "scripted refusal")], [Say("The second try.")])
        async with self.session(rig, place) as session:
            seen = await collect(session.turn("try", timeout=25.0))
        if done(seen).status == "success":
            assert done(seen).text.strip() == "The second try."
        else:
            assert done(seen).error

    async def test_model_error_that_stays(self, rig: Rig, place: Path) -> None:
        """A refusal that is no passing fault (400) ends the turn as an error."""
        self.able(rig, "model_error_that_stays")
        rig.play(*[[Fail(400, "scripted refusal")] for _ in range(20)])
        async with self.session(rig, place) as session:
            seen = await collect(session.turn("try", timeout=40.0))
        assert done(seen).status == "error", done(seen)
        assert of(seen, Error)
        assert done(seen).error

    async def test_cut_stream(self, rig: Rig, place: Path) -> None:
        rig.play([Say("Half a sen"), script.Cut()], [Say("The second try.")])
        async with self.session(rig, place) as session:
            seen = await collect(session.turn("try", timeout=25.0))
        assert done(seen).status in ("success", "error", "timeout")

    async def test_huge_line(self, rig: Rig, place: Path) -> None:
        self.able(rig, "huge_line")
        text = "0123456789" * 500_000
        rig.play([Say(text, chunks=1)])
        async with self.session(rig, place) as session:
            seen = await collect(session.turn("say a lot"))
        assert done(seen).status == "success"
        assert len(done(seen).text.strip()) == len(text)

    async def test_two_at_once(self, rig: Rig, place: Path) -> None:
        rig.play([Say("same answer")], [Say("same answer")])
        async with self.session(rig, place) as one, self.session(rig, place) as two:
            first, second = await asyncio.gather(collect(one.turn("a")), collect(two.turn("b")))
            assert done(first).text.strip() == done(second).text.strip() == "same answer"
            if one.native_id and two.native_id:
                assert one.native_id != two.native_id

    async def test_killed(self, rig: Rig, place: Path) -> None:
        self.able(rig, "killed")
        rig.play([Say("The beginning. "), Stall()])
        async with self.session(rig, place) as session:

            async def kill() -> None:
                await rig.stalled()
                for pid in launch.live().values():
                    os.kill(pid, signal.SIGKILL)

            killer = asyncio.create_task(kill())
            seen = await collect(session.turn("tell me"))
            await killer
            assert done(seen).status == "error"
            assert done(seen).error
            after = await collect(session.turn("are you there"))
            assert done(after).status == "error", "a dead agent says so"

    # --- going on --------------------------------------------------------------------------------------

    async def test_resume(self, rig: Rig, place: Path) -> None:
        if not rig.driver.features.resume:
            with pytest.raises(Unsupported, match="resume"):
                self.session(rig, place, resume="some-id")
            return
        rig.play([Say("I will remember.")], [Say("You said albatross.")])
        async with self.session(rig, place) as session:
            seen = await collect(session.turn("remember the word albatross"))
            native = session.native_id
            assert native
            assert done(seen).native_id == native
        before = rig.heard().count("albatross")
        async with self.session(rig, place, resume=native) as session:
            seen = await collect(session.turn("which word was it"))
            assert done(seen).text.strip() == "You said albatross."
        assert rig.heard().count("albatross") > before, "the earlier turn was sent to the model again"

    async def test_resume_unknown(self, rig: Rig, place: Path) -> None:
        if not rig.driver.features.resume:
            pytest.skip(f"{rig.driver.name} cannot resume")
        nowhere = "00000000-0000-4000-8000-000000000000"
        seen, problem = await self.attempt(rig, place, resume=nowhere)
        assert problem or done(seen).status == "error"

    async def test_fork(self, rig: Rig, place: Path) -> None:
        if not rig.driver.features.fork:
            with pytest.raises(Unsupported, match="fork"):
                self.session(rig, place, resume="some-id" if rig.driver.features.resume else "", fork=True)
            return
        rig.play([Say("I will remember.")], [Say("You said albatross.")])
        async with self.session(rig, place) as session:
            await collect(session.turn("remember the word albatross"))
            native = session.native_id
        async with self.session(rig, place, resume=native, fork=True) as session:
            seen = await collect(session.turn("which word was it"))
            assert done(seen).status == "success"
            assert session.native_id != native

    async def test_steer(self, rig: Rig, place: Path) -> None:
        if not rig.driver.features.steer:
            async with self.session(rig, place) as session:
                with pytest.raises(Unsupported, match="steer"):
                    await session.steer("the other way")
            return
        self.able(rig, "tools")
        rig.play([Run("touch started; while [ ! -e steered ]; do sleep 0.05; done")], [Say("Heard.")])
        async with self.session(rig, place) as session:

            async def steer() -> None:
                await eventually((place / "started").exists, "the command never started")
                await session.steer("mind the pelican")
                (place / "steered").touch()

            steering = asyncio.create_task(steer())
            seen = await collect(session.turn("run it"))
            await steering
        assert done(seen).status == "success"
        assert "mind the pelican" in rig.heard()

    # --- options ---------------------------------------------------------------------------------------

    async def test_system(self, rig: Rig, place: Path) -> None:
        if rig.driver.features.system == "none":
            with pytest.raises(Unsupported, match="system"):
                self.session(rig, place, system="Speak like a ferryman.")
            return
        rig.play([Say("Ahoy.")])
        async with self.session(rig, place, system="Speak like a ferryman.") as session:
            await collect(session.turn("hello"))
        assert "Speak like a ferryman." in rig.heard()

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("effort", "no-such-effort"),
            ("max_turns", 1),
            ("max_budget_usd", 0.5),
            ("allowed_tools", ("x",)),
            ("disallowed_tools", ("x",)),
            ("mcp_servers", {"x": McpServer(command=("true",))}),
        ],
    )
    async def test_undeclared_is_refused(self, rig: Rig, place: Path, option: str, value: object) -> None:
        able = getattr(rig.driver.features, option)
        if able and option != "effort":
            self.session(rig, place, **{option: value})
        else:
            with pytest.raises(Unsupported, match=option):
                self.session(rig, place, **{option: value})

    async def test_max_turns(self, rig: Rig, place: Path) -> None:
        if not rig.driver.features.max_turns:
            pytest.skip(f"{rig.driver.name} has no max_turns")
        rig.play(*[[Run(f"echo {number}")] for number in range(5)])
        async with self.session(rig, place, max_turns=2) as session:
            seen = await collect(session.turn("go on and on"))
        assert done(seen).status == "max_turns"

    async def test_mcp_server(self, rig: Rig, place: Path) -> None:
        """The server is started by the agent, with its environment."""
        if not rig.driver.features.mcp_servers:
            pytest.skip(f"{rig.driver.name} takes no MCP servers")
        self.able(rig, "mcp_server")
        proof = place / "mcp-was-started"
        server = McpServer(command=("/bin/sh", "-c", 'touch "$PROOF"; exec cat >/dev/null'), env={"PROOF": str(proof)})
        rig.play([Say("Done.")])
        async with self.session(rig, place, mcp_servers={"proof": server}) as session:
            await collect(session.turn("hello"))
            await eventually(proof.exists, "the agent never started the server", timeout=20)

    async def test_attachment(self, rig: Rig, place: Path) -> None:
        image = place / "dot.png"
        image.write_bytes(PNG)
        prompt = Prompt("what is this", (Attachment(path=str(image), media_type="image/png", name="dot.png"),))
        async with self.session(rig, place) as session:
            if not {"image/png", "image/*", "*/*"} & set(rig.driver.features.attachments):
                with pytest.raises(Unsupported, match="attachments"):
                    await collect(session.turn(prompt))
                return
            rig.play([Say("A dot.")])
            seen = await collect(session.turn(prompt))
        assert done(seen).status == "success"
        assert PNG_BASE64[:60] in rig.heard(), "the picture reached the model"

    # --- bad input -------------------------------------------------------------------------------------

    async def test_bad_input(self, rig: Rig, place: Path) -> None:
        with pytest.raises(UsageError, match="no directory"):
            self.session(rig, place / "missing")
        (place / "file").touch()
        with pytest.raises(UsageError, match="not a directory"):
            self.session(rig, place / "file")
        async with self.session(rig, place) as session:
            with pytest.raises(UsageError, match="empty"):
                await collect(session.turn("   "))

    async def test_probe(self, rig: Rig) -> None:
        probe = await rig.driver.probe(rig.options.get("env", {}))
        assert probe.found, probe
        assert probe.version

    async def test_receipt_for_every_policy(self, rig: Rig) -> None:
        from ..policy import every_policy

        for policy in every_policy():
            receipt = rig.driver.enforce(policy)
            for capability in CAPABILITIES:
                assert receipt.of(capability).level == policy.level(capability)

    # --- nothing is left -------------------------------------------------------------------------------

    @pytest.mark.parametrize("how", ["normal", "exception", "cancelled"])
    async def test_no_process_left(self, rig: Rig, place: Path, how: str) -> None:
        rig.play([Say("The beginning. "), *([Stall()] if how == "cancelled" else [])])
        marks: set[str] = set()

        async def use() -> None:
            async with self.session(rig, place) as session:
                marks.update(launch.live())
                await collect(session.turn("hello"))
                if how == "exception":
                    raise ZeroDivisionError

        task = asyncio.create_task(use())
        if how == "cancelled":
            await rig.stalled()
            task.cancel()
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        expected: dict[str, type[BaseException | None]] = {
            "normal": type(None),
            "exception": ZeroDivisionError,
            "cancelled": asyncio.CancelledError,
        }
        assert isinstance(outcome, expected[how]), outcome
        assert not marks & set(launch.live())
        await self.nothing_left(place)

    # --- helpers ---------------------------------------------------------------------------------------

    async def attempt(self, rig: Rig, place: Path, **changes: Any) -> tuple[list[Event], Exception | None]:
        """Open and take one turn, where either may fail."""
        try:
            async with self.session(rig, place, **changes) as session:
                return await collect(session.turn("hello")), None
        except Exception as error:
            return [Done("error")], error

    async def nothing_left(self, place: Path) -> None:
        """No process works in the session's directory any more."""
        await eventually(lambda: not at_work_in(place), f"processes are left: {at_work_in(place)}")


def yes(ask: Ask) -> bool:
    return True


async def eventually(true: Callable[[], bool], otherwise: str, *, timeout: float = 10.0) -> None:
    try:
        async with asyncio.timeout(timeout):
            while not true():  # noqa: ASYNC110 (the world outside has no events to wait for)
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(otherwise) from None


def at_work_in(place: Path) -> list[str]:
    """Processes other than this one whose working directory is in there."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if int(entry.name) != os.getpid() and (entry / "cwd").readlink().is_relative_to(place):
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


PNG_BASE64 = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def _png() -> bytes:
    import base64

    return base64.b64decode(PNG_BASE64)


PNG = _png()
