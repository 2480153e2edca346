"""Scheduled messages: the [[schedules]] of the configuration.

The idempotency key of a message is its due time, so that neither a restart nor another hub sends it twice.
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
"""Longest sleep before the clock is read again: it may be set, and a machine may be suspended."""
LATE_S = 300.0
"""A due time that passed while no relay was active is made up for within this time."""
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

SendMessage = Callable[..., Awaitable[Any]]
OnFailure = Callable[[str, str], None]


class Schedules:
    """Only the active relay calls `run`."""

    def __init__(
        self,
        entries: Sequence[ScheduleConfig],
        send: SendMessage,
        on_failure: OnFailure,
        now: Callable[[], float] = time.time,
    ):
        """`on_failure` gets the id of a schedule whose message was refused, and the problem."""
        self._entries = [entry for entry in entries if entry.enabled]
        self._send = send
        self._on_failure = on_failure
        self._now = now

    async def run(self) -> None:
        """Runs until cancelled."""
        if not self._entries:
            return
        looked = self._now() - LATE_S
        while True:
            now = self._now()
            for entry in self._entries:
                due = next_run(entry, looked)
                while (following := next_run(entry, due)) <= now:  # of several missed times, only the last
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
        except TielineError as error:  # a refused message must not stop the others
            self._on_failure(entry.id, error.message)


def next_run(entry: ScheduleConfig, after: float) -> float:
    """The first due time after that one. Intervals count from the Unix epoch, so that all relays agree."""
    if entry.every_s:
        return (after // entry.every_s + 1) * entry.every_s
    hour, minute = map(int, entry.at.split(":"))
    day = datetime.fromtimestamp(after).replace(hour=hour, minute=minute, second=0, microsecond=0)
    while day.timestamp() <= after or (entry.days and DAYS[day.weekday()] not in entry.days):
        day += timedelta(days=1)
    return day.timestamp()
