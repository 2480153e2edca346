"""Which harness session a request speaks for."""

from ...mesh.harness_processes import starter_of
from ...mesh.mesh import Mesh
from ...mesh.records import Caller
from ...processes.process_table import process_key
from ..http.problems import RequestRefused
from ..http.request_context import RequestContext
from .auth import OWNER
from .local_peer import LocalPeer


def harness_caller(
    context: RequestContext, mesh: Mesh, *, harness: str = "", session: str = "", cwd: str = "", direct: bool = False
) -> Caller:
    """By the connection, then by what the bridge or hook says. A process of a driven agent is that agent's session; a
    device elsewhere only names sessions of its own machine, whose folders are not ours. `direct`: the harness itself
    calls, and not what it has started."""
    if context.session:
        return Caller(driven=context.session)
    if context.device is None:
        raise RequestRefused("Unauthenticated", "missing or invalid credentials")
    if context.device.id == OWNER:
        peer = context.peer or LocalPeer()
        return Caller(
            machine=mesh.machine,
            harness=harness,
            session=session,
            cwd=cwd,
            process=process_key(peer.pid if direct else starter_of(peer.pid)),
            lineage=peer.lineage or None,
        )
    return Caller(machine=f"{context.device.name}-{context.device.id[-6:]}", harness=harness, session=session)
