"""One timer for many deadlines: what is due, in what order, and what is forgotten."""

import asyncio
import time

import pytest

from tieline.relay.delivery import timer as timer_module
from tieline.relay.delivery.timer import SLACK, Timer


class Due:
    """A timer, and what was due by now."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.ids: list[str] = []
        self._came = asyncio.Event()
        self.timer = Timer(self._due, self._is_open)

    def _is_open(self, id: str) -> bool:
        return id in self.open

    def _due(self, id: str) -> None:
        self.ids.append(id)
        self._came.set()

    def add(self, in_s: float, id: str) -> None:
        self.open.add(id)
        self.timer.add(time.time() + in_s, id)

    async def next(self, number: int) -> list[str]:
        """All, as soon as there are so many."""
        async with asyncio.timeout(30):
            while len(self.ids) < number:
                self._came.clear()
                await self._came.wait()
        return self.ids


async def test_deadlines_come_in_their_order() -> None:
    due = Due()
    due.add(3600.0, "much later")
    for in_s, id in ((0.02, "second"), (0.01, "first"), (-5.0, "past"), (0.03, "third")):
        due.add(in_s, id)
    assert due.ids == [], "not in the call that adds it"
    assert await due.next(4) == ["past", "first", "second", "third"]
    due.timer.clear()


async def test_none_comes_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the clock was set back while it slept, or it slept as long as it may."""
    now = time.time()
    for longest in (timer_module.LONGEST_SLEEP, 0.0):
        monkeypatch.setattr(timer_module, "LONGEST_SLEEP", longest)
        due = Due()
        due.add(0.0, "due")
        due.add(60.0, "later")
        monkeypatch.setattr(timer_module.time, "time", lambda: now - 60)
        for _ in range(5):
            await asyncio.sleep(0)
        assert due.ids == []
        monkeypatch.undo()
        due.timer.add(time.time() - 1, "now")
        assert set(await due.next(2)) == {"due", "now"}
        due.timer.clear()


async def test_what_is_cleared_never_comes() -> None:
    due = Due()
    due.add(-1.0, "cleared")
    due.add(60.0, "cleared too")
    due.timer.clear()
    for _ in range(5):
        await asyncio.sleep(0)
    due.add(0.0, "new")
    assert await due.next(1) == ["new"]
    due.timer.clear()


async def test_deadlines_of_what_is_over_are_forgotten_when_they_are_many() -> None:
    due = Due()
    for n in range(SLACK):
        due.add(-1.0, f"{n}")
    due.open = {"0", "7"}
    due.add(-2.0, "last")
    assert await due.next(3) == ["last", "0", "7"]
    due.ids.clear()
    for n in range(SLACK + 2 * 3):  # twice as many as were left then may be over, and some more
        due.timer.add(time.time() - 1, f"over {n}")
    due.add(-1.0, "open")
    await due.next(1)
    assert due.ids == ["open"], "the rest is forgotten again"
