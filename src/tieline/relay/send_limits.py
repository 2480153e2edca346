"""Limits on sending and delivery: allow and deny rules, rate limit, circuit breaker. No I/O."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from ..backoff import Backoff
from ..bus.subjects import check_key_pattern, matcher
from ..errors import BadSubject, UsageError

ARROW = "->"
MAX_SENDERS = 4096
"""Most senders whose rate is tracked."""


class SendRules:
    """Rules `from-pattern -> to-pattern`. Deny wins; with any allow rule, only what matches one is allowed."""

    def __init__(self, allow: Sequence[str], deny: Sequence[str]) -> None:
        self._allow = [_rule("relay.allow", text) for text in allow]
        self._deny = [_rule("relay.deny", text) for text in deny]

    def allows(self, sender: str, subject: str) -> bool:
        if any(by(sender) and to(subject) for by, to in self._deny):
            return False
        return not self._allow or any(by(sender) and to(subject) for by, to in self._allow)


def _rule(field: str, text: str) -> tuple[Callable[[str], bool], Callable[[str], bool]]:
    by, arrow, to = (part.strip() for part in text.partition(ARROW))
    if not arrow:
        raise UsageError(f"{text!r} is not a rule", field=field, hint='Write "from-pattern -> to-pattern".')
    try:
        return _pattern(by), _pattern(to)
    except BadSubject as error:
        raise UsageError(f"{text!r} is not a rule: {error.problem}", field=field) from None


def _pattern(text: str) -> Callable[[str], bool]:
    folded = text.casefold()
    if any(character in folded for character in "@+:~") or not folded.isascii():
        tokens = folded.split(".")  # characters that addresses may have and keys may not
        if "" in tokens or ">" in tokens[:-1]:
            raise BadSubject("pattern", text, "a token is empty, or > is not the last")
    else:
        check_key_pattern(folded)
    return matcher(folded)


class SendRateLimiter:
    """A token bucket per sender, with a burst of one minute's worth."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_minute / 60
        self._most = float(per_minute)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, sender: str) -> float:
        """Seconds to wait; 0: the message may be sent."""
        if self._per_s <= 0:
            return 0.0
        now = self._clock()
        left, at = self._buckets.pop(sender, (self._most, now))
        left = min(self._most, left + (now - at) * self._per_s)
        allowed = left >= 1.0
        self._buckets[sender] = (left - 1.0 if allowed else left, now)
        if len(self._buckets) > MAX_SENDERS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) / self._per_s


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
