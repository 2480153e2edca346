"""Backoff: delays double up to a bound and are spread."""

from tieline.backoff import EXACT, Backoff


def test_delays_double_up_to_the_bound() -> None:
    backoff = Backoff(0.5, 3.0, EXACT)
    assert [backoff.delay(failures) for failures in (0, 1, 2, 3, 4, 10_000)] == [0.5, 0.5, 1.0, 2.0, 3.0, 3.0]


def test_delays_are_spread() -> None:
    backoff = Backoff(1.0, 8.0, (0.75, 1.25))
    delays = {backoff.delay(3) for _ in range(100)}
    assert len(delays) > 1
    assert all(3.0 <= delay <= 5.0 for delay in delays)
    assert backoff.limit(3) == 4.0
