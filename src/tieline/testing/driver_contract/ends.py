"""How turns end: interrupts, time limits, model errors, dead agents; and what is left after."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from ... import script
from ...events import (
    Ask,
    Error,
)
from ...policy import Policy
from ...processes import spawn
from ...script import Fail, Run, Say, Stall
from ..model_rig import ModelRig
from ..rig import Rig
from ..stream_checks import collect, done, of
from .base import DriverContractBase, eventually
from .spending import whole


class EndContract(DriverContractBase):
    TURN_LIMIT_S = 3.0
    """Within it an agent on a busy machine has begun to speak."""

    async def test_interrupt_mid_stream(self, rig: Rig, cwd: Path) -> None:
        rig.play([Say("The beginning of a long story. "), Stall()], [Say("after the interrupt")])
        async with self.session(rig, cwd) as session:

            async def stop() -> None:
                await rig.stalled()
                await session.interrupt()

            stopper = asyncio.create_task(stop())
            seen = await collect(session.turn("tell me"))
            await stopper
            assert (done(seen).status, done(seen).error) == ("interrupted", "")
            assert not of(seen, Error), "an abort is told once, as an abort"
            again = await collect(session.turn("go on"))
            if "usable_when_interrupted" in rig.limits:  # an interrupt kills such an agent, and the next turn says so
                assert done(again).status == "error" and done(again).error
            else:
                assert done(again).status == "success", "the session is still usable"

    async def test_interrupt_running_tool(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "tools")
        rig.play([Run("touch started; sleep 300; touch finished")], [Say("never said")])
        async with self.session(rig, cwd) as session:

            async def stop() -> None:
                await eventually((cwd / "started").exists, "the command never started")
                await session.interrupt()

            stopper = asyncio.create_task(stop())
            seen = await collect(session.turn("run it"))
            await stopper
            assert done(seen).status == "interrupted"
        await self.nothing_left(cwd)

    async def test_interrupt_pending_ask(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "tools")
        asked = asyncio.Event()
        never = asyncio.Event()

        async def decide(ask: Ask) -> bool:
            asked.set()
            await never.wait()
            return True

        rig.play([Run("touch denied.txt")], [Say("never said")])
        async with self.session(rig, cwd, policy=Policy("allow", "ask", "allow"), on_ask=decide) as session:

            async def stop() -> None:
                await asked.wait()
                await session.interrupt()

            stopper = asyncio.create_task(stop())
            seen = await collect(session.turn("touch it"))
            await stopper
        assert done(seen).status == "interrupted"
        assert not (cwd / "denied.txt").exists()

    async def test_leaving_the_loop_interrupts(self, rig: Rig, cwd: Path) -> None:
        rig.play([Say("The beginning. "), Stall()], [Say("after the break")])
        async with self.session(rig, cwd) as session:
            turn = session.turn("tell me")
            async for _ in turn:
                await rig.stalled()
                break
            await turn.aclose()
            again = await collect(session.turn("go on"))
            assert done(again).status in ("success", "error")

    async def test_timeout(self, rig: Rig, cwd: Path) -> None:
        rig.play([Say("The beginning. "), Stall()])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("tell me", timeout=self.TURN_LIMIT_S))
        assert done(seen).status == "timeout"

    @pytest.mark.parametrize("status", [429, 500])
    async def test_model_error(self, rig: Rig, cwd: Path, status: int) -> None:
        """An agent may retry by itself or give up; either way the turn ends once, with its true outcome."""
        rig.play([Fail(status, "scripted refusal")], [Say("The second try.")])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("try", timeout=25.0))
        if done(seen).status == "success":
            assert done(seen).text.strip() == "The second try."
        else:
            assert done(seen).error

    async def test_model_error_that_stays(self, rig: Rig, cwd: Path) -> None:
        """A refusal that is no passing fault (400) ends the turn as an error."""
        self.able(rig, "model_error_that_stays")
        rig.play(*[[Fail(400, "scripted refusal")] for _ in range(20)])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("try", timeout=40.0))
        assert done(seen).status == "error", done(seen)
        assert of(seen, Error)
        assert done(seen).error

    async def test_model_error_that_stays_after_a_tool(self, rig: Rig, cwd: Path) -> None:
        """Work that the agent did before the error does not count as an answer."""
        self.able(rig, "tools")
        self.able(rig, "model_error_that_stays")
        rig.play([Say("Let me see."), Run("touch done.txt")], *[[Fail(400, "scripted refusal")] for _ in range(20)])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("try", timeout=40.0))
        assert (cwd / "done.txt").exists(), "else this shows nothing"
        assert done(seen).status == "error" and done(seen).error, done(seen)
        assert of(seen, Error)
        if done(seen).usage == "complete" and isinstance(rig, ModelRig):
            assert whole(done(seen).tokens) == rig.model.reported_tokens, (
                "a call that failed is only told where that cost nothing"
            )

    async def test_cut_stream(self, rig: Rig, cwd: Path) -> None:
        rig.play([Say("Half a sen"), script.Cut()], [Say("The second try.")])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("try", timeout=25.0))
        if done(seen).status == "success":
            assert done(seen).text.strip().endswith("The second try."), "half a sentence is no success"
        else:
            assert done(seen).status in ("error", "timeout")
            assert done(seen).error

    async def test_huge_line(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "huge_line")
        text = "0123456789" * 500_000
        rig.play([Say(text, chunks=1)])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("say a lot"))
        assert done(seen).status == "success"
        assert len(done(seen).text.strip()) == len(text)

    async def test_two_at_once(self, rig: Rig, cwd: Path) -> None:
        rig.play([Say("same answer")], [Say("same answer")])
        async with self.session(rig, cwd) as session, self.session(rig, cwd) as other:
            first, second = await asyncio.gather(collect(session.turn("a")), collect(other.turn("b")))
            assert done(first).text.strip() == done(second).text.strip() == "same answer"
            if session.native_id and other.native_id:
                assert session.native_id != other.native_id

    async def test_killed(self, rig: Rig, cwd: Path) -> None:
        self.able(rig, "killed")
        rig.play([Say("The beginning. "), Stall()])
        async with self.session(rig, cwd) as session:

            async def kill() -> None:
                await rig.stalled()
                for pid in spawn.live().values():
                    os.kill(pid, signal.SIGKILL)

            killer = asyncio.create_task(kill())
            seen = await collect(session.turn("tell me"))
            await killer
            assert done(seen).status == "error"
            assert done(seen).error
            after = await collect(session.turn("are you there"))
            if "dead_after_kill" not in rig.limits:  # an agent with a process per turn simply goes on
                assert done(after).status == "error", "a dead agent says so"

    @pytest.mark.parametrize("how", ["normal", "exception", "cancelled"])
    async def test_no_process_left(self, rig: Rig, cwd: Path, how: str) -> None:
        rig.play([Say("The beginning. "), *([Stall()] if how == "cancelled" else [])])
        marks: set[str] = set()

        async def use() -> None:
            async with self.session(rig, cwd) as session:
                marks.update(spawn.live())
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
        assert not marks & set(spawn.live())
        await self.nothing_left(cwd)
