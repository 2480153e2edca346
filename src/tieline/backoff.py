"""Backoff: how long to wait before something that failed is tried again."""

import random

from msgspec import Struct


class Backoff(Struct, frozen=True):
    """Delays that double with each failure in a row, up to a bound."""

    first_s: float
    longest_s: float
    jitter: tuple[float, float] = (0.5, 1.0)  # each delay is drawn between these shares of it

    def limit(self, failures: int) -> float:
        """The delay after so many failures (1: the first), before jitter."""
        return min(self.first_s * 2.0 ** min(max(failures - 1, 0), 64), self.longest_s)

    def delay(self, failures: int) -> float:
        """With jitter, so that what failed together does not come back together."""
        return self.limit(failures) * random.uniform(*self.jitter)


EXACT = (1.0, 1.0)
"""For `jitter`: one caller alone, which spreads nothing."""
