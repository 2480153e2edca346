"""The terminals of a machine that has no hub of its own: they are read along, and its node shows them at the hub."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from ..harnesses.attach_consent import CurrentConsent
from ..mesh.push import HarnessSession
from ..sessions.attacher import Attacher
from ..sessions.manager import SessionManager
from .mesh import reaches


class NoMesh:
    """Nobody is told who is there: members register at a hub."""

    async def changed(self, session: HarnessSession) -> None:
        pass

    async def ended(self, session: HarnessSession) -> None:
        pass


@asynccontextmanager
async def open_terminals(manager: SessionManager, env: Mapping[str, str]) -> AsyncGenerator[None, None]:
    async with AsyncExitStack() as stack:
        for way in reaches(env):
            way.attacher = Attacher(manager, CurrentConsent(env))
            await stack.enter_async_context(way.open(NoMesh()))
        yield
