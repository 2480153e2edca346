"""`tieline audit`: who came in, who decided what, what was refused."""

from datetime import datetime
from typing import cast, get_args

from ...client.client import Client
from ...errors import invalid_value
from ...protocol.audit import AuditKind, AuditLine
from .. import hub_connection
from ..moments import parse_moment
from ..terminal.formatting import print_json
from ..terminal.sanitize import one_line
from ..terminal.tables import print_rows

KINDS = get_args(AuditKind)
TITLES = ("when", "what", "who", "from", "details")
PAGE = 1000


def show(*, kind: str, since: str, limit: int, json: bool) -> int:
    if kind and kind not in KINDS:
        raise invalid_value("--kind", kind, accepted=KINDS)
    wanted, earliest = cast("AuditKind | None", kind or None), parse_moment("since", since)

    async def work(client: Client) -> int:
        lines: list[AuditLine] = []
        while len(lines) < limit:
            before = lines[-1].seq if lines else 0
            page = await client.audit(before=before, since=earliest, kind=wanted, limit=min(PAGE, limit - len(lines)))
            if not page:
                break
            lines += page
        if json:
            print_json(lines)
        elif not lines:
            print("Nothing is in the audit log.")
        else:
            print_rows(TITLES, [_row(line) for line in lines])
        return 0

    return hub_connection.run_with_client(work)


def _row(line: AuditLine) -> tuple[str, ...]:
    at = datetime.fromtimestamp(line.at).strftime("%Y-%m-%d %H:%M:%S")
    times = f"{line.count} times " if line.count > 1 else ""
    details = times + " ".join(f"{name}={value}" for name, value in line.details.items())
    who = line.who or "a stranger"
    return at, line.what, one_line(who, 40), one_line(line.via, 40), one_line(details, 120)
