"""What was used: tokens, cost, time and turns, by day, agent, project or session."""

from typing import Literal

from msgspec import Struct

from ..events import Tokens

UsageBy = Literal["day", "agent", "project", "session"]


class UsageTotals(Struct, frozen=True, kw_only=True):
    """Sums over turns. Where an agent told only a part of a turn's usage, or nothing, the sums are lower bounds, and
    these counts say of how many turns that is true. A number of `tokens` that no turn told is absent."""

    turns: int = 0
    partial_turns: int = 0  # the agent told a part of their usage
    unknown_turns: int = 0  # the agent told nothing
    turns_with_cost: int = 0  # the agent told what they cost
    model_calls: int = 0  # where the agent tells
    duration_s: float = 0.0
    tokens: Tokens = Tokens()

    @property
    def complete(self) -> bool:
        """Whether the tokens are the whole truth."""
        return not self.partial_turns and not self.unknown_turns

    @property
    def cost_complete(self) -> bool:
        return self.complete and self.turns_with_cost == self.turns


class UsageRow(UsageTotals, frozen=True, kw_only=True):
    """The totals of one day (`2026-11-17`), agent, project or session, as `key` says; of a session also what it is."""

    key: str
    agent: str = ""
    project: str = ""
    title: str = ""


class UsageReport(Struct, frozen=True, kw_only=True):
    """Days come in their order; of the rest the most expensive first, then the most tokens."""

    by: UsageBy
    since: float  # the whole quarters of an hour that the rows cover; 0: from the beginning
    until: float  # 0: until now
    time_zone: str  # whose days; empty: the hub's own
    rows: tuple[UsageRow, ...]
    total: UsageTotals
    up_to_date: bool  # false: turns that ended are still being counted
