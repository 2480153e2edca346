"""What a turn of Claude Code costs.

A result's `usage` is the main loop alone. Its `modelUsage` is the whole tree, subagents included, and counts since the
process began: a turn is the difference.
"""

from typing import Any

from ...events import Tokens

LIVE = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
}
WHOLE = {
    "inputTokens": "input",
    "outputTokens": "output",
    "cacheReadInputTokens": "cache_read",
    "cacheCreationInputTokens": "cache_write",
    "thinkingTokens": "reasoning",
    "costUSD": "cost_usd",
}
Usage = dict[str, Any]


class Meter:
    def __init__(self) -> None:
        self._live: dict[str, int] = {}  # of this turn, over the main loop's model calls so far
        self._whole: dict[str, float] = {}  # of this turn, over its results
        self._before: dict[str, float] = {}  # modelUsage as the last result told it

    def began(self, usage: Usage | None) -> None:
        """A model call began: what went in is known."""
        if usage:
            for field in LIVE:
                if field != "output_tokens" and usage.get(field) is not None:
                    self._live[field] = self._live.get(field, 0) + usage[field]

    def ended(self, usage: Usage | None) -> Tokens:
        """A model call ended; the turn's tokens so far."""
        if usage and usage.get("output_tokens") is not None:
            self._live["output_tokens"] = self._live.get("output_tokens", 0) + usage["output_tokens"]
        return Tokens(**{ours: self._live.get(theirs) for theirs, ours in LIVE.items()})

    def result(self, by_model: dict[str, Usage] | None) -> Tokens:
        """A result came; the turn's tokens in all."""
        for field in WHOLE:
            total = sum(float(usage.get(field) or 0) for usage in (by_model or {}).values())
            if by_model:
                self._whole[field] = self._whole.get(field, 0) + total - self._before.get(field, 0)
                self._before[field] = total
        tokens = {ours: int(self._whole.get(theirs, 0)) for theirs, ours in WHOLE.items() if ours != "cost_usd"}
        return Tokens(**tokens, cost_usd=round(self._whole.get("costUSD", 0.0), 9))

    def next_turn(self) -> None:
        self._live = {}
        self._whole = {}
