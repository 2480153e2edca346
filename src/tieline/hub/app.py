"""The hub as an ASGI application: its routes behind the security middleware.

A file in `routes/` (or `http/static_files.py`) gives its handlers by `routes(hub)`; PARTS names them. Nothing else is
reachable, and nothing without passing the security middleware.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..errors import TielineError
from ..protocol.problems import MEDIA_TYPE, Problem
from .http.problems import (
    INTERNAL_ERROR,
    RequestRefused,
    encode_problem,
    http_problem,
    problem_from_error,
    problem_headers,
)
from .http.request import Request
from .http.request_context import context_of
from .http.routing import AsgiRoute, Operation, build_router
from .hub import Hub
from .security.middleware import SecurityMiddleware

PARTS = (
    "routes.access",
    "routes.phone",
    "routes.audit",
    "routes.nodes",
    "routes.sessions",
    "routes.session_marks",
    "routes.changes",
    "routes.worktrees",
    "routes.prompts",
    "routes.asks",
    "routes.usage",
    "routes.search",
    "routes.health_and_docs",
    "routes.stream",
    "routes.push",
    "routes.node_link",
    "routes.messages",
    "routes.dead_letters",
    "routes.channels",
    "routes.webhooks",
    "routes.mcp",
    "routes.members",
    "routes.teams",
    "routes.schedules",
    "routes.rules",
    "routes.harness_hooks",
    "routes.harness_plugins",
    "http.static_files",
)


def build(hub: Hub) -> SecurityMiddleware:
    return SecurityMiddleware(Application(hub, all_routes(hub)), hub)


def all_routes(hub: Hub) -> list[Operation | AsgiRoute]:
    return [route for part in PARTS for route in import_module(f"{__package__}.{part}").routes(hub)]


class Application:
    """All routes, without the security middleware."""

    def __init__(self, hub: Hub, routes: Iterable[Operation | AsgiRoute]) -> None:
        self.hub = hub
        self.routes = tuple(routes)
        self._router = build_router(self.routes, lambda operations: PathEndpoint(hub, operations), _not_found)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        await self._router(scope, receive, send)


class PathEndpoint:
    """The operations of one path. An error becomes a problem response."""

    def __init__(self, hub: Hub, operations: Mapping[str, Operation]) -> None:
        self._hub = hub
        self._operations = operations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        operation = self._operations.get(scope["method"])
        response = self._other_method(request) if operation is None else await self._handle(operation, request)
        await response(scope, receive, send)

    async def _handle(self, operation: Operation, request: Request) -> Response:
        try:
            return await operation.handle(request)
        except TielineError as error:
            request.context.problem = error.message
            retry_s = error.retry_s if isinstance(error, RequestRefused) else 0.0
            return _problem_response(problem_from_error(error, request.context.id), retry_s)
        except Exception as error:
            self._hub.log.error("failed", path=request.scope["path"], id=request.context.id, exc_info=error)
            return _problem_response(http_problem(500, INTERNAL_ERROR, request.context.id))

    def _other_method(self, request: Request) -> Response:
        allow = {"allow": ", ".join(sorted({*self._operations, "OPTIONS"}))}
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=allow)
        problem = http_problem(405, "method not allowed", request.context.id)
        return Response(encode_problem(problem), problem.status, allow, MEDIA_TYPE)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "http":
        raise RequestRefused("NotFound", "no WebSocket at this path")
    response = _problem_response(http_problem(404, "no such path", context_of(scope).id))
    await response(scope, receive, send)


def _problem_response(problem: Problem, retry_s: float = 0.0) -> Response:
    more = {
        name.decode(): value.decode() for name, value in problem_headers(problem, retry_s) if name != b"content-type"
    }
    return Response(encode_problem(problem), problem.status, more, MEDIA_TYPE)
