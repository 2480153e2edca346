"""Machines, and the agents on them."""

from typing import TYPE_CHECKING, Any

from litestar import Response, delete, get, post
from litestar.params import FromPath, FromQuery

from ...protocol.commands import Browse, Refresh
from ...protocol.views import AgentView, DirectoryView, NodeView
from ..problems import Refused
from ..request import Asked, answer, hub_of
from ..spec import spec
from ..telling import chosen_node, tell, told

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["nodes"]


@get("/api/v1/nodes", tags=TAGS, opt=spec(gives=list[NodeView]))
async def nodes(request: Asked) -> Response[bytes]:
    """Every machine that the hub knows, and whether it is there."""
    return answer(await hub_of(request).nodes.all())


@get("/api/v1/nodes/{id:str}", tags=TAGS, opt=spec(gives=NodeView, problems=("UnknownNode",)))
async def node(request: Asked, id: FromPath[str]) -> Response[bytes]:
    """One machine, with its agents."""
    return answer(await hub_of(request).nodes.get(id))


@delete(
    "/api/v1/nodes/{id:str}", tags=TAGS, status_code=204, opt=spec(status=204, problems=("UnknownNode", "Conflict"))
)
async def remove(request: Asked, id: FromPath[str]) -> Response[None]:
    """Forget a machine: its key is revoked, its link closed, its sessions are no longer shown."""
    hub = hub_of(request)
    await hub.nodes.get(id)
    if id == hub.switch.local:
        raise Refused("Conflict", "the hub's own node cannot be removed", field="id")
    for device in hub.devices.list():
        if device.node == id:
            await hub.devices.revoke(device.id)
    await hub.nodes.remove(id)
    return Response(None, status_code=204)


@get("/api/v1/nodes/{id:str}/browse", tags=TAGS, opt=spec(gives=DirectoryView, problems=("UnknownNode", "NodeOffline")))
async def browse(request: Asked, id: FromPath[str], path: FromQuery[str] = "") -> Response[bytes]:
    """The directories inside one, to choose where a session works. Without a path: the user's home."""
    return told(await tell(request, id, Browse(path=path)))


@post(
    "/api/v1/nodes/{id:str}/refresh",
    tags=TAGS,
    status_code=200,
    opt=spec(gives=list[AgentView], later=True, problems=("UnknownNode",)),
)
async def refresh(request: Asked, id: FromPath[str]) -> Response[bytes]:
    """Look again which agents are installed and signed in."""
    return told(await tell(request, id, Refresh()))


@get("/api/v1/agents", tags=TAGS, opt=spec(gives=list[AgentView], problems=("UnknownNode",)))
async def agents(request: Asked, node: FromQuery[str] = "") -> Response[bytes]:
    """The agents of a node; without a name, of the hub's own or the only one."""
    return answer((await chosen_node(hub_of(request), node)).agents)


def routes(hub: "Hub") -> list[Any]:
    return [nodes, node, remove, browse, refresh, agents]
