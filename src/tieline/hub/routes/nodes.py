"""Nodes, and the agents on them."""

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from ...protocol.commands import Browse, ListModels, Refresh
from ...protocol.views import AgentView, DirectoryView, NodeView
from ..http.problems import RequestRefused
from ..http.request import NO_CONTENT, Request, json_response
from ..http.route_spec import RouteSpec
from ..http.routing import delete, get, post
from ..nodes.command_helpers import choose_node, command_response, send_command
from .access import revoke_device

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["nodes"]


@get("/api/v1/nodes", tags=TAGS, spec=RouteSpec(response=list[NodeView]))
async def nodes(request: Request) -> Response:
    """All nodes that the hub knows, and whether they are online."""
    return json_response(await request.hub.nodes.all())


@get("/api/v1/nodes/{id}", tags=TAGS, spec=RouteSpec(response=NodeView, problems=("UnknownNode",)))
async def node(request: Request, id: str) -> Response:
    """One node, with its agents."""
    return json_response(await request.hub.nodes.get(id))


@delete("/api/v1/nodes/{id}", tags=TAGS, spec=RouteSpec(status=204, problems=("UnknownNode", "Conflict")))
async def remove(request: Request, id: str) -> Response:
    """Remove a node: its key is revoked, its link closed, its sessions are no longer listed."""
    hub = request.hub
    await hub.nodes.get(id)
    if id == hub.dispatcher.local:
        hint = "`tieline down` ends the hub, and its node with it."
        raise RequestRefused("Conflict", "the hub's own node cannot be removed", field="id", hint=hint)
    for device in hub.devices.list():
        if device.node == id:
            await revoke_device(request, device.id)
    await hub.nodes.remove(id)
    return NO_CONTENT


@get(
    "/api/v1/nodes/{id}/browse",
    tags=TAGS,
    spec=RouteSpec(response=DirectoryView, problems=("UnknownNode", "NodeOffline")),
)
async def browse(request: Request, id: str, path: str = "") -> Response:
    """The subdirectories of a path, to choose where a session works. Default: the user's home."""
    return command_response(await send_command(request, id, Browse(path=path)))


@post(
    "/api/v1/nodes/{id}/refresh",
    tags=TAGS,
    spec=RouteSpec(response=list[AgentView], may_be_pending=True, problems=("UnknownNode",)),
)
async def refresh(request: Request, id: str) -> Response:
    """Detect again which agents are installed and signed in."""
    return command_response(await send_command(request, id, Refresh()))


@post(
    "/api/v1/nodes/{id}/agents/{name}/models",
    tags=TAGS,
    spec=RouteSpec(response=AgentView, problems=("UnknownNode", "NodeOffline", "Unsupported")),
)
async def list_models(request: Request, id: str, name: str) -> Response:
    """The agent with the models that it offers on this node. It is started and asked, unless it told not long ago."""
    return command_response(await send_command(request, id, ListModels(agent=name)))


@get("/api/v1/agents", tags=TAGS, spec=RouteSpec(response=list[AgentView], problems=("UnknownNode",)))
async def agents(request: Request, node: str = "") -> Response:
    """The agents of a node; by default of the hub's own, or of the only one."""
    return json_response((await choose_node(request.hub, node)).agents)


def routes(hub: "Hub") -> list[Any]:
    return [nodes, node, remove, browse, refresh, list_models, agents]
