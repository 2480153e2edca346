"""Messages that the relay sends by itself at their times: the [[schedules]] of the configuration.

A time has one message: its idempotency key is that time, so that neither a restart nor another hub sends it twice.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from ..config import ScheduleConfig
from ..errors import TielineError

SENDER = "relay.system.schedule"
LONGEST_WAIT_S = 60.0
"""The clock may be set, and a machine may sleep: it is looked at again after so long."""
LATE_S = 300.0
"""A time that passed while no relay was running is made up for if it is not longer ago."""
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

Send = Callable[..., Awaitable[Any]]
OnFailure = Callable[[str, str], None]


class Schedules:
    """`run` is for the one relay that is active."""

    def __init__(
        self, entries: Sequence[ScheduleConfig], send: Send, told: OnFailure, now: Callable[[], float] = time.time
    ):
        """`told` hears the id of a schedule whose message was not taken, and why."""
        self._entries = [entry for entry in entries if entry.enabled]
        self._send = send
        self._on_failure = told
        self._now = now

    async def run(self) -> None:
        """For ever."""
        if not self._entries:
            return
        looked = self._now() - LATE_S
        while True:
            now = self._now()
            for entry in self._entries:
                due = next_run(entry, looked)
                while (following := next_run(entry, due)) <= now:  # of those that were missed the last one counts
                    due = following
                if due <= now:
                    await self._run_entry(entry, due)
            looked = now
            wait = min(next_run(entry, now) for entry in self._entries) - self._now()
            await asyncio.sleep(max(0.0, min(wait, LONGEST_WAIT_S)))

    async def _run_entry(self, entry: ScheduleConfig, due: float) -> None:
        try:
            await self._send(
                entry.to, entry.text, sender=f"{SENDER}.{entry.id}", reply_to=entry.answer_to, key=f"at {due:.0f}"
            )
        except TielineError as error:  # a message that is not taken must not stop the others
            self._on_failure(entry.id, error.message)


def next_run(entry: ScheduleConfig, after: float) -> float:
    """The first of its times after that one. Every so often counts from the epoch, the same for every relay."""
    if entry.every_s:
        return (after // entry.every_s + 1) * entry.every_s
    hour, minute = map(int, entry.at.split(":"))
    day = datetime.fromtimestamp(after).replace(hour=hour, minute=minute, second=0, microsecond=0)
    while day.timestamp() <= after or (entry.days and DAYS[day.weekday()] not in entry.days):
        day += timedelta(days=1)
    return day.timestamp()
