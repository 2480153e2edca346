"""Members of the mesh, the messages that the owner exchanged with one, and what the members of a project share."""

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta
from starlette.responses import Response

from ...mesh.directory import Filters
from ...mesh.mesh import MAX_HISTORY, Mesh
from ...mesh.project import project_name
from ...mesh.records import MEMBER_PREFIX, OWNER_NAME, Caller
from ...protocol.mesh import MAX_MEMBERS, Activity, MemberKind, MemberView, Notes, PathLease, PeerMessage
from ..http.problems import RequestRefused
from ..http.request import Request, json_response
from ..http.route_spec import RouteSpec
from ..http.routing import get

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["mesh"]
OWNER = Caller(person=OWNER_NAME)
UNKNOWN = ("UnknownMember",)
NO_MESH = "the mesh is not running on this hub"


def mesh_of(request: Request) -> Mesh:
    mesh = request.hub.mesh
    if mesh is None:
        raise RequestRefused("BusError", NO_MESH)
    return mesh


def address_of(request: Request, to: str) -> str:
    """The address of a member by `@name`, name or id; another whole address stays as it is. Raises UnknownMember, also
    for an address of a member that there is not: nobody would ever read what is sent there."""
    whole = to.strip().casefold()
    if request.hub.mesh is None or not whole:
        return to
    if whole.startswith("relay.") and not whole.startswith(f"{MEMBER_PREFIX}."):
        return to
    return request.hub.mesh.directory.resolve(to).address


@get("/api/v1/members", tags=TAGS, spec=RouteSpec(response=list[MemberView]))
async def members(
    request: Request,
    q: str = "",
    project: str = "",
    role: str = "",
    specialisation: str = "",
    harness: str = "",
    machine: str = "",
    activity: Activity | None = None,
    kind: MemberKind | None = None,
    ended: bool = False,
    limit: Annotated[int, Meta(ge=1, le=MAX_MEMBERS)] = MAX_MEMBERS,
) -> Response:
    """Everyone with an inbox: people first, then the last seen. With `q`, those that fit it, the best match first; with
    `ended`, also members whose session is over."""
    mesh = mesh_of(request)
    filters = Filters(
        project=project,
        role=role,
        specialisation=specialisation,
        harness=harness,
        machine=machine,
        activity=activity or "",
        kind=kind or "",
    )
    if q.strip():
        return json_response([match.member for match in await mesh.find_agents(OWNER, q, filters, limit)])
    return json_response(await mesh.list_agents(OWNER, filters, limit, ended))


@get("/api/v1/members/{id}", tags=TAGS, spec=RouteSpec(response=MemberView, problems=UNKNOWN))
async def member(request: Request, id: str) -> Response:
    """One member, by its id, name or address."""
    return json_response(mesh_of(request).directory.resolve(id))


@get("/api/v1/members/{id}/messages", tags=TAGS, spec=RouteSpec(response=list[PeerMessage], problems=UNKNOWN))
async def conversation(
    request: Request, id: str, limit: Annotated[int, Meta(ge=1, le=MAX_HISTORY)] = 50, before: str = ""
) -> Response:
    """What the owner and that member wrote to each other, the newest first. `before`: the id to go on from."""
    return json_response(await mesh_of(request).fetch_message_history(OWNER, id, limit, before))


@get("/api/v1/projects/{project}/notes", tags=TAGS, spec=RouteSpec(response=Notes))
async def notes(request: Request, project: str) -> Response:
    """The notes that the members of a project share, the last changed first."""
    name = project_name(project)
    return json_response(Notes(project=name, notes=tuple(await mesh_of(request).notes.list(name))))


@get("/api/v1/projects/{project}/path-leases", tags=TAGS, spec=RouteSpec(response=list[PathLease]))
async def path_leases(request: Request, project: str) -> Response:
    """Which files the members of a project have reserved."""
    return json_response(await mesh_of(request).path_leases.list(project_name(project)))


def routes(hub: "Hub") -> list[Any]:
    return [members, member, conversation, notes, path_leases]
