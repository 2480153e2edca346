"""`tieline usage`: tokens, cost, time and turns by day, agent, project or session."""

from datetime import datetime, timedelta
from typing import cast, get_args

from ...client.client import Client
from ...errors import UsageError, invalid_value
from ...ids import short_id
from ...protocol.usage import UsageBy, UsageReport, UsageRow, UsageTotals
from .. import hub_connection
from ..errors import print_error
from ..moments import parse_moment
from ..terminal.formatting import print_json, print_words
from ..terminal.sanitize import one_line
from ..terminal.tables import Cell, print_rows

KINDS = get_args(UsageBy)
DEFAULT_DAYS = 30
AT_LEAST = "≥ "
"""Before a sum that is only known in part."""
NUMBERS = ("turns", "time", "input", "cached", "output", "cost")


def show(*, by: str, since: str, until: str, time_zone: str, agent: str, project: str, session: str, json: bool) -> int:
    if by not in KINDS:
        raise invalid_value("--by", by, accepted=KINDS)
    earliest = parse_moment("since", since) if since else _days_ago(DEFAULT_DAYS - 1)
    latest = parse_moment("until", until, end_of_day=True)
    if latest and latest <= earliest:
        raise UsageError("--until is before --since", field="until", hint="Give a later one, or none: until now.")

    async def work(client: Client) -> int:
        only = (await hub_connection.find_session(client, session)).id if session else ""
        report = await client.usage(
            cast("UsageBy", by),
            since=earliest,
            until=latest,
            time_zone=time_zone,
            agent=agent,
            project=project,
            session=only,
        )
        if json:
            print_json(report)
        else:
            _print(report)
        if not report.up_to_date:
            print_error("tieline: turns that ended are still being counted; ask again in a moment")
        return 0

    return hub_connection.run_with_client(work)


def _print(report: UsageReport) -> None:
    if not report.rows:
        print("No turns ended in that time.")
        return
    about = ("title", "agent", "project") if report.by == "session" else ()
    rows: list[list[Cell]] = [[*_names(row, report.by), *numbers(row)] for row in report.rows]
    rows.append([("total", "bold"), *("" for _ in about), *((cell, "bold") for cell in numbers(report.total))])
    print_rows((report.by, *about, *NUMBERS), rows)
    for note in notes(report.total):
        print_words(note)


def _names(row: UsageRow, by: UsageBy) -> list[Cell]:
    if by == "session":
        return [
            (short_id(row.key), "bold"),
            one_line(row.title, 40),
            one_line(row.agent, 30),
            one_line(row.project, 30),
        ]
    return [(one_line(row.key, 60) or "(none)", "bold")]


def numbers(totals: UsageTotals) -> list[str]:
    """The cells of NUMBERS. What nobody told is `-`, what is known in part says so."""
    tokens, bound = totals.tokens, "" if totals.complete else AT_LEAST
    return [
        f"{totals.turns:,}",
        duration(totals.duration_s),
        *(
            "-" if count is None else bound + compact(count)
            for count in (tokens.input, tokens.cache_read, tokens.output)
        ),
        "-" if tokens.cost_usd is None else f"{'' if totals.cost_complete else AT_LEAST}${tokens.cost_usd:,.2f}",
    ]


def notes(totals: UsageTotals) -> list[str]:
    """What the sums do not contain, in words."""
    sentences: list[str] = []
    if not totals.complete:
        parts = [
            f"{count} reported {what}"
            for count, what in (
                (totals.partial_turns, "only a part of what was used"),
                (totals.unknown_turns, "nothing"),
            )
            if count
        ]
        sentences.append(f"≥: at least. Of {_turns(totals.turns)}, {' and '.join(parts)}.")
    if without := totals.turns - totals.turns_with_cost:
        sentences.append(f"No cost is known for {_turns(without)}: not every agent reports it.")
    return sentences


def _turns(count: int) -> str:
    return f"{count:,} turn" + "s" * (count != 1)


def compact(number: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}" if number < 1000 * size else f"{number / size:,.0f}{unit}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    minutes = int(seconds // 60)
    if minutes >= 60:
        return f"{minutes // 60:,}h {minutes % 60:02}m"
    return f"{minutes}m {int(seconds % 60):02}s" if minutes else f"{seconds:.0f}s"


def _days_ago(days: int) -> float:
    """The midnight that began the day so many days ago."""
    today = datetime.now().replace(hour=0, minute=0, second=0, microsecond=0)
    return (today - timedelta(days=days)).timestamp()
