"""The MCP server: the official SDK around the mesh's tools. Imported at the first request: the SDK takes a second.

Streamable HTTP in both revisions that clients speak: with `initialize` and sessions, and sessionless. Who calls never
depends on the MCP session. The caller's inbox is a resource (`tieline://inbox`); clients that subscribe to it are told
when a message arrives.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from typing import Any, cast

import mcp_types as types
import msgspec
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated, ServerEvent
from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..errors import TielineError
from ..ids import new_id
from ..protocol.mesh import HOOK_TOOL
from ..version import __version__
from ..wire.json_lines import decode_line
from .hook_events import NativeHooks
from .mailbox import size_of
from .mcp_caller import Callers, McpRequest
from .mcp_tools import INSTRUCTIONS, TEAM_TOOLS, TOOLS, McpToolResult, Tool, ToolCall
from .mesh import Mesh
from .records import Caller

INBOX = "tieline://inbox"
MAX_SESSIONS = 2000
IDLE_S = 3600.0
"""A session without a request for so long is over; the client opens another one."""
MAX_BODY = 8 * 1024 * 1024
MAX_RESULT = 960 * 1024
"""Bytes of a result as JSON: the SDK's client takes events of 1 MiB."""
PROGRESS_S = 5.0
"""How often a call that waits says so: harnesses give up on a call that says nothing."""
MAX_SUBSCRIPTIONS = 2000

DELIVERY_META = "tieline/delivery"

Context = ServerRequestContext[Any, Any]

for _noisy in ("mcp", "sse_starlette"):
    logging.getLogger(_noisy).setLevel(logging.WARNING)  # a line for each request and session otherwise


class MeshMcpServer:
    """`async with MeshMcpServer(mesh, hooks).run()`; then `handle` is an ASGI application."""

    def __init__(self, mesh: Mesh, hooks: NativeHooks | None = None) -> None:
        self._mesh = mesh
        self._hooks = hooks
        every = {**TOOLS, **TEAM_TOOLS}
        self._schemas = {tool.name: tool.schema() for tool in every.values()}
        self._tools = types.ListToolsResult(tools=[self._describe(tool) for tool in TOOLS.values()])
        self._tools_in_team = types.ListToolsResult(tools=[self._describe(tool) for tool in every.values()])
        self._callers = Callers()
        self._subscriptions: dict[str, _Subscription] = {}  # by MCP session
        server: Server[Any] = Server(
            "tieline",
            version=__version__,
            title="Tieline",
            instructions=INSTRUCTIONS,
            get_tool_input_schema=self._schemas.get,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
        )
        self._manager = StreamableHTTPSessionManager(
            server, session_idle_timeout=IDLE_S, max_sessions=MAX_SESSIONS, max_request_body_size=MAX_BODY
        )

    def run(self) -> AbstractAsyncContextManager[None]:
        return self._manager.run()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`scope["state"]["mcp"]` is the McpRequest. A session is only for the device that opened it."""
        request: McpRequest = scope["state"]["mcp"]
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=request.principal, scopes=[]))
        with self._in_use(request.mcp_session, over=scope["method"] == "DELETE"):
            await self._manager.handle_request(scope, receive, send)

    async def handle_hook(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A bridge's call of the hook tool. A person's turn waits for it: it is answered without the SDK, which takes
        longer than all the rest, and without an MCP session."""
        request: McpRequest = scope["state"]["mcp"]
        try:
            call = decode_line(_HOOK_CALL, await _body(receive))
        except msgspec.MsgspecError as error:
            await Response(str(error), status_code=400)(scope, receive, send)
            return
        if self._hooks is None or call.params.name != HOOK_TOOL:
            await Response("this is no call of a hook", status_code=400)(scope, receive, send)
            return

        def identify(session_id: str = "") -> Caller:
            return self._callers.identify(request, meta={}, client="", session_id=session_id)

        result = await self._hook_result(request, identify, self._hooks, call.params.arguments)
        value = result.model_dump(by_alias=True, exclude_none=True, exclude={"result_type"})  # of newer revisions
        answer = {"jsonrpc": "2.0", "id": call.id, "result": value}
        await Response(msgspec.json.encode(answer), media_type="application/json")(scope, receive, send)

    def _identify(self, context: Context, token: str = "", session_id: str = "") -> Caller:
        client = context.session.client_params
        request = _request(context)
        before, now = self._callers.of_transport(request), request.process_session
        if now and before.session not in ("", now) and self._has_ended(before):  # `/clear`: the process goes on
            self._callers.move(request, now)
        return self._callers.identify(
            request,
            meta=cast("Mapping[str, Any]", context.meta or {}),
            client=client.client_info.name if client else "",
            token=token,
            session_id=session_id,
        )

    # --- tools ---------------------------------------------------------------------------------------------

    def _describe(self, tool: Tool) -> types.Tool:
        hints = (
            types.ToolAnnotations(read_only_hint=True) if tool.reads else types.ToolAnnotations(destructive_hint=False)
        )
        return types.Tool(
            name=tool.name, description=tool.description, input_schema=self._schemas[tool.name], annotations=hints
        )

    async def _list_tools(self, context: Context, params: object) -> types.ListToolsResult:
        try:
            in_team = await self._mesh.teams.is_member(self._mesh.session_of(self._identify(context)))
        except TielineError:  # it is not registered yet
            in_team = False
        return self._tools_in_team if in_team else self._tools

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = TOOLS.get(params.name) or TEAM_TOOLS.get(params.name)
        if params.name == HOOK_TOOL and self._hooks is not None:
            identify = partial(self._identify, context)
            return await self._hook_result(_request(context), identify, self._hooks, params.arguments or {})
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"no tool {params.name[:80]!r}; tools/list has all")
        request = _request(context)
        try:
            given = dict(params.arguments or {})
            session_id = given.get("session_id", "")
            if "session_id" not in tool.arguments.__struct_fields__:
                given.pop("session_id", None)  # not of the tool: a harness's plugin adds it to every call
            arguments = msgspec.convert(given, tool.arguments)
            caller = self._identify(context, arguments.token, session_id if isinstance(session_id, str) else "")
            call = ToolCall(self._mesh, caller, arguments, request.key or new_id())
            result = await self._with_progress(context, tool, call)
        except msgspec.ValidationError as error:
            return _problem("UsageError", f"wrong arguments for {tool.name}: {error}", "See its input schema.")
        except TielineError as error:
            return _problem(type(error).__name__, error.message, error.hint, str(getattr(error, "field", "")))
        return self._result(request, caller, result.text, result.value, result.handed)

    async def _hook_result(
        self, request: McpRequest, identify: Callable[..., Caller], hooks: NativeHooks, input: Mapping[str, Any]
    ) -> types.CallToolResult:
        """A harness's hook of type `mcp_tool`: the text is the hook's output. The tool is not listed, so no model pays
        for it; one that calls it all the same is still only its own session."""
        session = str(input.get("session_id") or "")
        try:
            before = identify()
            if session and before.session not in ("", session) and self._has_ended(before):
                self._callers.move(request, session)
            caller = identify(session_id=session)
            reply = await hooks.handle(caller, caller.harness, input)
        except TielineError as error:
            return _problem(type(error).__name__, error.message, error.hint, str(getattr(error, "field", "")))
        return self._result(request, reply.caller, reply.text or "{}", None, reply.handed)

    def _has_ended(self, caller: Caller) -> bool:
        """Only then may its harness have gone on with another session; a model that names one is still refused."""
        member = self._mesh.directory.by_session(caller.machine, caller.harness, caller.session)
        return not caller.driven and member is not None and member.ended

    async def _with_progress(self, context: Context, tool: Tool, call: ToolCall[Any]) -> McpToolResult:
        """The result; meanwhile the client hears that the call still runs."""
        running = asyncio.ensure_future(tool.run(call))
        try:
            loop = asyncio.get_running_loop()
            began = loop.time()
            while not (await asyncio.wait((running,), timeout=PROGRESS_S))[0]:
                if _request(context).closed:  # what it would take is left for who still listens
                    raise MCPError(types.INTERNAL_ERROR, "the connection was closed")
                elapsed = round(loop.time() - began, 1)
                total = getattr(call.arguments, "timeout_s", None)
                await context.session.report_progress(elapsed, total, f"{tool.name}: waiting")
            return running.result()
        finally:
            if not running.done():
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running

    def _result(
        self, request: McpRequest, caller: Caller, text: str, value: dict[str, Any] | None, handed: tuple[str, ...]
    ) -> types.CallToolResult:
        meta: dict[str, Any] = {}
        if handed:
            delivery = request.hand_over(caller, handed)
            if request.confirms:
                meta[DELIVERY_META] = delivery
        if value is not None and size_of(text) + len(msgspec.json.encode(value)) > MAX_RESULT:
            value = None  # the text has it all: clients then show that
        return types.CallToolResult(
            content=[types.TextContent(text=text)], structured_content=value, _meta=meta or None
        )

    # --- the inbox as a resource ---------------------------------------------------------------------------

    async def _list_resources(self, context: Context, params: object) -> types.ListResourcesResult:
        inbox = types.Resource(
            uri=INBOX, name="inbox", description="Your unread messages; reading it takes none.", mime_type="text/plain"
        )
        return types.ListResourcesResult(resources=[inbox])

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        _check_uri(str(params.uri))
        me = self._own_inbox(context)
        text = f"{self._mesh.mailbox.unread(me)} unread. fetch_messages takes them."
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=INBOX, text=text, mime_type="text/plain")]
        )

    async def _subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Of the revision with sessions: what is told goes to the session's own stream."""
        _check_uri(str(params.uri))
        name, session = _request(context).mcp_session, context.session
        self._drop_unused()
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise MCPError(types.INTERNAL_ERROR, "too many subscriptions")
        tasks: set[asyncio.Task[None]] = set()

        async def tell() -> None:
            with suppress(Exception):  # the client is gone: its session ends by itself
                await session.send_resource_updated(INBOX)

        def arrived() -> None:
            if not tasks:  # one word is enough for many messages
                task = asyncio.get_running_loop().create_task(tell())
                tasks.add(task)
                task.add_done_callback(tasks.discard)

        self._drop(name)
        self._subscriptions[name] = _Subscription(self._mesh.mailbox.on_message(self._own_inbox(context), arrived))
        return types.EmptyResult()

    async def _unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._drop(_request(context).mcp_session)
        return types.EmptyResult()

    @contextmanager
    def _in_use(self, name: str, *, over: bool) -> Generator[None]:
        """Mark the subscription of an MCP session as in use during a request."""
        if subscription := self._subscriptions.get(name):
            subscription.open += 1
        try:
            yield
        finally:
            if subscription:
                subscription.open -= 1
                subscription.used_at = time.monotonic()
            if over:
                self._drop(name)

    def _drop(self, name: str) -> None:
        if subscription := self._subscriptions.pop(name, None):
            subscription.end()

    def _drop_unused(self) -> None:
        before = time.monotonic() - IDLE_S
        for name in [
            name
            for name, subscription in self._subscriptions.items()
            if not subscription.open and subscription.used_at < before
        ]:
            self._drop(name)

    async def _listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Of the sessionless revision: what is told goes to this request's own response."""
        for uri in params.notifications.resource_subscriptions or ():
            _check_uri(str(uri))
        own = _InboxEvents(self._mesh, self._own_inbox(context))
        return await ListenHandler(own)(context, params)

    def _own_inbox(self, context: Context) -> str:
        try:
            return self._mesh.whoami(self._identify(context)).address
        except TielineError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None


class _HookParams(Struct, frozen=True):
    name: str = ""
    arguments: dict[str, Any] = {}


class _HookCall(Struct, frozen=True):
    """`tools/call`, what is needed of it."""

    id: int | str
    params: _HookParams


_HOOK_CALL = msgspec.json.Decoder(_HookCall)


class _Subscription:
    """One MCP session is told of new messages; as long as it is used."""

    def __init__(self, end: Callable[[], None]) -> None:
        self.end = end
        self.open = 0  # requests under way, its stream among them
        self.used_at = time.monotonic()


class _InboxEvents:
    """The SDK's bus of events, for one member's inbox."""

    def __init__(self, mesh: Mesh, address: str) -> None:
        self._mesh = mesh
        self._address = address

    async def publish(self, event: ServerEvent) -> None:
        raise NotImplementedError("the mesh publishes")

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        return self._mesh.mailbox.on_message(self._address, lambda: listener(ResourceUpdated(uri=INBOX)))


def _request(context: Context) -> McpRequest:
    assert context.request is not None
    return context.request.scope["state"]["mcp"]


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    while more and len(body) <= MAX_BODY:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _check_uri(uri: str) -> None:
    if uri.rstrip("/") != INBOX:
        raise MCPError(types.INVALID_PARAMS, f"no resource {uri[:80]!r}; there is {INBOX}")


def _problem(code: str, message: str, hint: str = "", field: str = "") -> types.CallToolResult:
    """For the model to read: what is wrong, and what to do."""
    facts = {"code": code, "message": message, "hint": hint, "field": field}
    value = {"error": {name: value for name, value in facts.items() if value}}
    text = f"{message}\n{hint}" if hint else message
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=value, is_error=True)
