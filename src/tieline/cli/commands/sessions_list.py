"""`tieline sessions`: the sessions at the hub, as a table, as lines, as JSON."""

from ...client.client import Client
from ...errors import UsageError
from ...protocol.views import NodeView
from ...sessions.records import SessionRecord
from .. import hub_connection
from ..terminal.sanitize import one_line

STATUSES = ("idle", "working", "waiting", "stuck", "failed", "closed")
STYLES = {"working": "green", "waiting": "bold yellow", "stuck": "red", "failed": "red", "closed": "dim"}
TITLES = ("id", "agent", "status", "machine", "active", "where", "what")


def show(*, every: bool, agent: str, node: str, status: str, query: str, limit: int | None, json: bool) -> int:
    if status and status not in STATUSES:
        raise UsageError(f"--status is {status!r}", field="status", hint=f"It must be one of {', '.join(STATUSES)}.")

    async def work(client: Client) -> int:
        machine = (await hub_connection.node(client, node)).id if node else ""
        found = await client.sessions(archived=every, agent=agent, node=machine, status=status, q=query, limit=limit)
        if json:
            hub_connection.as_json(found)
            return 0
        nodes = {one.id: one for one in await client.nodes()}
        rows = [_row(one, nodes) for one in found]
        if hub_connection.on_terminal():
            if rows:
                hub_connection.table(TITLES, [_styled(row) for row in rows])
            else:
                print('No sessions. Start one: tieline send --new codex "your task"')
        elif rows:
            print(hub_connection.columns(TITLES, rows))
        return 0

    return hub_connection.call(work)


def _row(record: SessionRecord, nodes: dict[str, NodeView]) -> tuple[str, ...]:
    machine = nodes.get(record.node)
    name = machine.name or machine.id if machine else record.node
    said = record.problem if record.status == "failed" else record.last_line
    what = " · ".join(part for part in (one_line(record.title, 60), one_line(said, 60)) if part)
    return (
        hub_connection.short(record.id),
        one_line(record.agent, 20),
        record.status if machine is None or machine.online else f"{record.status} (offline)",
        one_line(name, 20),
        hub_connection.ago(record.active_at),
        one_line(hub_connection.place(record.cwd), 40),
        what,
    )


def _styled(row: tuple[str, ...]) -> list[hub_connection.Cell]:
    id, agent, status, *rest = row
    beside = [(cell, "dim") for cell in rest[:-1]]
    return [(id, "bold"), agent, (status, STYLES.get(status.split()[0], "")), *beside, rest[-1]]
