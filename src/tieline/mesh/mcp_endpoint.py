"""`/mcp` as an ASGI application: loads the MCP server at the first request, and keeps account of what was handed over.

A message that a tool's result carries is confirmed when the response was written to a connection that is still open,
or, where a bridge stands between, when the bridge has said that it wrote it to the harness. Else it is unread again.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.types import Message, Receive, Scope, Send

from ..background_tasks import cancel_and_wait, import_in_thread
from .harness_processes import HarnessProcesses
from .hook_events import NativeHooks
from .mcp_caller import McpRequest
from .mesh import Mesh
from .records import Caller
from .response_confirmations import ResponseConfirmations

if TYPE_CHECKING:
    from .mcp_server import MeshMcpServer

STOP_S = 5.0


class McpEndpoint:
    """`async with McpEndpoint(mesh, hooks) as endpoint`. `hooks` answers the tool that harnesses' hooks call."""

    def __init__(self, mesh: Mesh, hooks: NativeHooks | None = None) -> None:
        self.mesh = mesh
        self.deliveries = ResponseConfirmations(mesh)
        self.processes = HarnessProcesses()
        self._hooks = hooks
        self._server: MeshMcpServer | None = None
        self._starting: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def __aenter__(self) -> "McpEndpoint":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping.set()
        if self._starting is not None:
            await cancel_and_wait(self._starting)
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=STOP_S)
            await cancel_and_wait(self._task)

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
            id = self.deliveries.begin(caller, ids)
            if facts.closed:
                self.deliveries.failed(id)
            else:
                carried[id] = ids[0].encode()
            return id

        async def watched_send(message: Message) -> None:
            await send(message)
            for id in carried.keys() - arrived:  # clients hang up as soon as they have their answer: look right now
                if carried[id] in message.get("body", b"") and connected():
                    arrived.add(id)

        facts = request(hand_over)
        scope["state"]["mcp"] = facts
        try:
            await (server.handle_hook if facts.hook else server.handle)(scope, receive, watched_send)
        finally:
            facts.closed = True
            for id in carried:
                if id not in arrived:
                    self.deliveries.failed(id)
                elif not facts.confirms:
                    await self.deliveries.delivered(id)

    async def _loaded(self) -> "MeshMcpServer":
        while self._server is None:
            if self._starting is None or self._starting.done():
                self._starting = asyncio.create_task(self._start(), name="mcp-server-start")
            await asyncio.shield(self._starting)  # the start is everybody's: a client that is gone does not end it
        return self._server

    async def _start(self) -> None:
        module = await import_in_thread(f"{__package__}.mcp_server")
        server: MeshMcpServer = module.MeshMcpServer(self.mesh, self._hooks)
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(server, started), name="mcp-server")
        await started
        self._server = server

    async def _run(self, server: "MeshMcpServer", started: "asyncio.Future[None]") -> None:
        try:
            async with server.run():
                if not started.done():  # else the hub ends, and nobody waits for it any more
                    started.set_result(None)
                await self._stopping.wait()
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise
