"""`tieline members`: who is in the mesh, as a table or JSON."""

from collections.abc import Sequence
from typing import cast, get_args

from ...client.client import Client
from ...errors import UsageError
from ...ids import short_id
from ...protocol.mesh import Activity, MemberView
from .. import hub_connection
from ..terminal.formatting import print_json, time_ago
from ..terminal.tables import Cell, print_rows

TITLES = ("name", "project", "harness", "machine", "presence", "unread", "seen", "does")
STYLES = {"working": "green", "stale": "yellow"}


def members(
    query: str,
    *,
    project: str,
    role: str,
    harness: str,
    machine: str,
    activity: str,
    ended: bool,
    limit: int,
    json: bool,
) -> int:
    if activity and activity not in get_args(Activity):
        raise UsageError(f"{activity!r} is not an activity", field="activity", hint="Use working, idle or unknown.")

    async def work(client: Client) -> int:
        matching = await client.members(
            query,
            project=project,
            role=role,
            harness=harness,
            machine=machine,
            activity=cast("Activity", activity) or None,
            ended=ended,
            limit=limit,
        )
        if json:
            print_json(matching)
        else:
            none = "No member matches." if query else "Nobody is here yet."
            print_rows(TITLES, [_row(member) for member in matching], none, optional=("machine", "seen", "project"))
        return 0

    return hub_connection.run_with_client(work)


def _row(member: MemberView) -> Sequence[Cell]:
    presence = presence_of(member)
    return (
        short_id(member.id) if member.name == member.id else member.name,
        member.project,
        member.harness or member.kind,
        member.machine,
        (presence, STYLES.get(presence, "")),
        str(member.unread or ""),
        time_ago(member.seen_at) if member.seen_at else "",
        " · ".join(part for part in (member.role, member.specialisation, member.description) if part),
    )


def presence_of(member: MemberView) -> str:
    if member.ended:
        return "ended"
    if member.stale:
        return "stale"
    return "" if member.activity == "unknown" else member.activity
