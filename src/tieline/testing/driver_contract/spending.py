"""What a turn cost: the sum of the turns is what the model was asked for, however the conversation went on."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ...events import Done, TextDelta, Tokens
from ...processes import spawn
from ...script import Run, Say, Stall
from ...sessions.session import Session
from ..model_rig import ModelRig
from ..rig import Rig
from ..stream_checks import collect, done
from .base import DriverContractBase


class SpendingContract(DriverContractBase):
    @pytest.mark.timeout(300)  # an agent is started four times
    async def test_spending(self, rig: Rig, cwd: Path) -> None:
        """Compare the tokens of each turn with the model's own count: cold, warm, with a tool, resumed, aborted, after
        an abort, after a crash, forked."""
        if not isinstance(rig, ModelRig):
            pytest.skip(f"{rig.driver.name}: its model does not count")
        features = rig.driver.features
        account = _Account(rig, deltas=features.deltas)
        async with self.session(rig, cwd) as session:
            await account.turn(session)
            rig.play([Run("echo once")])
            await account.turn(session, "warm, with a tool")
            native = session.native_id
        if not features.resume:
            return
        async with self.session(rig, cwd, resume=native) as session:
            await account.turn(session, "resumed")
            await account.broken(session, "aborted", session.interrupt)
            if "usable_when_interrupted" not in rig.limits:
                await account.turn(session, "after an abort, and warm")
                if "killed" not in rig.limits:
                    await account.broken(session, "crashed", _kill)
        if "resumed_twice" in rig.limits:
            return
        async with self.session(rig, cwd, resume=native) as session:
            await account.turn(session, "after a crash")
            if features.fork:  # beside the other session: agents that share a server need not start another one
                async with self.session(rig, cwd, resume=native, fork=True) as forked:
                    await account.turn(forked, "forked")


async def _kill() -> None:
    for pid in spawn.live().values():
        os.kill(pid, signal.SIGKILL)


class _Account:
    """Holds each turn's tokens against what the model told the agent during it."""

    def __init__(self, rig: ModelRig, *, deltas: bool) -> None:
        self._rig = rig
        self._deltas = deltas
        self._before = (0, 0)

    def _served(self) -> tuple[int, int]:
        (before_in, before_out), (now_in, now_out) = self._before, self._rig.model.reported_tokens
        self._before = (now_in, now_out)
        return now_in - before_in, now_out - before_out

    async def turn(self, session: Session, what: str = "cold") -> None:
        self._rig.play([Say("Two words.")])
        ended = done(await collect(session.turn("go on")))
        assert ended.status == "success", (what, ended)
        reported, served = whole(ended.tokens), self._served()
        if "usage_whole" in self._rig.limits:  # it does not report every model call; then the turn says so
            assert ended.usage != "complete" and reported[0] <= served[0] and reported[1] <= served[1], (
                what,
                reported,
                served,
            )
        else:
            assert ended.usage == "complete" and reported == served, what

    async def broken(self, session: Session, what: str, end: Callable[[], Awaitable[None]]) -> None:
        """Check a turn that is broken off while the model speaks: it counts all tokens that the model has reported, and
        no others."""
        self._rig.play([Say("A story that ", chunks=1), Stall()])
        ended: Done | None = None
        begun = asyncio.Event()

        async def break_off() -> None:
            await (begun.wait() if self._deltas else self._rig.stalled())
            await end()

        breaking = asyncio.create_task(break_off())
        async for event in session.turn("tell me", timeout=60):
            if isinstance(event, TextDelta):
                begun.set()
            elif isinstance(event, Done):
                ended = event
        await breaking
        assert ended is not None and ended.status in ("interrupted", "error"), (what, ended)
        reported, served = whole(ended.tokens), self._served()
        if "usage_of_broken_call" in self._rig.limits:  # it does not pass on the tokens of such a call
            assert reported[0] <= served[0], what
        else:
            assert reported[0] == served[0], what
        assert reported[1] <= served[1], what
        assert ended.usage != "complete", what


def whole(tokens: Tokens | None) -> tuple[int, int]:
    """All that went in, from the cache or not, and all that came out."""
    if tokens is None:
        return 0, 0
    return (tokens.input or 0) + (tokens.cache_read or 0) + (tokens.cache_write or 0), tokens.output or 0
