"""Which function answers which method and path, and what of them it is given.

    @get("/api/v1/things/{id}/parts", tags=["things"], spec=Spec(gives=list[Part]))
    async def parts(request: Asked, id: str, limit: Annotated[int, Meta(ge=1, le=100)] = 50) -> Reply: ...

Names in the path's braces are given as they were said, never empty; every other parameter is of the query, and what it
says is checked against its type. `asgi` is for doors that are no request and answer: streams and links.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import get_type_hints
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from .problems import RequestRefused
from .request import Request, Response, parse_query
from .responses import Receive, Scope, Send
from .route_spec import RouteSpec

MAX_FIELDS = 100
"""Of a query."""

Handler = Callable[..., Awaitable[Response]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

NAME = re.compile(r"\{([^}]+)\}")
"""Of a part of a path that is given to the handler."""


class AsgiRoute(Struct, frozen=True):
    """A door that speaks ASGI by itself, whatever the method, also as a WebSocket."""

    path: str
    app: App


class Route:
    def __init__(
        self, method: str, paths: tuple[str, ...], handler: Handler, spec: RouteSpec | None, tags: list[str]
    ) -> None:
        self.method = method
        self.paths = paths
        self.handler = handler
        self.spec = spec  # without one it is not in the document
        self.tags = tags
        hints = get_type_hints(handler, include_extras=True)
        own = list(inspect.signature(handler).parameters.values())[1:]  # the first is the request
        named = set(NAME.findall(" ".join(paths)))
        self.words = frozenset(one.name for one in own if one.name in named)
        query = [
            (one.name, hints[one.name], msgspec.NODEFAULT if one.default is one.empty else one.default)
            for one in own
            if one.name not in named
        ]
        self.query = msgspec.defstruct("Query", query, kw_only=True) if query else None

    async def answer(self, request: Request, words: dict[str, str]) -> Response:
        given = {name: words[name] for name in self.words}
        if self.query is None:
            return await self.handler(request, **given)
        try:
            said = request.scope["query_string"].decode("latin-1")
            fields = parse_qsl(said, keep_blank_values=True, max_num_fields=MAX_FIELDS)
        except ValueError as error:
            raise RequestRefused("UsageError", f"the query cannot be read: {error}", field="query") from None
        return await self.handler(request, **given, **asdict(parse_query(fields, self.query)))


class RouteDecorator(Struct, frozen=True):
    """The decorator for the handlers of a method."""

    method: str

    def __call__(
        self, *paths: str, spec: RouteSpec | None, tags: list[str] | None = None
    ) -> Callable[[Handler], Route]:
        return lambda handler: Route(self.method, paths, handler, spec, tags or [])


get, post, patch, delete = (
    RouteDecorator("GET"),
    RouteDecorator("POST"),
    RouteDecorator("PATCH"),
    RouteDecorator("DELETE"),
)


def asgi(path: str) -> Callable[[App], AsgiRoute]:
    return lambda app: AsgiRoute(path, app)


class PathNode(Struct):
    """What is at a path, and below it."""

    template: str = ""
    routes: dict[str, Route] = field(default_factory=dict[str, Route])  # by method
    plain: App | None = None
    below: dict[str, "PathNode"] = field(default_factory=lambda: dict[str, "PathNode"]())
    any: "PathNode | None" = None  # below, whatever it is called
    name: str = ""  # by which that is given to the handler


class Router:
    def __init__(self, doors: Iterable[Route | AsgiRoute]) -> None:
        self._root = PathNode()
        for door in doors:
            if isinstance(door, AsgiRoute):
                self._place(door.path).plain = door.app
                continue
            for path in door.paths:
                routes = self._place(path).routes
                assert door.method not in routes, f"{door.method} {path} is there twice"
                routes[door.method] = door

    def find(self, path: str) -> tuple[PathNode, dict[str, str]] | None:
        """What is at a path, and what its parts are for the names in braces. A name that is spelled out comes first."""
        words: dict[str, str] = {}
        place = self._root
        for part in path.split("/")[1:]:
            below = place.below.get(part)
            if below is None:
                if place.any is None or not part:
                    return None
                words[place.name] = part
                below = place.any
            place = below
        return (place, words) if place.template else None

    def _place(self, path: str) -> PathNode:
        place = self._root
        for part in path.split("/")[1:]:
            if name := NAME.fullmatch(part):
                assert place.any is None or place.name == name[1], f"{path}: {part} is called {place.name} elsewhere"
                place.any, place.name = place.any or PathNode(), name[1]
                place = place.any
            else:
                place = place.below.setdefault(part, PathNode())
        place.template = path
        return place
