"""Routes: what is found at a path, what of it a handler is given, and what is said to those who knock wrongly."""

from typing import Annotated, Literal

import pytest
from msgspec import Meta
from starlette.responses import Response
from starlette.types import Message, Scope
from tests.hub.conftest import Running, caller, without_middleware
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tieline.hub.app import Application
from tieline.hub.http.request import Request, json_response
from tieline.hub.http.routing import get, post
from tieline.hub.http.server import serve

pytestmark = pytest.mark.asyncio(loop_scope="module")


@get("/things/{id}", spec=None)
async def thing(request: Request, id: str) -> Response:
    return json_response(id)


@post("/things/all", spec=None)
async def everything(request: Request) -> Response:
    return json_response("all")


@get("/things/{id}/parts/{part}", "/first", spec=None)
async def part(
    request: Request,
    wide: bool = False,
    word: str = "none",
    limit: Annotated[int, Meta(ge=1, le=9)] = 5,
    kind: Literal["a", "b"] | None = None,
) -> Response:
    return json_response([wide, word, limit, kind])


@get("/needs", spec=None)
async def needs(request: Request, word: str) -> Response:
    return json_response(word)


@get("/broken", spec=None)
async def broken(request: Request) -> Response:
    raise RuntimeError("a secret of ours")


ROUTES = (thing, everything, part, needs, broken)


@pytest.mark.parametrize(
    ("path", "template", "words"),
    [
        ("/things/x", "/things/{id}", {"id": "x"}),
        ("/things/all", "/things/all", {}),
        ("/things/all/parts/y", "/things/{id}/parts/{part}", {"id": "all", "part": "y"}),
        ("/things/x/parts/y", "/things/{id}/parts/{part}", {"id": "x", "part": "y"}),
        ("/first", "/first", {}),
        ("/things", None, None),
        ("/things/", None, None),
        ("/things/x/", None, None),
        ("/things//parts/y", None, None),
        ("/things/x/parts", None, None),
        ("/", None, None),
        ("", None, None),
        ("things/x", None, None),
    ],
)
async def test_what_is_at_a_path(
    shared: Running, path: str, template: str | None, words: dict[str, str] | None
) -> None:
    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        pass

    scope: Scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [], "state": {}}
    await without_middleware(Application(shared.hub, ROUTES))(scope, receive, send)
    if template is None:
        assert "route" not in scope
    else:
        assert (scope["route"].path, scope["path_params"]) == (template, words)


async def test_two_for_the_same_door_are_refused(shared: Running) -> None:
    with pytest.raises(AssertionError, match="twice"):
        Application(shared.hub, [thing, thing])


@pytest.mark.parametrize(
    ("query", "status", "expected"),
    [
        ("", 200, [False, "none", 5, None]),
        ("wide=true&word=a%20b+c&limit=9&kind=b", 200, [True, "a b c", 9, "b"]),
        ("wide=1&word=&more=x", 200, [True, "", 5, None]),
        ("limit=3&limit=4", 200, [False, "none", 4, None]),
        ("word=%C3%A9%FF", 200, [False, "\u00e9\ufffd", 5, None]),
        ("limit=0", 400, "limit"),
        ("limit=10", 400, "limit"),
        ("limit=", 400, "limit"),
        ("limit=x", 400, "limit"),
        ("wide=perhaps", 400, "wide"),
        ("kind=c", 400, "kind"),
        ("&".join(f"a{number}=1" for number in range(101)), 400, "query"),
    ],
)
async def test_a_query_by_the_types_of_its_handler(shared: Running, query: str, status: int, expected: object) -> None:
    async with serve(without_middleware(Application(shared.hub, ROUTES))) as bare, caller(bare.url) as client:
        reply = await client.get(f"{bare.url}/first?{query}")
        assert reply.status_code == status
        assert (reply.json() if status == 200 else reply.json()["field"]) == expected


async def test_what_a_query_must_say(shared: Running) -> None:
    async with serve(without_middleware(Application(shared.hub, ROUTES))) as bare, caller(bare.url) as client:
        reply = await client.get(f"{bare.url}/needs")
        assert (reply.status_code, reply.json()["field"], reply.json()["code"]) == (400, "word", "UsageError")
        assert (await client.get(f"{bare.url}/needs?word=x")).json() == "x"


async def test_the_wrong_door_and_the_wrong_way(shared: Running) -> None:
    async with serve(without_middleware(Application(shared.hub, ROUTES))) as bare, caller(bare.url) as client:
        nothing = await client.get(f"{bare.url}/nowhere")
        assert (nothing.status_code, nothing.headers["content-type"]) == (404, "application/problem+json")
        wrong = await client.post(f"{bare.url}/things/x")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, OPTIONS")
        ways = await client.request("OPTIONS", f"{bare.url}/things/all")
        assert (ways.status_code, ways.headers["allow"], ways.content) == (204, "OPTIONS, POST", b"")


async def test_what_breaks_keeps_its_words(shared: Running) -> None:
    async with serve(without_middleware(Application(shared.hub, ROUTES))) as bare, caller(bare.url) as client:
        reply = await client.get(f"{bare.url}/broken")
        assert reply.status_code == 500
        assert "secret" not in reply.text


async def test_an_upgrade_where_there_is_none(shared: Running) -> None:
    headers = {"Authorization": f"Bearer {shared.token}"}
    for path in ("/api/v1/nowhere", "/api/v1/sessions"):
        with pytest.raises(InvalidStatus) as refused:
            async with connect(f"ws{shared.url.removeprefix('http')}{path}", proxy=None, additional_headers=headers):
                pass
        assert refused.value.response.status_code == 404
