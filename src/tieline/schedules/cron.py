"""Cron expressions: parsed, and their times in a time zone. Pure.

Five fields (minute, hour, day of the month, month, weekday) with `*`, lists, ranges, steps and names, or one of MACROS.
As in cron, a day fits when the day of the month or the weekday fits, if neither field begins with `*`; else both must.

When the clocks change, times are kept as cron keeps them. An hour that begins with `*` is an interval and follows the
clock: a skipped time is left out and a repeated one comes twice. Any other hour is a time of the day, which comes once
a day: a skipped one at the moment of the jump, a repeated one the first time only.
"""

import calendar
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from msgspec import Struct

from ..errors import UsageError

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MAX_LENGTH = 200
"""Characters of an expression."""
SEARCH_DAYS = 366 * 9
"""The 29th of February is at most eight years away."""
FURTHEST_JUMP = timedelta(hours=25)
"""No clock was ever set by more than a day."""
ONCE_FORMAT = "%Y-%m-%d %H:%M"

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_SUNDAY = 7
_PART = re.compile(r"(?:(\*)|([a-z]+|\d{1,2})(?:-([a-z]+|\d{1,2}))?)(?:/(\d{1,3}))?", re.ASCII)
_ONCE = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}", re.ASCII)


class _Field(Struct, frozen=True):
    name: str
    low: int
    high: int
    names: dict[str, int]


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of the month", 1, 31, {}),
    _Field("month", 1, 12, {name: number for number, name in enumerate(_MONTH_NAMES, 1)}),
    _Field("weekday", 0, _SUNDAY, {name: number for number, name in enumerate(_DAY_NAMES)}),
)


class Cron(Struct, frozen=True):
    """A parsed expression. Weekdays count from Sunday, 0."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool  # one of the two day fields begins with `*`, so both must fit
    interval: bool  # the hour begins with `*`

    def fits(self, day: date) -> bool:
        of_month, of_week = day.day in self.days, (day.weekday() + 1) % 7 in self.weekdays
        return day.month in self.months and ((of_month and of_week) if self.any_day else (of_month or of_week))

    def after(self, moment: float, zone: tzinfo) -> float:
        """The first time after that moment, in seconds since the epoch."""
        start = datetime.fromtimestamp(moment, zone).replace(tzinfo=None)
        if _clock_changes_near(start, zone):
            start -= FURTHEST_JUMP  # a repeated time may read earlier on the clock than the moment
        best: float | None = None
        until = datetime.max
        for clock in self._clock_times(start):
            if clock > until:
                break
            for candidate in self._moments(clock, zone):
                if candidate > moment and (best is None or candidate < best):
                    best = candidate
                    # Near a clock change, the time that reads later on the clock may come first.
                    until = min(until, clock + FURTHEST_JUMP if _clock_changes_near(clock, zone) else clock)
        assert best is not None, "every expression that is parsed has a time"
        return best

    def _clock_times(self, start: datetime) -> Iterator[datetime]:
        """What a clock shows at its times, from the start's minute on, in the order of the clock."""
        first = start.date()
        for number in range(SEARCH_DAYS):
            day = first + timedelta(days=number)
            if not self.fits(day):
                continue
            for hour in self.hours:
                if number == 0 and hour < start.hour:
                    continue
                for minute in self.minutes:
                    if number or (hour, minute) >= (start.hour, start.minute):
                        yield datetime(day.year, day.month, day.day, hour, minute)

    def _moments(self, clock: datetime, zone: tzinfo) -> Sequence[float]:
        """When a clock shows this: once, twice, or never, and then what counts instead."""
        moments = clock_moments(clock, zone)
        if self.interval:
            return moments
        return moments[:1] or (jump_over(clock, zone),)


@lru_cache(maxsize=1024)
def parse(expression: str) -> Cron:
    """Raises UsageError, which says what is wrong with which field."""
    text = expression.strip().lower()
    if len(text) > MAX_LENGTH:
        raise _error(expression[:40] + "…", f"an expression has at most {MAX_LENGTH} characters")
    if text.startswith("@"):
        if text not in MACROS:
            raise _error(expression, f"there is no {text}", f"Known: {', '.join(MACROS)}.")
        text = MACROS[text]
    words = text.split()
    if len(words) != len(_FIELDS):
        hint = 'minute, hour, day of the month, month, weekday; for instance "0 9 * * 1-5", or @daily.'
        raise _error(expression, f"it has {len(words)} fields instead of five", hint)
    minutes, hours, days, months, weekdays = (
        _values(expression, field, word) for field, word in zip(_FIELDS, words, strict=True)
    )
    either = not words[2].startswith("*") and not words[4].startswith("*")
    lengths = {month: 29 if month == 2 else calendar.monthrange(2001, month)[1] for month in months}
    if not either and not any(day <= length for day in days for length in lengths.values()):
        raise _error(expression, "there is no such day in these months")
    return Cron(
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        frozenset(days),
        frozenset(months),
        frozenset(day % _SUNDAY for day in weekdays),
        any_day=not either,
        interval=words[1].startswith("*"),
    )


def parse_once(text: str, zone: tzinfo) -> float:
    """The moment of a clock's time, such as `2026-12-01 09:00`. Raises UsageError."""
    try:
        if not _ONCE.fullmatch(text.strip()):
            raise ValueError(text)
        clock = datetime.strptime(text.strip().replace("T", " "), ONCE_FORMAT)
        moments = clock_moments(clock, zone)
        return moments[0] if moments else jump_over(clock, zone)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text[:40]!r} is not a time", field="once", hint="For instance 2026-12-01 09:00, by the 24-hour clock."
        ) from None


def clock_moments(clock: datetime, zone: tzinfo) -> tuple[float, ...]:
    """The moments at which a clock of this zone shows a time, in order: one; two when it is set back over it; none when
    it is set forward over it."""
    first, second = (clock.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    before, after = first.utcoffset(), second.utcoffset()
    assert before is not None and after is not None
    if before == after:
        return (first.timestamp(),)
    return (first.timestamp(), second.timestamp()) if before > after else ()


def jump_over(clock: datetime, zone: tzinfo) -> float:
    """The moment at which a clock is set forward over a time that it never shows."""
    # By the offset from before the jump the time would be after it, and the other way round.
    low, high = (int(clock.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (1, 0))
    before = datetime.fromtimestamp(low, zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return float(high)


def _clock_changes_near(clock: datetime, zone: tzinfo) -> bool:
    if isinstance(zone, timezone):
        return False
    days = (clock + timedelta(days=number) for number in (-2, -1, 0, 1, 2))
    offsets = [day.replace(tzinfo=zone).utcoffset() for day in days]
    return any(offset != following for offset, following in pairwise(offsets))


def _values(expression: str, field: _Field, word: str) -> set[int]:
    values: set[int] = set()
    for part in word.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise _error(expression, f"{part!r} is not a valid {field.name}", _hint(field))
        star, first, last, step = match.groups()
        low = field.low if star else _number(expression, field, first)
        high = _highest(field) if star else _number(expression, field, last) if last else low
        if last and high == 0 and field.high == _SUNDAY:
            high = _SUNDAY  # fri-sun
        if step and not star and not last:
            hint = f"Say up to where: {part.replace('/', f'-{_highest(field)}/')}."
            raise _error(expression, f"{part!r} is a step without a range", hint)
        if low > high:
            raise _error(expression, f"the range {part!r} of the {field.name} goes backwards", "Make two of it.")
        if step and not int(step):
            raise _error(expression, f"the step of {part!r} is 0")
        values.update(range(low, high + 1, int(step or 1)))
    return values


def _highest(field: _Field) -> int:
    return field.high - 1 if field.high == _SUNDAY else field.high


def _number(expression: str, field: _Field, word: str) -> int:
    number = field.names.get(word, -1) if word.isalpha() else int(word)
    if not field.low <= number <= field.high:
        raise _error(expression, f"{word!r} is not a valid {field.name}", _hint(field))
    return number


def _hint(field: _Field) -> str:
    names = f", or {', '.join(field.names)}" if field.names else ""
    return f"It has {field.low} to {field.high}{names}; *, lists (1,5), ranges (1-5) and steps (*/5)."


def _error(expression: str, problem: str, hint: str = "") -> UsageError:
    return UsageError(f"the cron expression {expression!r} is wrong: {problem}", field="cron", hint=hint)


# --- time zones -------------------------------------------------------------------------------------------------


def time_zone(name: str) -> tzinfo:
    """Raises UsageError."""
    if name in ("UTC", "Etc/UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # not found; a directory; not a name
        hint = "For instance Europe/Berlin, America/New_York or UTC. They come with your system's package tzdata."
        raise UsageError(f"there is no time zone {name[:60]!r}", field="zone", hint=hint) from None
