"""Usage, counted from the `done` of every turn: a row per UTC day and session in a table of the bus.

The log is trimmed after some weeks; the rows stay. Each row says up to which record it has counted its session's turns,
so a turn counts once, however often its record is read again: after a crash, or by another hub on the same bus, which
counts the same rows. Within its day a row keeps quarters of an hour, so that days can be those of any time zone.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from datetime import time as clock_time
from typing import TypeVar
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from ...bus.base import Bus, Record, Table
from ...errors import BusUnavailable, Conflict, UsageError
from ...events import Done
from ...protocol.usage import UsageBy, UsageReport, UsageRow, UsageTotals
from ...sessions.event_log import EventAssembler, LogEvent
from ...sessions.records import SessionRecord, add
from .session_lookup import SessionLookup

TABLE = "usage"
CURSOR = "cursor"
ROWS = "*.*"
QUARTER_S = 900
"""Every time zone is a whole number of these from UTC."""
SAVE_EVERY_S = 30.0
"""How often the cursor is written down when no turn ended: the rest is read again, and counts once."""
TRIES = 10
"""Writes of a row that other hubs count at the same time."""
DONE = b'"done"'

Totals = TypeVar("Totals", bound=UsageTotals)


class StoredUsage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One session on one UTC day."""

    agent: str
    project: str = ""
    seq: int = 0  # the last `done` that was counted
    quarters: dict[int, UsageTotals] = {}  # by the quarter's number since midnight


_decode = msgspec.json.Decoder(StoredUsage).decode
_encode = msgspec.json.encode
_done = msgspec.json.Decoder(Done).decode


class UsageCounter:
    """A consumer of the event log. `load` comes first."""

    def __init__(self, bus: Bus, sessions: SessionLookup) -> None:
        self.cursor = 0
        self._table: Table = bus.table(TABLE)
        self._sessions = sessions
        self._assembler = EventAssembler(bus)
        self._saved_at = 0.0
        self.probe: Callable[[str], None] = lambda moment: None  # tests end the process here

    async def load(self) -> None:
        entry = await self._table.get(CURSOR)
        self.cursor = int(entry.value) if entry else 0

    async def take(self, records: Sequence[Record], upto: int) -> None:
        ended: dict[tuple[str, str], list[tuple[LogEvent, Done]]] = {}
        for record in records:
            event = await self._assembler.join(record)
            if event is not None and (done := _done_of(event.data)) is not None:
                day = datetime.fromtimestamp(event.at, UTC).strftime("%Y-%m-%d")
                ended.setdefault((day, event.session), []).append((event, done))
        for (day, session), turns in ended.items():
            await self._count(day, session, turns)
        self.probe("counted")
        if ended or time.monotonic() - self._saved_at >= SAVE_EVERY_S:
            await self._table.put(CURSOR, str(upto).encode())
            self._saved_at = time.monotonic()
        self.cursor = upto

    async def _count(self, day: str, session: str, turns: Sequence[tuple[LogEvent, Done]]) -> None:
        key = f"{day}.{session}"
        for _ in range(TRIES):
            entry = await self._table.get(key)
            row = _decode(entry.value) if entry else await self._new_row(session)
            news = [(event, done) for event, done in turns if event.seq > row.seq]
            if not news:
                return
            quarters = dict(row.quarters)
            for event, done in news:
                quarter = int(event.at % 86400 // QUARTER_S)
                quarters[quarter] = _with_turn(quarters.get(quarter, UsageTotals()), done)
            row = replace(row, seq=news[-1][0].seq, quarters=quarters)
            try:
                await self._table.put(key, _encode(row), expect=entry.revision if entry else 0)
            except Conflict:
                continue  # another hub counted at the same time
            self.probe("row")
            return
        raise BusUnavailable(f"concurrent changes to the usage of {key}", hint="It is counted later.")

    async def _new_row(self, session: str) -> StoredUsage:
        about = await self._sessions.about(session)
        return StoredUsage(agent=about.agent, project=about.project)

    # --- reading -------------------------------------------------------------------------------------------

    async def report(
        self,
        by: UsageBy,
        *,
        since: float = 0.0,
        until: float = 0.0,
        time_zone: str = "",
        agent: str = "",
        project: str = "",
        session: str = "",
        sessions: Mapping[str, SessionRecord],
        up_to_date: bool = True,
    ) -> UsageReport:
        """What was used between two moments. `sessions` gives titles. Raises UsageError for an unknown time zone."""
        day_of = _day_of(time_zone)
        rows: dict[str, UsageRow] = {}
        total = UsageTotals()
        first, last = since // QUARTER_S * QUARTER_S, until or float("inf")
        for entry in await self._table.entries(ROWS):
            day, _, id = entry.key.partition(".")
            midnight = datetime.combine(datetime.fromisoformat(day), clock_time(), UTC).timestamp()
            if midnight + 86400 <= first or midnight >= last or session not in ("", id):
                continue
            row = _decode(entry.value)
            if agent not in ("", row.agent) or project not in ("", row.project):
                continue
            for quarter, used in row.quarters.items():
                at = midnight + quarter * QUARTER_S
                if not first <= at < last:
                    continue
                key = {"day": day_of(at) if by == "day" else "", "agent": row.agent, "project": row.project}.get(by, id)
                there = rows.get(key)
                if there is None:
                    there = UsageRow(key=key) if by != "session" else _session_row(id, row, sessions.get(id))
                rows[key] = _plus(there, used)
                total = _plus(total, used)
        sorted_rows = (
            sorted(rows.values(), key=lambda row: row.key) if by == "day" else sorted(rows.values(), key=_largest)
        )
        return UsageReport(
            by=by,
            since=first,
            until=until,
            time_zone=time_zone,
            rows=tuple(sorted_rows),
            total=total,
            up_to_date=up_to_date,
        )


def _done_of(data: bytes) -> Done | None:
    """None for every other event, and for one that is not understood: it must not stop the rest."""
    if DONE not in data[:64]:  # the tag comes first: most events need not be decoded
        return None
    try:
        return _done(data)
    except msgspec.DecodeError:
        return None


def _with_turn(totals: UsageTotals, done: Done) -> UsageTotals:
    has_tokens = done.tokens is not None
    costs = done.tokens is not None and done.tokens.cost_usd is not None
    return replace(
        totals,
        turns=totals.turns + 1,
        partial_turns=totals.partial_turns + (has_tokens and done.usage != "complete"),
        unknown_turns=totals.unknown_turns + (not has_tokens),
        turns_with_cost=totals.turns_with_cost + costs,
        model_calls=totals.model_calls + (done.turns or 0),
        duration_s=totals.duration_s + done.duration_s,
        tokens=add(totals.tokens, done.tokens),
    )


def _plus(totals: Totals, other: UsageTotals) -> Totals:
    more = {
        name: value + getattr(totals, name) for name, value in asdict(other).items() if isinstance(value, int | float)
    }
    return replace(totals, **more, tokens=add(totals.tokens, other.tokens))


def _session_row(id: str, row: StoredUsage, record: SessionRecord | None) -> UsageRow:
    return UsageRow(key=id, agent=row.agent, project=row.project, title=record.title if record else "")


def _largest(row: UsageRow) -> tuple[float, int, str]:
    tokens = (row.tokens.input or 0) + (row.tokens.output or 0)
    return -(row.tokens.cost_usd or 0.0), -tokens, row.key


def _day_of(time_zone: str) -> Callable[[float], str]:
    """The day of a moment, in a time zone or, without one, in the hub's own."""
    zone: ZoneInfo | None = None
    if time_zone:
        try:
            zone = ZoneInfo(time_zone)
        except (KeyError, OSError, ValueError):  # not there, or not the name of one at all
            hint = "Use a name such as Europe/Berlin or UTC; without one the days are those of the hub's machine."
            raise UsageError(f"unknown time zone {time_zone!r}", field="time_zone", hint=hint) from None
    return lambda at: datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d")
