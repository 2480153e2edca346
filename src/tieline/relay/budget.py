"""Budgets: how many hops, how much time and how many calls a message may use. Pure functions.

A message without a cause starts with the budget of the configuration; any other inherits what is left of the message
that caused it. A sender may ask for less, never for more. Checked in this order: hops, cycle, time, calls.
"""

from ..config import RelayConfig
from ..envelopes import Budget, Limits


def root(config: RelayConfig, sender: str, limits: Limits | None, now: float) -> Budget:
    return _shrunk(
        Budget(
            hops=1,
            max_hops=config.max_hops,
            ancestors=(sender,),
            expires_at=now + config.ttl_s,
            calls_left=config.calls,
        ),
        limits,
        now,
    )


def inherited(
    parent: Budget, *, calls_left: int, via: tuple[str, ...], sender: str, limits: Limits | None, now: float
) -> Budget:
    """Budget of a message that another one caused. `via`: the addresses at which that one was received."""
    return _shrunk(
        Budget(
            hops=parent.hops + 1,
            max_hops=parent.max_hops,
            ancestors=tuple(dict.fromkeys((*parent.ancestors, *via, sender))),
            expires_at=parent.expires_at,
            calls_left=calls_left - 1,
        ),
        limits,
        now,
    )


def returned(parent: Budget, to: str) -> Budget:
    """Budget of an answer: one hop more, but no call, with the ancestors of its receiver. A conversation of two is no
    cycle; its hops end it."""
    known = parent.ancestors
    return Budget(
        hops=parent.hops + 1,
        max_hops=parent.max_hops,
        ancestors=known[: known.index(to)] if to in known else known,
        expires_at=parent.expires_at,
        calls_left=parent.calls_left,
    )


def violation(
    budget: Budget, subject: str, now: float, *, back: bool = False, person: bool = False
) -> tuple[str, str] | None:
    """Why a message with this budget must not go to an address: a reason code and a text. `back`: an answer, which
    may use one hop more. `person`: the address is an inbox, through which no loop can run."""
    if budget.hops > budget.max_hops + back:
        return "hops_exceeded", f"it was passed on {budget.hops - 1} times, the maximum is {budget.max_hops}"
    if not back and not person and subject in budget.ancestors:
        return "cycle", f"it already passed through {subject}: {' → '.join((*budget.ancestors, subject))}"
    if budget.expires_at <= now:
        return "ttl_expired", "it has expired"
    if budget.calls_left < 1:
        return "calls_exceeded", "no calls are left"
    return None


def _shrunk(budget: Budget, limits: Limits | None, now: float) -> Budget:
    if limits is None:
        return budget
    hops, ttl_s, calls = limits.max_hops, limits.ttl_s, limits.calls
    return Budget(
        hops=budget.hops,
        max_hops=budget.max_hops if hops is None else min(budget.max_hops, max(0, hops)),
        ancestors=budget.ancestors,
        expires_at=budget.expires_at if ttl_s is None else min(budget.expires_at, now + max(0.0, ttl_s)),
        calls_left=budget.calls_left if calls is None else min(budget.calls_left, max(0, calls)),
    )
