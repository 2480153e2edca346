"""Stops deliveries to a channel that keeps failing, and tries it again later."""

import time
from collections.abc import Callable

from ...backoff import Backoff


class CircuitBreaker:
    """Opens after consecutive failures; later lets one trial delivery through."""

    def __init__(
        self, failures: int, open_s: float, longest_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = failures
        self._backoff = Backoff(open_s, longest_s)
        self._clock = clock
        self._failures = 0
        self._opened = 0  # times in a row
        self._until = 0.0
        self._trying = False

    @property
    def open(self) -> bool:
        return self._until > 0.0

    def wait_s(self) -> float | None:
        """Seconds until the next delivery may start; 0: now. None: a trial is running."""
        if not self.open:
            return 0.0
        if self._trying:
            return None
        return max(0.0, self._until - self._clock())

    def begin(self) -> bool:
        """A delivery starts. Whether it is the trial: the others wait until `trial_ended`."""
        self._trying = self.open
        return self._trying

    def succeeded(self) -> None:
        self._failures = self._opened = 0
        self._until = 0.0
        self._trying = False

    def failed(self) -> None:
        self._failures += 1
        if self._trying or self._failures >= self._limit:
            self._opened += 1
            self._until = self._clock() + self._backoff.limit(self._opened)
            self._trying = False

    def trial_ended(self) -> None:
        """The trial ended, with whatever result; without one, the next delivery is the trial."""
        self._trying = False
