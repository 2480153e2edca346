"""The hub as an ASGI application: its routes behind the security middleware.

A file in `routes/` (or `http/static_files.py`) gives its handlers by `routes(hub)`; PARTS names them. Nothing else is
reachable, and nothing without passing the security middleware.
"""

from collections.abc import Iterable
from importlib import import_module

from ..errors import TielineError
from ..protocol.problems import MEDIA_TYPE, Problem
from .http.problems import ProblemException, RequestRefused, headers, http_problem, problem_of, render
from .http.request import Request, Response
from .http.responses import Receive, Scope, Send
from .http.routing import AsgiRoute, Route, Router
from .hub import Hub
from .security.middleware import SecurityMiddleware

PARTS = (
    "routes.access",
    "routes.audit",
    "routes.nodes",
    "routes.sessions",
    "routes.prompts",
    "routes.asks",
    "routes.health_and_docs",
    "routes.stream",
    "routes.push",
    "routes.node_link",
    "routes.messages",
    "routes.dead_letters",
    "routes.channels",
    "routes.webhooks",
    "http.static_files",
)


def build(hub: Hub) -> SecurityMiddleware:
    return SecurityMiddleware(Application(hub, all_routes(hub)), hub)


def all_routes(hub: Hub) -> list[Route | AsgiRoute]:
    return [one for part in PARTS for one in import_module(f"{__package__}.{part}").routes(hub)]


class Application:
    """Routes, without the gate."""

    def __init__(self, hub: Hub, routes: Iterable[Route | AsgiRoute]) -> None:
        self._hub = hub
        self._routes = tuple(routes)
        self._map = Router(self._routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._map.find(scope["path"])
        if found is not None:
            scope["path_template"] = found[0].template
            if found[0].plain is not None:
                await found[0].plain(scope, receive, send)
                return
        if scope["type"] != "http":
            raise RequestRefused("NotFound", "there is no such door")
        request = Request(self._hub, scope, self._routes)
        if found is None:
            reply = _answer(http_problem(404, "there is nothing here", request.id))
        elif (route := found[0].routes.get(scope["method"])) is None:
            reply = _other_method(request, found[0].routes)
        else:
            reply = await self._answered(route, request, found[1])
        await reply.send(send)

    async def _answered(self, route: Route, request: Request, words: dict[str, str]) -> Response:
        state = request.scope["state"]
        try:
            return await route.answer(request, words)
        except ProblemException as error:
            state["why"] = error.problem.detail
            return _answer(error.problem)
        except TielineError as error:
            state["why"] = error.message
            return _answer(problem_of(error, request.id), error.retry_s if isinstance(error, RequestRefused) else 0.0)
        except Exception as error:
            self._hub.log.error("failed", path=request.scope["path"], id=request.id, exc_info=error)
            return _answer(http_problem(500, "something went wrong here; the log says what", request.id))


def _other_method(request: Request, routes: dict[str, Route]) -> Response:
    allow = {"allow": ", ".join(sorted({*routes, "OPTIONS"}))}
    if request.scope["method"] == "OPTIONS":
        return Response(status=204, headers=allow)
    problem = http_problem(405, "this door is not opened that way", request.id)
    return Response(render(problem), 405, MEDIA_TYPE, allow)


def _answer(problem: Problem, retry_s: float = 0.0) -> Response:
    more = {name.decode(): value.decode() for name, value in headers(problem, retry_s) if name != b"content-type"}
    return Response(render(problem), problem.status, MEDIA_TYPE, more)
