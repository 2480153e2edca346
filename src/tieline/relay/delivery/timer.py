"""One timer for many deadlines."""

import asyncio
import heapq
import time
from collections.abc import Callable

LONGEST_SLEEP = 3600.0
"""Longest sleep, because the clock may be set."""
SLACK = 1000


class Timer:
    def __init__(self, due: Callable[[str], None], known: Callable[[str], bool]) -> None:
        self._on_due = due
        self._is_open = known
        self._heap: list[tuple[float, str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._next = 0.0
        self._compact_at = SLACK

    def add(self, at: float, id: str) -> None:
        heapq.heappush(self._heap, (at, id))
        if len(self._heap) > self._compact_at:  # most are of closed messages
            self._heap = [entry for entry in self._heap if self._is_open(entry[1])]
            heapq.heapify(self._heap)
            self._compact_at = 2 * len(self._heap) + SLACK
        if self._timer is None or at < self._next:
            self._set()

    def clear(self) -> None:
        self._heap.clear()
        self._set()

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            self._next = self._heap[0][0]
            wait = min(max(0.0, self._next - time.time()), LONGEST_SLEEP)
            self._timer = asyncio.get_running_loop().call_later(wait, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = time.time()
        while self._heap and self._heap[0][0] <= now:
            self._on_due(heapq.heappop(self._heap)[1])
        self._set()
