"""`/mcp` as an ASGI application: loads the MCP server at the first request, and keeps account of what was handed over.

A message that a tool's result carries is confirmed when the response was written to a connection that is still open,
or, where a bridge stands between, when the bridge has said that it wrote it to the harness. Else it is unread again.
"""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from starlette.types import Message, Receive, Scope, Send

from ..errors import TielineError
from .mailbox import LEASE_S
from .mcp_caller import McpRequest
from .mesh import Mesh
from .records import Caller

if TYPE_CHECKING:
    from .mcp_server import McpServer

STOP_S = 5.0


class McpEndpoint:
    """`async with McpEndpoint(mesh) as endpoint`."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self._server: McpServer | None = None
        self._loading = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._deliveries: dict[str, tuple[Caller, tuple[str, ...]]] = {}

    async def __aenter__(self) -> "McpEndpoint":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping.set()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=STOP_S)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def handle(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        request: Callable[[Callable[[Caller, tuple[str, ...]], str]], McpRequest],
        connected: Callable[[], bool],
    ) -> None:
        """`request` makes the McpRequest; `connected` says whether the client still is."""
        server = await self._loaded()
        carried: dict[str, bytes] = {}  # delivery → the id of its first message
        arrived: set[str] = set()

        def hand_over(caller: Caller, ids: tuple[str, ...]) -> str:
            id = secrets.token_urlsafe(16)
            if facts.closed:
                self.mesh.release(caller, ids)
                return id
            self._deliveries[id] = (caller, ids)
            carried[id] = ids[0].encode()
            asyncio.get_running_loop().call_later(LEASE_S, self._deliveries.pop, id, None)
            return id

        async def watched_send(message: Message) -> None:
            await send(message)
            for id in carried.keys() - arrived:  # clients hang up as soon as they have their answer: look right now
                if carried[id] in message.get("body", b"") and connected():
                    arrived.add(id)

        facts = request(hand_over)
        scope["state"]["mcp"] = facts
        try:
            await server.handle(scope, receive, watched_send)
        finally:
            facts.closed = True
            for id in carried:
                if id not in arrived:
                    self._release(id)
                elif not facts.confirms:
                    await self.delivered(id)

    async def delivered(self, delivery: str) -> bool:
        """The messages of that delivery arrived. Whether it is known (still)."""
        found = self._deliveries.pop(delivery, None)
        if found is None:
            return False
        await self.mesh.confirm(*found)
        return True

    def _release(self, delivery: str) -> None:
        if found := self._deliveries.pop(delivery, None):
            with suppress(TielineError):  # the relay is elsewhere now: the lease is gone with it
                self.mesh.release(*found)

    async def _loaded(self) -> "McpServer":
        if self._server is None:
            async with self._loading:
                if self._server is None:
                    module = await asyncio.to_thread(import_module, f"{__package__}.mcp_server")
                    server: McpServer = module.McpServer(self.mesh)
                    started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._task = asyncio.create_task(self._run(server, started), name="mcp-server")
                    await started
                    self._server = server
        return self._server

    async def _run(self, server: "McpServer", started: "asyncio.Future[None]") -> None:
        try:
            async with server.run():
                started.set_result(None)
                await self._stopping.wait()
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise
