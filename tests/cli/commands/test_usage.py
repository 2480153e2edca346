"""How `tieline usage` shows what was used: a sum that is known only in part says so."""

import pytest

from tieline.cli.commands.usage import compact, duration, notes, numbers
from tieline.cli.moments import parse_moment
from tieline.errors import UsageError
from tieline.events import Tokens
from tieline.protocol.usage import UsageTotals

TOKENS = Tokens(input=1_234_567, output=890, cache_read=45_600, cost_usd=12.345)


def test_whole_sums_are_plain() -> None:
    totals = UsageTotals(turns=3, turns_with_cost=3, duration_s=3725, tokens=TOKENS)
    assert numbers(totals) == ["3", "1h 02m", "1.23M", "45.6k", "890", "$12.35"]
    assert notes(totals) == []


def test_a_sum_that_is_known_in_part_says_so() -> None:
    totals = UsageTotals(turns=4, partial_turns=1, unknown_turns=2, turns_with_cost=1, duration_s=65, tokens=TOKENS)
    assert numbers(totals) == ["4", "1m 05s", "≥ 1.23M", "≥ 45.6k", "≥ 890", "≥ $12.35"]
    assert notes(totals) == [
        "≥: at least. Of 4 turns, 1 reported only a part of what was used and 2 reported nothing.",
        "No cost is known for 3 turns: not every agent reports it.",
    ]


def test_a_cost_that_some_agents_do_not_tell_is_a_lower_bound_although_the_tokens_are_whole() -> None:
    totals = UsageTotals(turns=2, turns_with_cost=1, tokens=TOKENS)
    assert numbers(totals)[2:] == ["1.23M", "45.6k", "890", "≥ $12.35"]
    assert notes(totals) == ["No cost is known for 1 turn: not every agent reports it."]


def test_what_nobody_told_is_no_zero() -> None:
    assert numbers(UsageTotals(turns=1, unknown_turns=1))[2:] == ["-", "-", "-", "-"]
    assert numbers(UsageTotals(turns=1, turns_with_cost=1, tokens=Tokens(input=0, cost_usd=0.0)))[2:] == [
        "0", "-", "-", "$0.00",
    ]  # fmt: skip


def test_numbers_and_times_are_short() -> None:
    assert [compact(number) for number in (0, 999, 1000, 9_999_999, 2.5e9)] == ["0", "999", "1k", "10M", "2.5G"]
    assert [duration(seconds) for seconds in (0, 59.4, 60, 3600, 360_000)] == [
        "0s",
        "59s",
        "1m 00s",
        "1h 00m",
        "100h 00m",
    ]


def test_moments() -> None:
    assert parse_moment("since", "") == 0
    assert parse_moment("since", "2h", now=10_000.0) == 2_800
    assert parse_moment("since", "9999w", now=10.0) == 0, "before there was time"
    day = parse_moment("since", "2026-11-01")
    assert parse_moment("until", "2026-11-01", end_of_day=True) - day == pytest.approx(86400, abs=3600)
    assert parse_moment("until", "2026-11-01T10:00", end_of_day=True) == parse_moment("since", "2026-11-01T10:00")
    for wrong in ("then", "12x", "2026-13-01", "-1d"):
        with pytest.raises(UsageError, match="--until"):
            parse_moment("until", wrong)
