"""Declares routes with typed query parameters, and puts them into Starlette's router.

    @get("/api/v1/things/{id}/parts", tags=["things"], spec=RouteSpec(response=list[Part]))
    async def parts(request: Request, id: str, limit: Annotated[int, Meta(ge=1, le=100)] = 50) -> Response: ...

A parameter that the path names is given as text; every other parameter comes from the query and is checked against its
type. `asgi` is for what is no request with one response: streams and links.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import asdict
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from .request import Request, parse_query
from .route_spec import RouteSpec

RouteHandler = Callable[..., Awaitable[Response]]

API = "/api/v1/"
PATH_PARAMETER = re.compile(r"\{([^}]+)\}")
"""A path parameter."""


class AsgiRoute(Struct, frozen=True):
    """A path that an ASGI application serves, whatever the method, also as a WebSocket."""

    path: str
    app: ASGIApp


class Operation:
    """A method of one or several paths, and its handler."""

    def __init__(
        self, method: str, paths: tuple[str, ...], handler: RouteHandler, spec: RouteSpec | None, tags: list[str]
    ) -> None:
        self.method = method
        self.paths = paths
        self.handler = handler
        self.spec = spec  # without one it is not in the OpenAPI document
        self.tags = tags
        hints = get_type_hints(handler, include_extras=True)
        parameters = list(inspect.signature(handler).parameters.values())[1:]  # the first is the request
        in_path = set(PATH_PARAMETER.findall(" ".join(paths)))
        self._path_params = frozenset(parameter.name for parameter in parameters if parameter.name in in_path)
        query = [
            (
                parameter.name,
                hints[parameter.name],
                msgspec.NODEFAULT if parameter.default is parameter.empty else parameter.default,
            )
            for parameter in parameters
            if parameter.name not in in_path
        ]
        self.query = msgspec.defstruct("Query", query, kw_only=True) if query else None

    async def handle(self, request: Request) -> Response:
        path_params = {name: request.path_params[name] for name in self._path_params}
        if self.query is None:
            return await self.handler(request, **path_params)
        return await self.handler(request, **path_params, **asdict(parse_query(request, self.query)))


class RouteDecorator(Struct, frozen=True):
    """The decorator for the handlers of a method."""

    method: str

    def __call__(
        self, *paths: str, spec: RouteSpec | None, tags: list[str] | None = None
    ) -> Callable[[RouteHandler], Operation]:
        return lambda handler: Operation(self.method, paths, handler, spec, tags or [])


get, post, patch, delete = (
    RouteDecorator("GET"),
    RouteDecorator("POST"),
    RouteDecorator("PATCH"),
    RouteDecorator("DELETE"),
)


def asgi(path: str) -> Callable[[ASGIApp], AsgiRoute]:
    return lambda app: AsgiRoute(path, app)


class _AsgiEndpoint:
    """Starlette takes a function for a handler of requests, and any other callable for an ASGI application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def build_router(
    routes: Iterable[Operation | AsgiRoute], serve: Callable[[Mapping[str, Operation]], ASGIApp], not_found: ASGIApp
) -> ASGIApp:
    """Each path is one of Starlette's routes, so that a method that it lacks is refused with the methods that it has;
    `serve` makes the application for all operations of a path. A path that is spelled out comes before a parameter.

    Starlette tries routes one after the other, so each resource has a router of its own: a request tries its own few
    routes instead of all."""
    operations: dict[str, dict[str, Operation]] = {}
    routes_by_path: list[tuple[str, BaseRoute]] = []
    for route in routes:
        if isinstance(route, AsgiRoute):
            endpoint = _AsgiEndpoint(route.app)
            routes_by_path += [
                (route.path, Route(route.path, endpoint)),
                (route.path, WebSocketRoute(route.path, endpoint)),
            ]
            continue
        for path in route.paths:
            methods = operations.setdefault(path, {})
            assert route.method not in methods, f"{route.method} {path} is there twice"
            methods[route.method] = route
    routes_by_path += [(path, Route(path, _AsgiEndpoint(serve(methods)))) for path, methods in operations.items()]
    routes_by_path.sort(key=lambda pair: [part.startswith("{") for part in pair[0].split("/")])
    by_resource: dict[str, list[BaseRoute]] = {}
    for path, route in routes_by_path:
        by_resource.setdefault(_resource(path), []).append(route)
    routers = {
        resource: Router(routes, redirect_slashes=False, default=not_found) for resource, routes in by_resource.items()
    }

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        await routers.get(_resource(scope["path"]), not_found)(scope, receive, send)

    return dispatch


def _resource(path: str) -> str:
    """The first part of a path, after the API's prefix. In a route it is never a parameter."""
    return path.removeprefix(API).lstrip("/").partition("/")[0]
