"""Cron expressions: what they mean, what is wrong with them, and their times when the clocks change."""

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tieline.errors import UsageError
from tieline.schedules.cron import Cron, clock_moments, jump_over, parse, parse_once, time_zone

BERLIN = ZoneInfo("Europe/Berlin")  # 2026: forward on March 29th at 02:00, back on October 25th at 03:00


def at(text: str, zone: ZoneInfo = BERLIN, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).timestamp()


def times(expression: str, after: str, count: int, zone: ZoneInfo = BERLIN) -> list[str]:
    moment, clock_times = at(after, zone), list[str]()
    for _ in range(count):
        moment = parse(expression).after(moment, zone)
        clock_times.append(datetime.fromtimestamp(moment, zone).strftime("%Y-%m-%d %H:%M %z"))
    return clock_times


@pytest.mark.parametrize(
    ("expression", "after", "following"),
    [
        ("0 9 * * 1-5", "2026-11-13 09:00", "2026-11-16 09:00"),  # Friday, then Monday
        ("0 9 * * 1-5", "2026-11-13 08:59:59", "2026-11-13 09:00"),
        ("*/15 * * * *", "2026-11-13 09:01", "2026-11-13 09:15"),
        ("10-40/15 * * * *", "2026-11-13 09:26", "2026-11-13 09:40"),
        ("5,35 8-9 * * *", "2026-11-13 08:05", "2026-11-13 08:35"),
        ("0 0 * * sun", "2026-11-13 00:00", "2026-11-15 00:00"),
        ("0 0 * * 7", "2026-11-13 00:00", "2026-11-15 00:00"),
        ("0 0 * * fri-sun", "2026-11-14 00:00", "2026-11-15 00:00"),
        ("0 0 * JAN,jul Mon", "2026-11-13 00:00", "2027-01-04 00:00"),
        ("0 0 13 * fri", "2026-11-13 00:00", "2026-11-20 00:00"),  # the 13th, or a Friday
        ("0 0 */2 * fri", "2026-11-13 00:00", "2026-11-27 00:00"),  # an odd day that is a Friday: as in cron
        ("0 0 29 2 *", "2026-11-13 00:00", "2028-02-29 00:00"),
        ("0 0 29 2 *", "2096-02-29 00:00", "2104-02-29 00:00"),  # 2100 has none
        ("0 0 31 * *", "2026-11-13 00:00", "2026-12-31 00:00"),
        ("59 23 31 12 *", "2026-12-31 23:59", "2027-12-31 23:59"),
        ("@hourly", "2026-11-13 09:00", "2026-11-13 10:00"),
        ("@DAILY", "2026-11-13 09:00", "2026-11-14 00:00"),
        ("@weekly", "2026-11-13 09:00", "2026-11-15 00:00"),
        ("@monthly", "2026-11-13 09:00", "2026-12-01 00:00"),
        ("@yearly", "2026-11-13 09:00", "2027-01-01 00:00"),
    ],
)
def test_times(expression: str, after: str, following: str) -> None:
    assert parse(expression).after(at(after), BERLIN) == at(following)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("", "0 fields instead of five"),
        ("0 9 * *", "4 fields"),
        ("0 0 9 * * *", "6 fields"),
        ("60 * * * *", "'60' is not a valid minute"),
        ("* 24 * * *", "'24' is not a valid hour"),
        ("* * 0 * *", "'0' is not a valid day of the month"),
        ("* * * 13 *", "'13' is not a valid month"),
        ("* * * * 8", "'8' is not a valid weekday"),
        ("* * * foo *", "'foo' is not a valid month"),
        ("* * L * *", "'l' is not a valid day of the month"),
        ("* * * * 5#2", "is not a valid weekday"),
        ("5-1 * * * *", "goes backwards"),
        ("* * * * fri-mon", "goes backwards"),
        ("*/0 * * * *", "is 0"),
        ("5/15 * * * *", "a step without a range"),
        ("1,,2 * * * *", "'' is not a valid minute"),
        ("-1 * * * *", "is not a valid minute"),
        ("0 0 30 2 *", "no such day"),
        ("0 0 31 4,6,9,11 *", "no such day"),
        ("@reboot", "there is no @reboot"),
        ("* " * 300, "at most 200"),
        ("٣ * * * *", "is not a valid minute"),
    ],
)
def test_what_is_wrong_is_said(expression: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as error:
        parse(expression)
    assert error.value.field == "cron"


def test_an_impossible_day_of_the_month_is_fine_beside_a_weekday() -> None:
    assert parse("0 0 30 2 mon").after(at("2026-02-01"), BERLIN) == at("2026-02-02")


# --- when the clocks change ---


def test_a_time_of_the_day_that_is_skipped_comes_when_the_clock_jumps() -> None:
    days = times("30 2 * * *", "2026-03-28 00:00", 3)
    assert days == ["2026-03-28 02:30 +0100", "2026-03-29 03:00 +0200", "2026-03-30 02:30 +0200"]
    both = times("0,30 2,3 29 * *", "2026-03-29 00:00", 2)
    assert both == ["2026-03-29 03:00 +0200", "2026-03-29 03:30 +0200"], "once, though three fall on that moment"


def test_a_time_of_the_day_that_is_repeated_comes_once() -> None:
    days = times("30 2 * * *", "2026-10-24 12:00", 2)
    assert days == ["2026-10-25 02:30 +0200", "2026-10-26 02:30 +0100"]


def test_an_interval_follows_the_clock() -> None:
    forward = times("*/30 * * * *", "2026-03-29 01:00", 3)
    assert forward == ["2026-03-29 01:30 +0100", "2026-03-29 03:00 +0200", "2026-03-29 03:30 +0200"]
    back = times("*/30 * * * *", "2026-10-25 02:00", 5)
    assert [time[11:] for time in back] == ["02:30 +0200", "02:00 +0100", "02:30 +0100", "03:00 +0100", "03:30 +0100"]


def test_strange_zones() -> None:
    apia = ZoneInfo("Pacific/Apia")  # there was no December 30th in 2011
    assert times("0 12 30 * *", "2011-12-29 13:00", 2, apia) == ["2011-12-31 00:00 +1400", "2012-01-30 12:00 +1400"]
    howe = ZoneInfo("Australia/Lord_Howe")  # half an hour: at 02:00, back to 01:30
    assert [time[11:] for time in times("45 * * * *", "2026-04-05 01:00", 2, howe)] == ["01:45 +1100", "01:45 +1030"]
    johns = ZoneInfo("America/St_Johns")  # in 2010 at 00:01, back to 23:01 of the day before
    repeated = times("0,30 * * * *", "2010-11-06 23:30", 3, johns)
    assert [time[8:16] for time in repeated] == ["07 00:00", "06 23:30", "07 00:00"]


def test_once() -> None:
    assert parse_once("2026-12-01 09:00", BERLIN) == parse_once(" 2026-12-01T09:00", BERLIN) == at("2026-12-01 09:00")
    assert parse_once("2026-03-29 02:30", BERLIN) == at("2026-03-29 03:00"), "skipped: when the clock jumps"
    assert parse_once("2026-10-25 02:30", BERLIN) == at("2026-10-25 02:30", fold=0), "repeated: the first one"
    for wrong in (
        "tomorrow",
        "2026-13-01 09:00",
        "2026-02-30 09:00",
        "9:00",
        "2026-12-01 09:00:00",
        "",
        "0000-01-01 00:00",
    ):
        with pytest.raises(UsageError, match="is not a time"):
            parse_once(wrong, BERLIN)


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../../etc/passwd", "/etc/localtime", "Europe", "a\0b"])
def test_a_zone_that_is_none(name: str) -> None:
    with pytest.raises(UsageError, match="there is no time zone") as error:
        time_zone(name)
    assert error.value.field == "zone"


def test_utc_needs_no_data() -> None:
    assert time_zone("UTC") is UTC


# --- against the slow and simple way: minute by minute ---


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high)
    ranges = st.tuples(numbers, numbers).map(lambda pair: f"{min(pair)}-{max(pair)}")
    steps = st.tuples(st.one_of(st.just("*"), ranges), st.integers(1, high)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    parts = st.one_of(numbers.map(str), ranges, steps)
    return st.one_of(st.just("*"), st.lists(parts, min_size=1, max_size=3).map(",".join))


EXPRESSIONS = st.tuples(
    fields(0, 59), fields(0, 23), st.one_of(st.just("*"), fields(1, 28)), st.just("*"), fields(0, 7)
).map(" ".join)
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "Antarctica/Troll",
         "Asia/Kathmandu", "Pacific/Apia", "Africa/Cairo", "America/Havana"]  # fmt: skip


@cache  # not at import: every worker imports this, and one needs it
def transitions(name: str) -> list[float]:
    """Around which it is interesting: when a zone's clocks are changed, to the hour."""
    zone, start = ZoneInfo(name), datetime(2010, 1, 1, tzinfo=UTC)

    def offset(hour: int) -> timedelta | None:
        return (start + timedelta(hours=hour)).astimezone(zone).utcoffset()

    days = [24 * number for number in range(730) if offset(24 * number) != offset(24 * number + 24)]
    hours = [hour + 1 for day in days for hour in range(day, day + 24) if offset(hour) != offset(hour + 1)]
    return [(start + timedelta(hours=hour)).timestamp() for hour in hours] or [0.0]


MINUTES = 3 * 24 * 60


def by_the_minute(cron: Cron, moment: float, zone: ZoneInfo) -> float | None:
    """Looks at the clock every minute, and at what it skipped."""

    def shown(clock: datetime) -> bool:
        return clock.hour in cron.hours and clock.minute in cron.minutes and cron.fits(clock.date())

    start = int(moment) // 60 * 60
    before = datetime.fromtimestamp(start, zone).replace(tzinfo=None)
    for number in range(1, MINUTES):
        aware = datetime.fromtimestamp(start + 60 * number, zone)
        clock = aware.replace(tzinfo=None, fold=0)
        if shown(clock) and (cron.interval or aware.fold == 0):
            return aware.timestamp()
        skipped = (before + timedelta(minutes=more) for more in range(1, (clock - before) // timedelta(minutes=1)))
        if not cron.interval and any(map(shown, skipped)):
            return aware.timestamp()
        before = clock
    return None


@settings(deadline=None, max_examples=60)
@given(EXPRESSIONS, st.sampled_from(ZONES), st.integers(0, 10), st.integers(-36 * 60, 36 * 60), st.integers(0, 59))
@example("* * * * *", "UTC", 0, -1, 0)  # the epoch itself
@example("0 0 * * *", "America/Havana", 0, -30, 0)
@example("30 23 * * *", "America/St_Johns", 1, -90, 0)
def test_as_looking_at_the_clock(expression: str, name: str, index: int, minutes: int, seconds: int) -> None:
    zone, changes = ZoneInfo(name), transitions(name)
    moment = changes[index % len(changes)] + 60 * minutes + seconds
    cron = parse(expression)
    expected = by_the_minute(cron, moment, zone)
    next_time = cron.after(moment, zone)
    assert next_time > moment
    assert next_time == expected if expected is not None else next_time >= moment + 60 * (MINUTES - 2)


@given(st.sampled_from(ZONES), st.integers(0, 10), st.integers(-30 * 60, 30 * 60))
def test_what_a_clock_shows(name: str, index: int, minutes: int) -> None:
    zone, changes = ZoneInfo(name), transitions(name)
    clock = datetime.fromtimestamp(changes[index % len(changes)] + 60 * minutes, zone).replace(tzinfo=None)
    moments = clock_moments(clock, zone)
    assert list(moments) == sorted(set(moments))
    for moment in moments:
        assert datetime.fromtimestamp(moment, zone).replace(tzinfo=None, fold=0) == clock.replace(fold=0)
    if not moments:
        jump = jump_over(clock, zone)
        before, after = (datetime.fromtimestamp(jump - less, zone).utcoffset() for less in (1, 0))
        assert before != after
