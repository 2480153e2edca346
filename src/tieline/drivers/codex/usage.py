"""The tokens of one turn of Codex."""

from ...events import Tokens
from ...wire.json_object import JsonObject


class CodexUsageMeter:
    """Tokens of one turn, over the thread and its subagents. Codex tells totals per thread, which only ever grow."""

    def __init__(self) -> None:
        self._totals: dict[str, JsonObject] = {}
        self._spent = dict.fromkeys(("inputTokens", "cachedInputTokens", "outputTokens", "reasoningOutputTokens"), 0)
        self.calls = 0

    def start_turn(self) -> None:
        self._spent = dict.fromkeys(self._spent, 0)
        self.calls = 0

    def update(self, thread: str, usage: JsonObject, *, counts: bool) -> None:
        """A resumed thread first tells what its last turn came to: that is where to count from, and does not count."""
        total, before = usage["total"], self._totals.get(thread)
        self._totals[thread] = total
        if not counts or (before is not None and total["totalTokens"] == before["totalTokens"]):
            return
        self.calls += 1
        for name in self._spent:
            # Without an earlier total, the last call is all that this turn has spent so far.
            self._spent[name] += usage["last"][name] if before is None else total[name] - before[name]

    @property
    def tokens(self) -> Tokens | None:
        """`input` is what was not read from the cache: with `cache_read` it makes the whole."""
        if not self.calls:
            return None
        spent = self._spent
        return Tokens(
            input=spent["inputTokens"] - spent["cachedInputTokens"],
            output=spent["outputTokens"],
            cache_read=spent["cachedInputTokens"],
            reasoning=spent["reasoningOutputTokens"],
        )
