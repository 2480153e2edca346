"""Parses moments as people type them: so long ago (`7d`), or a date."""

import re
import time
from datetime import datetime, timedelta

from ..errors import invalid_value

_AGO = re.compile(r"(\d{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DAY = re.compile(r"\d{4}-?\d\d-?\d\d")
EXAMPLES = "30m, 12h, 7d, or a date such as 2026-11-01"


def parse_moment(option: str, text: str, *, now: float | None = None, end_of_day: bool = False) -> float:
    """`30m` ago, or a date, as seconds since the epoch; 0 for nothing. `end_of_day`: a date without a time is its
    end. Raises UsageError."""
    if not text:
        return 0.0
    if match := _AGO.fullmatch(text):
        return max(0.0, (time.time() if now is None else now) - int(match[1]) * _SECONDS[match[2]])
    try:
        moment = datetime.fromisoformat(text)
        if end_of_day and _DAY.fullmatch(text):
            moment += timedelta(days=1)
        return max(0.0, moment.timestamp())
    except (ValueError, OverflowError, OSError):
        raise invalid_value(f"--{option}", text, hint=f"Such as {EXAMPLES}.") from None
