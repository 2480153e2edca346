"""The OpenAPI 3.1 document, made from the routes and the very types that decode and encode what crosses the wire."""

import re
from inspect import cleandoc
from typing import Any

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute

from ..protocol.problems import MEDIA_TYPE, Problem
from ..protocol.views import CommandView
from ..version import __version__
from . import doors
from .problems import STATUS
from .spec import Spec

REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{([^}:]+)(?::[^}]+)?\}")

Json = dict[str, Any]


def document(app: Litestar) -> Json:
    """Every route under the API, and those for machines beside it. Streams and links are told in words."""
    found = [
        (_PARAMETER.sub(r"{\1}", route.path_format), method, handler)
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for handler in route.route_handlers
        for method in sorted(handler.http_methods)
        if method != "OPTIONS" and handler.resolve_include_in_schema()
    ]
    types = [Problem, CommandView]
    for _, _, handler in found:
        said = spec_of(handler)
        types += [kind for kind in (said.body, said.gives) if kind is not None]
        types += [parameter.annotation for parameter in _query(handler)]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    names = dict(zip(map(_key, types), schemas, strict=True))
    paths: Json = {}
    for path, method, handler in sorted(found, key=lambda one: (one[0], one[1])):
        paths.setdefault(path, {})[method.lower()] = _operation(path, method, handler, names)
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Tieline",
            "version": __version__,
            "description": "Watch, approve and steer coding agents. Requests that change something take an "
            "`Idempotency-Key`; refusals are problem details (RFC 9457). Live events: the WebSocket "
            "`/api/v1/stream`, or `/api/v1/stream/sse`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {"cookie": []}],
        "tags": [{"name": tag} for tag in sorted({tag for _, _, one in found for tag in _tags(one)})],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "tieline-<port>",
                    "description": "Set by login. Changing requests also say X-Tieline-CSRF.",
                },
            },
        },
    }


def spec_of(handler: HTTPRouteHandler) -> Spec:
    """What it says about itself; of one that says nothing, what its signature says."""
    said = handler.opt.get("spec")
    if isinstance(said, Spec):
        return said
    signature = handler.parsed_fn_signature
    data = signature.parameters.get("data")
    media = handler.media_type or "application/json"
    return Spec(body=data.annotation if data else None, status=handler.status_code, media=str(media))


def _operation(path: str, method: str, handler: HTTPRouteHandler, names: Json) -> Json:
    said = spec_of(handler)
    words = cleandoc(handler.fn.__doc__ or handler.handler_name).split("\n\n", 1)
    is_open = doors.need(method, path) == "nothing"
    operation: Json = {
        "operationId": handler.operation_id or f"{handler.fn.__module__.rpartition('.')[2]}.{handler.handler_name}",
        "summary": " ".join(words[0].split()),
        "tags": _tags(handler),
        "parameters": _parameters(path, method, handler, names),
        "responses": _responses(said, method, names, is_open),
    }
    if len(words) > 1:
        operation["description"] = " ".join(words[1].split())
    if is_open:
        operation["security"] = []
    if said.body is not None:
        content = {"application/json": {"schema": names[_key(said.body)]}}
        operation["requestBody"] = {"required": said.needs_body, "content": content}
    return operation


def _parameters(path: str, method: str, handler: HTTPRouteHandler, names: Json) -> list[Json]:
    found: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PARAMETER.findall(path)
    ]
    for parameter in _query(handler):
        schema = dict(names[_key(parameter.annotation)])
        if (limits := parameter.kwarg_definition) is not None:
            bounds = {"minimum": getattr(limits, "ge", None), "maximum": getattr(limits, "le", None)}
            schema |= {name: value for name, value in bounds.items() if value is not None}
        if parameter.has_default and parameter.default is not None:
            schema["default"] = parameter.default
        found.append({"name": parameter.name, "in": "query", "required": not parameter.has_default, "schema": schema})
    if method != "GET":
        found.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "Carried out once: the same key again gets the first one's answer.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
            }
        )
    return found


def _responses(said: Spec, method: str, names: Json, is_open: bool) -> Json:
    good: Json = {"description": "Done." if method != "GET" else "Found."}
    if said.gives is not None:
        good["content"] = {said.media: {"schema": names[_key(said.gives)]}}
    elif said.status != 204:
        good["content"] = {said.media: {"schema": {}}}
    responses: Json = {str(said.status): good}
    if said.later:
        view = {"application/json": {"schema": names[_key(CommandView)]}}
        responses["202"] = {"description": "Durable; the node has not answered yet.", "content": view}
    codes = {"UsageError", "Forbidden", *said.problems}
    if not is_open:
        codes.add("Unauthenticated")
    if method != "GET":
        codes |= {"BodyTooLarge", "SlowRequest", "InProgress", "KeyReused"}
    if said.gives is not None or said.later:
        codes.add("BusError")
    by_status: dict[int, list[str]] = {}
    for code in sorted(codes):
        by_status.setdefault(STATUS[code], []).append(code)
    problem = {MEDIA_TYPE: {"schema": names[_key(Problem)]}}
    for status, named in sorted(by_status.items()):
        responses[str(status)] = {"description": ", ".join(named), "content": problem}
    return responses


def _query(handler: HTTPRouteHandler) -> list[Any]:
    own = {"request", "data", "scope", "socket", "state", "body", "headers", "cookies", "query"}
    path = set(_PARAMETER.findall(" ".join(handler.paths)))
    return [
        parameter
        for name, parameter in handler.parsed_fn_signature.parameters.items()
        if name not in own and name not in path
    ]


def _tags(handler: HTTPRouteHandler) -> list[str]:
    return sorted(handler.resolve_tags()) or ["other"]


def _key(kind: Any) -> str:
    return repr(kind)
