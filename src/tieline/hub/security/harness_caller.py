"""Which harness session a request speaks for."""

from ...mesh.mesh import Mesh
from ...mesh.records import Caller
from ..http.problems import RequestRefused
from ..http.request_context import RequestContext
from .auth import OWNER


def harness_caller(
    context: RequestContext, mesh: Mesh, *, harness: str = "", session: str = "", cwd: str = ""
) -> Caller:
    """By the connection, then by what the bridge or hook says. A process of a driven agent is that agent's session; a
    device elsewhere only names sessions of its own machine, whose folders are not ours."""
    if context.session:
        return Caller(driven=context.session)
    if context.device is None:
        raise RequestRefused("Unauthenticated", "missing or invalid credentials")
    if context.device.id == OWNER:
        return Caller(machine=mesh.machine, harness=harness, session=session, cwd=cwd)
    return Caller(machine=f"{context.device.name}-{context.device.id[-6:]}", harness=harness, session=session)
