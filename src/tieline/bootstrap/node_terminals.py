"""Follows the terminals of a machine that has no hub of its own; its node shows them at the hub."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from .. import paths
from ..harnesses.attach_consent import CurrentConsent
from ..hub.http.server import serve_locally
from ..hub.node_socket_app import NodeSocketApp
from ..mesh.push import HarnessSession
from ..node.node_identity import identify
from ..sessions.attacher import Attacher
from ..sessions.manager import SessionManager
from .mesh import create_connectors


class NoMesh:
    """Nobody is told who is there: members register at a hub."""

    async def changed(self, session: HarnessSession) -> None:
        pass

    async def ended(self, session: HarnessSession) -> None:
        pass


@asynccontextmanager
async def open_terminals(manager: SessionManager, env: Mapping[str, str]) -> AsyncGenerator[None, None]:
    """Their hooks and plugins find the node where they would find a hub: one of both runs per state folder."""
    connectors = create_connectors(env)
    async with AsyncExitStack() as stack:
        for connector in connectors:
            connector.attacher = Attacher(manager, CurrentConsent(env))
            await stack.enter_async_context(connector.open(NoMesh()))
        app = NodeSocketApp(connectors, identify(env).name)
        await stack.enter_async_context(serve_locally(app, paths.socket_file(env)))
        yield
