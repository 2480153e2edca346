"""Rate limits: a token bucket per caller, and one for all callers together."""

import time
from collections import OrderedDict
from collections.abc import Callable

MAX_CALLERS = 4096
"""Callers with a bucket of their own; a flood of addresses meets the common bucket."""


class RateLimiter:
    def __init__(
        self, *, tries: int, per_s: float, together: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tries = tries
        self._refill = tries / per_s  # tries a second
        self._total = together or tries * 10
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # left, when

    @property
    def per_minute(self) -> float:
        return self._refill * 60

    def take(self, who: str) -> float:
        """Takes a try. Returns 0, or the seconds until one is available."""
        wait = max(self._seconds_until(who, self._tries), self._seconds_until("", self._total))
        if wait <= 0:
            self._add(who, -1.0, self._tries)
            self._add("", -1.0, self._total)
        return wait

    def give_back(self, who: str) -> None:
        """A successful try does not count."""
        self._add(who, 1.0, self._tries)
        self._add("", 1.0, self._total)

    def _left(self, who: str, most: int) -> float:
        now = self._clock()
        left, at = self._buckets.get(who, (float(most), now))
        return min(float(most), left + (now - at) * self._refill * most / self._tries)

    def _seconds_until(self, who: str, most: int) -> float:
        left = self._left(who, most)
        return 0.0 if left >= 1 else (1 - left) / (self._refill * most / self._tries)

    def _add(self, who: str, number: float, most: int) -> None:
        left = min(float(most), self._left(who, most) + number)
        self._buckets[who] = (left, self._clock())
        self._buckets.move_to_end(who)
        if len(self._buckets) > MAX_CALLERS:
            self._buckets.popitem(last=False)  # never the common one: every call has just used it
