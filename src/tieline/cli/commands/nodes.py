"""`tieline nodes`: the machines of the hub, their agents; and forgetting one."""

from ...client.client import Client
from ...ids import short_id
from ...protocol.views import NodeView
from .. import hub_connection
from ..terminal.formatting import print_json, time_ago
from ..terminal.sanitize import one_line
from ..terminal.tables import Cell, print_rows

TITLES = ("id", "name", "online", "version", "platform", "agents")


def show(*, json: bool) -> int:
    async def work(client: Client) -> int:
        nodes = await client.nodes()
        if json:
            print_json(nodes)
            return 0
        none = "No machines. Join one: tieline pair --node"
        print_rows(TITLES, [_row(node) for node in nodes], none, optional=("platform", "version"))
        return 0

    return hub_connection.run_with_client(work)


def remove(given: str, *, json: bool) -> int:
    async def work(client: Client) -> int:
        node = await hub_connection.find_node(client, given)
        await client.remove_node(node.id)
        if json:
            print_json({"removed": node.id})
        else:
            print(f"Removed {one_line(node.name, 40)} ({short_id(node.id)}): its key is no longer valid.")
        return 0

    return hub_connection.run_with_client(work)


def _row(node: NodeView) -> list[Cell]:
    ready = [agent.name for agent in node.agents if agent.ready]
    away = f"no, seen {time_ago(node.seen_at)} ago" if node.seen_at else "no"
    others = [f"{agent.name} (not ready)" for agent in node.agents if agent.found and not agent.ready]
    return [
        (short_id(node.id), "bold"),
        one_line(node.name, 40) + (" (hub)" if node.local else ""),
        ("yes", "green") if node.online else (away, "red"),
        one_line(node.version, 20),
        one_line(node.platform, 30),
        one_line(", ".join([*ready, *others]), 200) or "none",
    ]
