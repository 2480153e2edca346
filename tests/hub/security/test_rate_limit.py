import pytest

from tieline.hub.security.rate_limit import MAX_CALLERS, RateLimiter


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_so_often_and_again_after_a_while() -> None:
    clock = Clock()
    rates = RateLimiter(tries=3, per_s=60, clock=clock)
    assert [rates.take("a") for _ in range(3)] == [0, 0, 0]
    assert 0 < rates.take("a") <= 20
    assert rates.take("b") == 0
    clock.now = 20.5
    assert rates.take("a") == 0
    assert rates.take("a") > 0


def test_given_back_it_does_not_count() -> None:
    rates = RateLimiter(tries=2, per_s=60, clock=Clock())
    for _ in range(50):
        assert rates.take("a") == 0
        rates.give_back("a")


def test_many_addresses_share_a_bucket_and_are_forgotten() -> None:
    rates = RateLimiter(tries=10, per_s=60, together=100, clock=Clock())
    taken = [rates.take(f"address {number}") == 0 for number in range(2 * MAX_CALLERS)]
    assert sum(taken) == 100
    assert len(rates._buckets) <= MAX_CALLERS  # type: ignore[reportPrivateUsage]


def test_a_flood_of_addresses_forgets_the_oldest_and_never_the_common_bucket() -> None:
    rates = RateLimiter(tries=1, per_s=60, together=MAX_CALLERS + 100, clock=Clock())
    assert not any(rates.take(f"address {number}") for number in range(MAX_CALLERS + 99))
    assert len(rates._buckets) == MAX_CALLERS  # type: ignore[reportPrivateUsage]
    assert rates.take(f"address {MAX_CALLERS + 98}") > 0
    assert rates.take("address 0") == 0, "forgotten"
    assert rates.take("another") > 0, "all together had their tries"


def test_one_that_is_given_back_is_one() -> None:
    """To the caller and to all together."""
    for tries, together in ((3, 100), (100, 3)):
        rates = RateLimiter(tries=tries, per_s=60, together=together, clock=Clock())
        assert [rates.take("a") for _ in range(2)] == [0, 0]
        rates.give_back("a")
        assert [rates.take("a") == 0 for _ in range(3)] == [True, True, False]
        for _ in range(5):
            rates.give_back("a")
        assert [rates.take("a") == 0 for _ in range(4)] == [True, True, True, False], "never more than at first"


def test_how_long_it_takes_until_the_next_try() -> None:
    clock = Clock()
    rates = RateLimiter(tries=2, per_s=60, together=4, clock=clock)
    assert rates.per_minute == 2
    assert [rates.take("a"), rates.take("a"), rates.take("a")] == [0, 0, 30]
    assert [rates.take("b"), rates.take("b"), rates.take("c")] == [0, 0, 15], "all together have more tries, and sooner"
    clock.now = 10.0
    assert (rates.take("a"), rates.take("c")) == pytest.approx((20, 5))
    clock.now = 15.0
    assert (rates.take("c"), rates.take("c")) == pytest.approx((0, 15))
    assert RateLimiter(tries=2, per_s=1)._total == 20  # type: ignore[reportPrivateUsage]
