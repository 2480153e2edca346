"""Every route and every upgrade of the application is guarded, or named as open. A new unguarded one fails here."""

import re
from collections.abc import Iterable

import pytest
from tests.hub.conftest import Running, caller
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tieline.hub import doors
from tieline.hub.app import Application, all_routes
from tieline.hub.gate import Gate
from tieline.hub.request import Asked, Reply, answer
from tieline.hub.routing import Plain, Route, get
from tieline.hub.server import serve

pytestmark = pytest.mark.asyncio(loop_scope="module")

WEBSOCKET = "WEBSOCKET"

OPEN = {
    ("GET", "/healthz"),
    ("POST", "/api/v1/login"),
    ("POST", "/api/v1/pair"),
    ("GET", "/api/v1/docs"),
    ("GET", "/api/v1/docs.js"),
    ("GET", "/api/v1/docs.css"),
    ("GET", "/api/v1/openapi.json"),
}
"""Open without a token, beside the page's own files and the signed hooks. Written down a second time on purpose: who
opens a door changes two files and is asked why."""
PAGE = re.compile(
    r"/(?:index\.html|sw\.js|manifest\.webmanifest|favicon\.ico|robots\.txt|assets/.*|icons/.*"
    r"|new|settings|messages|messages/.*|inboxes|dead|channels|s/.*)?"
)
"""The page: the same for everybody, which a test makes sure of."""


def every_door(routes: Iterable[Route | Plain]) -> list[tuple[str, str]]:
    """Method and path of each; plain ASGI ones are asked in every way."""
    found: set[tuple[str, str]] = set()
    for route in routes:
        if isinstance(route, Plain):
            found |= {(method, route.path) for method in ("GET", "POST", "DELETE", WEBSOCKET)}
        else:
            paths = [re.sub(r"\{[^}]*\}", "x", path) for path in route.paths]
            found |= {(method, path) for method in (route.method, "OPTIONS") for path in paths}
    return sorted(found)


async def knock(url: str, method: str, path: str) -> int:
    """The answer to a stranger."""
    if method != WEBSOCKET:
        async with caller(url) as stranger:
            return (await stranger.request(method, path, json={} if method in ("POST", "PATCH") else None)).status_code
    try:
        async with connect(f"ws{url.removeprefix('http')}{path}", proxy=None, open_timeout=30):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


def may_be_open(method: str, path: str) -> bool:
    if (method, path) in OPEN:
        return True
    if method == "GET" and PAGE.fullmatch(path):
        return True
    return (method == "POST" and path.startswith("/hooks/")) or (method == WEBSOCKET and path == "/api/v1/stream")


async def test_every_route_and_upgrade_is_guarded(shared: Running) -> None:
    found = every_door(all_routes(shared.hub))
    assert len(found) > 60
    opened = [
        (method, path, status)
        for method, path in found
        if not may_be_open(method, path) and (status := await knock(shared.url, method, path)) not in (401, 403)
    ]
    assert opened == []


async def test_every_api_route_is_asked_of_strangers(shared: Running) -> None:
    """The list is not empty by mistake: what everybody knows is in it."""
    found = every_door(all_routes(shared.hub))
    for door in (
        ("POST", "/api/v1/sessions"),
        ("DELETE", "/api/v1/devices/x"),
        (WEBSOCKET, "/api/v1/stream"),
        (WEBSOCKET, "/api/v1/link"),
        ("GET", "/metrics"),
    ):
        assert door in found


async def test_the_check_sees_a_new_unguarded_door(shared: Running) -> None:
    @get("/unheard-of", spec=None)
    async def new(request: Asked) -> Reply:
        return answer("hello")

    app = Application(shared.hub, [new])
    assert ("GET", "/unheard-of") in every_door([new])
    async with serve(app) as bare:  # type: ignore[arg-type]
        assert (
            await knock(bare.url, "GET", "/unheard-of") == 200
        )  # without the gate it would be open, and the test above red
    async with serve(Gate(app, shared.hub)) as guarded:  # type: ignore[arg-type]
        assert await knock(guarded.url, "GET", "/unheard-of") == 401


async def test_open_doors_are_open_for_one_method(shared: Running) -> None:
    for _, path in OPEN:
        for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"):
            assert await knock(shared.url, method, path) == 401, (method, path)
    assert await knock(shared.url, "POST", "/healthz") == 401
    assert await knock(shared.url, "GET", "/healthz/") == 401


async def test_what_is_open_is_named_alike(shared: Running) -> None:
    named = {door for door in doors.OPEN if not PAGE.fullmatch(door[1])}
    assert named == OPEN
    assert {"/api/v1/stream"} == doors.FIRST_FRAME


async def test_the_page_is_the_same_for_everybody(shared: Running) -> None:
    found = [path for method, path in every_door(all_routes(shared.hub)) if method == "GET" and PAGE.fullmatch(path)]
    async with caller(shared.url) as stranger:
        for path in found:
            own, foreign = await shared.client.get(path), await stranger.get(path)
            assert own.status_code == foreign.status_code, path
            assert own.status_code != 200 or own.content == foreign.content, path
            assert shared.token.encode() not in own.content
