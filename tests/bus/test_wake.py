"""Waking the loop from a thread: everything comes, in order, by either way."""

import asyncio
import os
import threading
from collections.abc import Iterator

import pytest

from tieline.bus.sqlite.loop_waker import LoopWaker

MANY = 5000


@pytest.fixture(params=["eventfd", "pipe"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "pipe":
        monkeypatch.delattr(os, "eventfd", raising=False)
    elif not hasattr(os, "eventfd"):
        pytest.skip("this system has no eventfd")
    yield


async def test_everything_comes_in_order(way: None) -> None:
    seen: list[int] = []
    complete = asyncio.Event()

    def take(item: int) -> None:
        seen.append(item)
        if len(seen) == MANY:
            complete.set()

    wake: LoopWaker[int] = LoopWaker(asyncio.get_running_loop(), take)
    thread = threading.Thread(target=lambda: [wake.put(n) for n in range(MANY)])
    thread.start()
    try:
        async with asyncio.timeout(30):
            await complete.wait()
    finally:
        thread.join()
        wake.close()
    assert seen == list(range(MANY))


async def test_one_at_a_time(way: None) -> None:
    """Each is put when the one before was taken: no wake-up may be lost."""
    turn = threading.Semaphore(0)
    ended = asyncio.Event()
    left = MANY

    def take(item: int) -> None:
        nonlocal left
        left -= 1
        turn.release()
        if left == 0:
            ended.set()

    wake: LoopWaker[int] = LoopWaker(asyncio.get_running_loop(), take)

    def put() -> None:
        for n in range(MANY):
            wake.put(n)
            assert turn.acquire(timeout=30)

    thread = threading.Thread(target=put)
    thread.start()
    try:
        async with asyncio.timeout(60):
            await ended.wait()
    finally:
        thread.join()
        wake.close()


async def test_what_is_left_is_taken_at_the_end(way: None) -> None:
    seen: list[int] = []
    wake: LoopWaker[int] = LoopWaker(asyncio.get_running_loop(), seen.append)
    for n in range(3):
        wake.put(n)
    wake.close()
    assert seen == [0, 1, 2]
