"""The OpenAPI 3.1 document, made from the routes and the very types that decode and encode what crosses the wire."""

from collections.abc import Iterable
from inspect import cleandoc
from typing import Any

import msgspec
from msgspec.structs import FieldInfo, fields

from ...protocol.problems import MEDIA_TYPE, Problem
from ...protocol.views import CommandView
from ...version import __version__
from ...wire.json_object import JsonDict
from ..security import access_rules
from .problems import STATUS
from .route_spec import RouteSpec
from .routing import PATH_PARAMETER, AsgiRoute, Operation

REF = "#/components/schemas/{name}"


def document(routes: Iterable[Operation | AsgiRoute]) -> JsonDict:
    """Every route under the API, and those for machines beside it. Streams and links are described in
    prose."""
    documented = [
        (path, route, route.spec)
        for route in routes
        if isinstance(route, Operation) and route.spec is not None
        for path in route.paths
    ]
    types: list[Any] = [Problem, CommandView]
    for _, route, spec in documented:
        types += [kind for kind in (spec.body, spec.response) if kind is not None]
        types += [field.type for field in _query(route)]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    names = dict(zip(map(_key, types), schemas, strict=True))
    paths: JsonDict = {}
    for path, route, spec in sorted(documented, key=lambda entry: (entry[0], entry[1].method)):
        paths.setdefault(path, {})[route.method.lower()] = _operation(path, route, spec, names)
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
        "security": [{"bearer": []}],
        "tags": [{"name": tag} for tag in sorted({tag for _, route, _ in documented for tag in route.tags})],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(path: str, route: Operation, spec: RouteSpec, names: JsonDict) -> JsonDict:
    words = cleandoc(route.handler.__doc__ or route.handler.__name__).split("\n\n", 1)
    is_open = access_rules.required_auth(route.method, path) == "nothing"
    operation: JsonDict = {
        "operationId": f"{route.handler.__module__.rpartition('.')[2]}.{route.handler.__name__}",
        "summary": " ".join(words[0].split()),
        "tags": sorted(route.tags),
        "parameters": _parameters(path, route, names),
        "responses": _responses(spec, route.method, names, is_open),
    }
    if len(words) > 1:
        operation["description"] = " ".join(words[1].split())
    if is_open:
        operation["security"] = []
    if spec.body is not None:
        content = {"application/json": {"schema": names[_key(spec.body)]}}
        operation["requestBody"] = {"required": spec.body_required, "content": content}
    return operation


def _parameters(path: str, route: Operation, names: JsonDict) -> list[JsonDict]:
    parameters: list[JsonDict] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in PATH_PARAMETER.findall(path)
    ]
    for field in _query(route):
        schema = dict(names[_key(field.type)])
        if field.default is not None and not field.required:
            schema["default"] = field.default
        parameters.append({"name": field.name, "in": "query", "required": field.required, "schema": schema})
    if route.method != "GET":
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "Carried out once: the same key again gets the first one's answer.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
            }
        )
    return parameters


def _responses(spec: RouteSpec, method: str, names: JsonDict, is_open: bool) -> JsonDict:
    good: JsonDict = {"description": "Done." if method != "GET" else "Found."}
    if spec.response is not None:
        good["content"] = {spec.media_type: {"schema": names[_key(spec.response)]}}
    elif spec.status != 204:
        good["content"] = {spec.media_type: {"schema": {}}}
    responses: JsonDict = {str(spec.status): good}
    if spec.may_be_pending:
        view = {"application/json": {"schema": names[_key(CommandView)]}}
        responses["202"] = {"description": "Durable; the node has not answered yet.", "content": view}
    codes = {"UsageError", "Forbidden", *spec.problems}
    if not is_open:
        codes.add("Unauthenticated")
    if method != "GET":
        codes |= {"BodyTooLarge", "SlowRequest", "InProgress", "KeyReused"}
    if spec.response is not None or spec.may_be_pending:
        codes.add("BusError")
    by_status: dict[int, list[str]] = {}
    for code in sorted(codes):
        by_status.setdefault(STATUS[code], []).append(code)
    problem = {MEDIA_TYPE: {"schema": names[_key(Problem)]}}
    for status, named in sorted(by_status.items()):
        responses[str(status)] = {"description": ", ".join(named), "content": problem}
    return responses


def _query(route: Operation) -> tuple[FieldInfo, ...]:
    return fields(route.query) if route.query is not None else ()


def _key(kind: Any) -> str:
    return repr(kind)
