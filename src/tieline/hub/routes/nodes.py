"""Machines, and the agents on them."""

from typing import TYPE_CHECKING, Any

from ...protocol.commands import Browse, Refresh
from ...protocol.views import AgentView, DirectoryView, NodeView
from ..http.problems import Refused
from ..http.request import DONE, Asked, Reply, answer
from ..http.route_spec import Spec
from ..http.routing import delete, get, post
from ..nodes.command_helpers import chosen_node, tell, told

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["nodes"]


@get("/api/v1/nodes", tags=TAGS, spec=Spec(gives=list[NodeView]))
async def nodes(request: Asked) -> Reply:
    """Every machine that the hub knows, and whether it is there."""
    return answer(await request.hub.nodes.all())


@get("/api/v1/nodes/{id}", tags=TAGS, spec=Spec(gives=NodeView, problems=("UnknownNode",)))
async def node(request: Asked, id: str) -> Reply:
    """One machine, with its agents."""
    return answer(await request.hub.nodes.get(id))


@delete("/api/v1/nodes/{id}", tags=TAGS, spec=Spec(status=204, problems=("UnknownNode", "Conflict")))
async def remove(request: Asked, id: str) -> Reply:
    """Forget a machine: its key is revoked, its link closed, its sessions are no longer shown."""
    hub = request.hub
    await hub.nodes.get(id)
    if id == hub.switch.local:
        raise Refused("Conflict", "the hub's own node cannot be removed", field="id")
    for device in hub.devices.list():
        if device.node == id:
            await hub.devices.revoke(device.id)
    await hub.nodes.remove(id)
    return DONE


@get("/api/v1/nodes/{id}/browse", tags=TAGS, spec=Spec(gives=DirectoryView, problems=("UnknownNode", "NodeOffline")))
async def browse(request: Asked, id: str, path: str = "") -> Reply:
    """The directories inside one, to choose where a session works. Without a path: the user's home."""
    return told(await tell(request, id, Browse(path=path)))


@post(
    "/api/v1/nodes/{id}/refresh",
    tags=TAGS,
    spec=Spec(gives=list[AgentView], later=True, problems=("UnknownNode",)),
)
async def refresh(request: Asked, id: str) -> Reply:
    """Look again which agents are installed and signed in."""
    return told(await tell(request, id, Refresh()))


@get("/api/v1/agents", tags=TAGS, spec=Spec(gives=list[AgentView], problems=("UnknownNode",)))
async def agents(request: Asked, node: str = "") -> Reply:
    """The agents of a node; without a name, of the hub's own or the only one."""
    return answer((await chosen_node(request.hub, node)).agents)


def routes(hub: "Hub") -> list[Any]:
    return [nodes, node, remove, browse, refresh, agents]
