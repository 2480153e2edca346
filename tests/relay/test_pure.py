"""The parts without a bus: matching, budgets, rules, rates, the breaker, deadlines."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tieline.bus.subjects import matches
from tieline.config import RelayConfig
from tieline.envelopes import Budget, Limits
from tieline.errors import UsageError
from tieline.relay import budget as budgets
from tieline.relay.delivery.circuit_breaker import CircuitBreaker
from tieline.relay.longest_prefix_trie import LongestPrefixTrie
from tieline.relay.send_limits import SendRateLimiter, SendRules

TOKENS = st.lists(st.sampled_from(["a", "b", "ab", "c"]), min_size=1, max_size=5).map(lambda t: "relay." + ".".join(t))


def test_a_prefix_is_matched_token_by_token() -> None:
    endpoints: LongestPrefixTrie[str] = LongestPrefixTrie()
    assert endpoints.add("relay.agent", "agents", prefix=True)
    assert endpoints.match("relay.agent") == "agents"
    assert endpoints.match("relay.agent.shop.bob") == "agents"
    assert endpoints.match("relay.agentless.bob") is None
    assert endpoints.match("relay") is None


def test_the_longest_wins_and_the_exact_one_before_it() -> None:
    endpoints: LongestPrefixTrie[str] = LongestPrefixTrie()
    endpoints.add("relay.a", "wide", prefix=True)
    endpoints.add("relay.a.b", "narrow", prefix=True)
    endpoints.add("relay.a.b", "exact", prefix=False)
    assert [endpoints.match(s) for s in ("relay.a.x", "relay.a.b", "relay.a.b.c")] == ["wide", "exact", "narrow"]
    assert not endpoints.add("relay.a", "other", prefix=True), "taken"
    endpoints.remove("relay.a.b", prefix=True)
    assert endpoints.match("relay.a.b.c") == "wide"


@given(st.dictionaries(st.tuples(TOKENS, st.booleans()), st.integers(min_value=1), max_size=12), TOKENS)
def test_matching_is_what_the_patterns_say(entries: dict[tuple[str, bool], int], subject: str) -> None:
    endpoints: LongestPrefixTrie[int] = LongestPrefixTrie()
    for (name, prefix), value in entries.items():
        endpoints.add(name, value, prefix=prefix)
    expected = entries.get((subject, False))
    if expected is None:
        over = [n for n, p in entries if p and (subject == n or matches(f"{n}.>", subject))]
        expected = entries[(max(over, key=len), True)] if over else None
    assert endpoints.match(subject) == expected
    assert len(endpoints) == len(entries)
    assert {(name, prefix): value for name, prefix, value in endpoints.all()} == entries
    for name, prefix in entries:
        endpoints.remove(name, prefix=prefix)
    assert len(endpoints) == 0
    assert endpoints.match(subject) is None


def budget(**changes: Any) -> Budget:
    usual = Budget(hops=1, max_hops=3, ancestors=("relay.a",), expires_at=100.0, calls_left=2)
    return replace(usual, **changes)


def test_budgets_are_checked_in_order() -> None:
    everything = budget(hops=4, ancestors=("relay.b",), expires_at=1.0, calls_left=0)
    reasons: list[str] = []
    changes: list[dict[str, Any]] = [{"hops": 1}, {"ancestors": ()}, {"expires_at": 100.0}, {"calls_left": 1}]
    for change in changes:
        problem = budgets.violation(everything, "relay.b", 50.0)
        assert problem is not None
        reasons.append(problem[0])
        everything = replace(everything, **change)
    assert reasons == ["hops_exceeded", "cycle", "ttl_expired", "calls_exceeded"]
    assert budgets.violation(everything, "relay.b", 50.0) is None


LIMITS = st.builds(
    Limits,
    max_hops=st.none() | st.integers(-5, 100),
    ttl_s=st.none() | st.floats(-10, 10**6),
    calls=st.none() | st.integers(-5, 1000),
)


@given(LIMITS, LIMITS, st.integers(1, 40))
def test_who_sends_can_only_shrink(first: Limits, second: Limits, calls: int) -> None:
    config = RelayConfig(max_hops=8, ttl_s=60.0, calls=32)
    root = budgets.root(config, "relay.a", first, 1000.0)
    assert root.max_hops <= 8
    assert root.calls_left <= 32
    assert root.expires_at <= 1060.0
    child = budgets.inherited(
        root, calls_left=min(calls, root.calls_left), via=("relay.b",), sender="relay.c", limits=second, now=1000.0
    )
    assert child.hops == root.hops + 1
    assert child.max_hops <= root.max_hops
    assert child.expires_at <= root.expires_at
    assert child.calls_left < max(root.calls_left, 1)
    assert child.ancestors == ("relay.a", "relay.b", "relay.c")


def test_whatever_was_sent_can_be_answered_and_then_it_ends() -> None:
    last = budget(hops=3, ancestors=("relay.a", "relay.b"))
    answer = budgets.returned(last, "relay.b")
    assert answer.ancestors == ("relay.a",), "a conversation of two is no cycle"
    assert budgets.violation(answer, "relay.b", 0.0, back=True) is None
    more = budgets.inherited(answer, calls_left=2, via=("relay.b",), sender="relay.b", limits=None, now=0.0)
    assert budgets.violation(more, "relay.c", 0.0) == ("hops_exceeded", "it was passed on 4 times, the maximum is 3")


def test_rules() -> None:
    rules = SendRules(["relay.user.> -> relay.agent.>", "relay.agent.> -> relay.user.*"], ["> -> relay.agent.secret.>"])
    assert rules.allows("relay.user.me", "relay.agent.shop.bob")
    assert rules.allows("relay.agent.shop.bob", "relay.user.me")
    assert not rules.allows("relay.webhook.x", "relay.agent.shop.bob"), "not allowed by name"
    assert not rules.allows("relay.user.me", "relay.agent.secret.one"), "what is denied is denied"
    for name in ("ada@example.com", "zoë"):
        only = SendRules([f"relay.user.{name} -> relay.agent.>"], [])
        assert only.allows(f"relay.user.{name}", "relay.agent.shop.bob"), "whatever an address may have, a rule may"
        assert not only.allows("relay.user.me", "relay.agent.shop.bob")
        with pytest.raises(UsageError, match="is not a rule"):
            SendRules([f"relay..{name} -> relay.agent.>"], [])
    with pytest.raises(UsageError, match="is not a rule"):
        SendRules(["relay.us er -> relay.agent.>"], [])
    assert SendRules([], []).allows("relay.a.b", "relay.c.d")
    for bad in ("relay.a", "relay..a -> relay.b", "relay.> -> a.>.b"):
        with pytest.raises(UsageError, match="rule"):
            SendRules([bad], [])


def test_rates() -> None:
    now = 0.0
    rates = SendRateLimiter(60, clock=lambda: now)
    assert [rates.take("a") for _ in range(60)] == [0.0] * 60
    assert rates.take("a") == pytest.approx(1.0)
    assert rates.take("b") == 0.0, "each sender has its own"
    now = 1.5
    assert rates.take("a") == 0.0
    assert rates.take("a") == pytest.approx(0.5)


def test_the_breaker() -> None:
    now = 10.0
    breaker = CircuitBreaker(3, 2.0, 5.0, clock=lambda: now)
    for _ in range(2):
        breaker.failed()
    assert breaker.wait_s() == 0.0
    breaker.failed()
    assert (breaker.open, breaker.wait_s()) == (True, 2.0)
    now = 12.0
    assert breaker.wait_s() == 0.0, "one may try"
    breaker.begin()
    assert breaker.wait_s() is None, "the others wait for it"
    breaker.failed()
    assert breaker.wait_s() == 4.0, "longer each time"
    now = 16.0
    breaker.begin()
    breaker.failed()
    assert breaker.wait_s() == 5.0, "up to a bound"
    now = 21.0
    breaker.begin()
    breaker.succeeded()
    assert (breaker.open, breaker.wait_s()) == (False, 0.0)


def test_time_is_only_looked_at_through_the_clock() -> None:
    assert SendRateLimiter(0).take("a") == 0.0, "0 is no limit"
    assert CircuitBreaker(1, 1.0, 1.0).wait_s() == 0.0
    assert budget(expires_at=time.time() + 5).ttl_left() > 0
