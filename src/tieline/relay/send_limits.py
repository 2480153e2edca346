"""Limits on sending: allow and deny rules, and a rate for each sender. No I/O."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

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
