"""Puts together the mesh of a hub: its members are harness sessions that register, the hub's sessions and people."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ..hub.hub import Hub
from ..mesh.mesh import Mesh
from ..node.node_identity import identify
from ..protocol.stream_frames import AnyHubFrame, GoneFrame, SessionFrame
from ..relay import Relay


@asynccontextmanager
async def open_mesh(hub: Hub, relay: Relay) -> AsyncGenerator[Mesh, None]:
    """The hub's mesh, inside the block."""

    def on_refused(who: str, why: str) -> None:
        hub.audit.record("refusal", who, "mesh", why=why)

    def on_frame(frame: AnyHubFrame) -> None:
        if isinstance(frame, SessionFrame):
            mesh.directory.put_session(frame.session)
        elif isinstance(frame, GoneFrame) and frame.kind == "session":
            mesh.directory.remove_session(frame.id)

    async with Mesh(hub.bus, relay, machine=identify(hub.env).name, on_refused=on_refused) as mesh:
        unsubscribe = hub.state.subscribe(on_frame)
        for record in hub.state.sessions.values():
            mesh.directory.put_session(record)
        hub.mesh = mesh
        try:
            yield mesh
        finally:
            hub.mesh = None
            unsubscribe()
