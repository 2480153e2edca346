"""Account of responses that carry messages: confirmed when the response arrived, else unread again."""

import asyncio
import secrets
from contextlib import suppress

from ..errors import TielineError
from .mailbox import LEASE_S
from .mesh import Mesh
from .records import Caller


class ResponseConfirmations:
    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._open: dict[str, tuple[Caller, tuple[str, ...]]] = {}

    def begin(self, caller: Caller, ids: tuple[str, ...]) -> str:
        """These messages are on their way; the id of that. It is forgotten when their lease ends."""
        id = secrets.token_urlsafe(16)
        self._open[id] = (caller, ids)
        asyncio.get_running_loop().call_later(LEASE_S, self._open.pop, id, None)
        return id

    async def delivered(self, id: str) -> bool:
        """Confirm the messages of a delivery. Gives whether the delivery is still known."""
        delivery = self._open.pop(id, None)
        if delivery is None:
            return False
        await self._mesh.confirm(*delivery)
        return True

    def failed(self, id: str) -> None:
        if delivery := self._open.pop(id, None):
            with suppress(TielineError):  # the relay runs elsewhere now, so the lease is gone
                self._mesh.release(*delivery)
