"""The OpenAPI document: 3.1, whole, and true to what the routes do."""

import json
import re
from typing import Any

import jsonschema
import msgspec
import pytest
from tests.hub.conftest import Running

from tieline.hub.app import all_routes
from tieline.hub.http.problems import STATUS
from tieline.hub.http.routing import Operation
from tieline.protocol.views import NodeView

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def document(shared: Running) -> dict[str, Any]:
    reply = await shared.client.get("/api/v1/openapi.json")
    assert reply.headers["content-type"] == "application/json"
    return reply.json()


async def test_it_is_openapi_3_1(shared: Running) -> None:
    openapi = await document(shared)
    assert openapi["openapi"] == "3.1.0"
    assert {"title", "version"} <= openapi["info"].keys()
    schemas = openapi["components"]["schemas"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    references = set(re.findall(r'"\$ref": ?"([^"]+)"', json.dumps(openapi)))
    assert {reference.removeprefix("#/components/schemas/") for reference in references} <= schemas.keys()
    for path, methods in openapi["paths"].items():
        for operation in methods.values():
            named = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
            assert named == set(re.findall(r"\{([^}]+)\}", path))
            for answer in operation["responses"].values():
                assert answer["description"]


async def test_every_route_is_in_it_with_words_bodies_answers_and_problems(shared: Running) -> None:
    paths = (await document(shared))["paths"]
    for route in [route for route in all_routes(shared.hub) if isinstance(route, Operation)]:
        for path in route.paths:
            if not path.startswith(("/api/v1/", "/metrics", "/healthz")):
                continue
            if path in ("/api/v1/docs.js", "/api/v1/docs.css"):
                continue  # of the page that shows the document
            operation = paths[path][route.method.lower()]
            assert operation["summary"].endswith((".", "?")), path
            assert operation["operationId"]
            statuses = set(operation["responses"])
            assert any(status.startswith("2") for status in statuses), path
            assert "400" in statuses
            if "security" not in operation:
                assert "401" in statuses, path
            if route.method != "GET":
                names = [parameter["name"] for parameter in operation["parameters"]]
                assert "Idempotency-Key" in names, path


async def test_operation_ids_are_unique(shared: Running) -> None:
    paths = (await document(shared))["paths"]
    ids = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


async def test_open_doors_say_so(shared: Running) -> None:
    paths = (await document(shared))["paths"]
    opened = {
        path for path, methods in paths.items() for operation in methods.values() if operation.get("security") == []
    }
    assert {"/healthz", "/api/v1/login", "/api/v1/pair"} <= opened
    assert "/api/v1/sessions" not in opened


async def test_every_problem_has_a_status() -> None:
    assert all(400 <= status < 600 for status in STATUS.values())


async def test_what_is_answered_is_what_is_said(shared: Running) -> None:
    openapi = await document(shared)
    schema = openapi["paths"]["/api/v1/nodes"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    reply = (await shared.client.get("/api/v1/nodes")).json()
    jsonschema.validate(reply, {**schema, "components": openapi["components"]})
    msgspec.convert(reply, list[NodeView])


async def test_the_page_that_shows_it_brings_nothing_from_elsewhere(shared: Running) -> None:
    page = await shared.client.get("/api/v1/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for name, kind in (("docs.js", "text/javascript"), ("docs.css", "text/css")):
        assert name in page.text
        part = await shared.client.get(f"/api/v1/{name}")
        assert part.headers["content-type"].startswith(kind)
        assert "http:" not in part.text
        assert "https:" not in part.text
    assert "<script>" not in page.text
    assert "style=" not in page.text
    assert "innerHTML" not in (await shared.client.get("/api/v1/docs.js")).text
