"""The tokens and cost of one turn of Claude Code.

A result's `usage` is the main loop alone. Its `modelUsage` is the whole tree, subagents included, and counts since the
conversation began, over every resume and fork: a turn is the difference. The total before a resumed turn is in the
transcript, where Claude Code writes it when it ends. A model call that was broken off is in no total, but its input is
known.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ...events import Tokens

USAGE_FIELDS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
}
MODEL_USAGE_FIELDS = {
    "inputTokens": "input",
    "outputTokens": "output",
    "cacheReadInputTokens": "cache_read",
    "cacheCreationInputTokens": "cache_write",
    "thinkingTokens": "reasoning",
    "costUSD": "cost_usd",
}
COST_STATE = re.compile(rb'^\{"type":"cost-state".*$', re.MULTILINE)
UsageFields = dict[str, Any]


def previous_usage(env: Mapping[str, str], native_id: str) -> Mapping[str, UsageFields]:
    """What a conversation has come to, by model, as its transcript says; nothing for a new one. Reads a whole file."""
    config = Path(env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME") or "/", ".claude"))
    with suppress(OSError, msgspec.MsgspecError):
        for path in config.glob(f"projects/*/{native_id}.jsonl") if native_id else ():
            if states := COST_STATE.findall(path.read_bytes()):
                return msgspec.convert(msgspec.json.decode(states[-1])["modelUsage"], dict[str, UsageFields])
    return {}


def _totals(by_model: Mapping[str, UsageFields]) -> dict[str, float]:
    return {field: sum(float(usage.get(field) or 0) for usage in by_model.values()) for field in MODEL_USAGE_FIELDS}


class ClaudeCodeUsageMeter:
    def __init__(self, before: Mapping[str, UsageFields] | None = None) -> None:
        """`before`: what the conversation that is resumed came to."""
        self._live: dict[str, int] = {}  # of this turn, over the main loop's model calls so far
        self._whole: dict[str, float] = {}  # of this turn, over its results
        self._before = _totals(before or {})  # modelUsage as the last result told it
        self._main: dict[str, int] = {}  # of this turn, the main loop alone, over its results

    def model_call_started(self, usage: UsageFields | None) -> None:
        """A model call began: what went in is known."""
        if usage:
            for field in USAGE_FIELDS:
                if field != "output_tokens" and usage.get(field) is not None:
                    self._live[field] = self._live.get(field, 0) + usage[field]

    def model_call_ended(self, usage: UsageFields | None) -> Tokens:
        """A model call ended; the turn's tokens so far."""
        if usage and usage.get("output_tokens") is not None:
            self._live["output_tokens"] = self._live.get("output_tokens", 0) + usage["output_tokens"]
        return self.tokens()

    def tokens(self) -> Tokens:
        return Tokens(**{ours: self._live.get(theirs) for theirs, ours in USAGE_FIELDS.items()})

    def turn_ended(self, by_model: dict[str, UsageFields] | None, main: UsageFields | None, *, broken: bool) -> Tokens:
        """A result came; the turn's tokens in all. `broken`: it was not the model that ended it."""
        for field in USAGE_FIELDS:
            self._main[field] = self._main.get(field, 0) + int((main or {}).get(field) or 0)
        if by_model:
            totals = _totals(by_model)
            if any(totals[field] < self._before[field] for field in MODEL_USAGE_FIELDS):
                self._before = _totals({})  # it did not go on from what it had written down
            for field, total in totals.items():
                self._whole[field] = self._whole.get(field, 0) + total - self._before[field]
            self._before = totals
        tokens = {
            ours: int(self._whole.get(theirs, 0)) for theirs, ours in MODEL_USAGE_FIELDS.items() if ours != "cost_usd"
        }
        if broken:  # the model was asked for it, though no total has it
            for theirs, ours in USAGE_FIELDS.items():
                tokens[ours] += max(0, self._live.get(theirs, 0) - self._main[theirs])
        return Tokens(**tokens, cost_usd=round(self._whole.get("costUSD", 0.0), 9))

    def next_turn(self) -> None:
        self._live, self._whole, self._main = {}, {}, {}
