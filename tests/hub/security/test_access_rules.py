"""Every route and every upgrade of the application is guarded, or named as open. A new unguarded one fails here."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import pytest_asyncio
from msgspec import Struct
from starlette.responses import Response
from tests.hub.agents import Inside, inside, through
from tests.hub.conftest import Running, caller, without_middleware
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tieline.hub.app import Application, all_routes
from tieline.hub.http.request import Request, json_response
from tieline.hub.http.routing import AsgiRoute, Operation, get
from tieline.hub.http.server import serve
from tieline.hub.security import access_rules
from tieline.hub.security.middleware import SecurityMiddleware

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
AGENTS = {
    ("GET", "/api/v1/me"),
    ("POST", "/api/v1/messages"),
    ("POST", "/api/v1/messages/ask"),
    ("GET", "/api/v1/messages/x"),
    ("GET", "/api/v1/members"),
    ("POST", "/api/v1/harness-hooks"),
    ("GET", "/mcp"),
    ("POST", "/mcp"),
    ("DELETE", "/mcp"),
    ("POST", "/mcp/delivered"),
}
"""Open for what an agent started, beside its own session."""
PAGE = re.compile(
    r"/(?:index\.html|sw\.js|manifest\.webmanifest|favicon\.ico|robots\.txt|assets/.*|icons/.*"
    r"|new|settings|messages|messages/.*|members|members/.*|inboxes|dead|channels|teams|teams/.*|search|usage|schedules"
    r"|schedules/.*|s/.*)?"
)
"""The page: the same for everybody, which a test makes sure of."""


def every_door(routes: Iterable[Operation | AsgiRoute]) -> list[tuple[str, str]]:
    """Method and path of each; plain ASGI ones are asked in every way."""
    doors: set[tuple[str, str]] = set()
    for route in routes:
        if isinstance(route, AsgiRoute):
            doors |= {(method, route.path) for method in ("GET", "POST", "DELETE", WEBSOCKET)}
        else:
            paths = [re.sub(r"\{[^}]*\}", "x", path) for path in route.paths]
            doors |= {(method, path) for method in (route.method, "OPTIONS") for path in paths}
    return sorted(doors)


class Stranger(Struct, frozen=True):
    """Somebody without a key: over TCP, or by the owner's socket and started by an agent."""

    hub: Running
    agent: Inside | None = None

    def client(self, url: str) -> httpx.AsyncClient:
        return caller(url) if self.agent is None else through(self.hub, self.agent.away)

    @property
    def refused(self) -> int:
        return 401 if self.agent is None else 403

    async def knock(self, url: str, method: str, path: str) -> int:
        """The answer that it gets."""
        if method != WEBSOCKET:
            body: dict[str, str] | None = {} if method in ("POST", "PATCH") else None
            async with self.client(url) as stranger, stranger.stream(method, path, json=body) as reply:
                return reply.status_code
        where = f"ws{url.removeprefix('http')}{path}"
        by_socket: dict[str, Any] = {} if self.agent is None else {"unix": True, "path": self.agent.away}
        try:
            async with connect(where, proxy=None, open_timeout=30, **by_socket):
                return 101
        except InvalidStatus as refused:
            return refused.response.status_code

    @asynccontextmanager
    async def serve(self, app: Any, path: Path) -> AsyncGenerator[str, None]:
        """Another server that it knocks at."""
        if self.agent is None:
            async with serve(app) as serving:
                yield serving.url
            return
        async with serve(app, socket_path=path / "own" / "hub.sock") as serving:
            self.lead_to(self.agent, serving.socket)
            try:
                yield serving.url
            finally:
                self.lead_to(self.agent, self.hub.serving.socket)

    def lead_to(self, agent: Inside, socket: str) -> None:
        new = agent.there.with_name("new")
        new.symlink_to(socket)
        new.rename(agent.there)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["tcp", "socket"])
async def stranger(
    request: pytest.FixtureRequest, shared: Running, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Stranger, None]:
    if request.param == "tcp":
        yield Stranger(shared)
        return
    async with inside(shared, tmp_path_factory.mktemp("in")) as agent:
        yield Stranger(shared, agent)


def may_be_open(method: str, path: str, stranger: Stranger) -> bool:
    if (method, path) in OPEN:
        return True
    if stranger.agent is not None and (method, path) in AGENTS:
        return True
    if method == "GET" and PAGE.fullmatch(path):
        return True
    return (method == "POST" and path.startswith("/hooks/")) or (
        method == WEBSOCKET and path == "/api/v1/stream" and stranger.agent is None
    )


async def test_every_route_and_upgrade_is_guarded(shared: Running, stranger: Stranger) -> None:
    doors = every_door(all_routes(shared.hub))
    assert len(doors) > 60
    opened = [
        (method, path, status)
        for method, path in doors
        if not may_be_open(method, path, stranger)
        and (status := await stranger.knock(shared.url, method, path)) not in (stranger.refused, 403)
    ]
    assert opened == []


async def test_every_api_route_is_asked_of_strangers(shared: Running) -> None:
    """The list is not empty by mistake: what everybody knows is in it."""
    doors = every_door(all_routes(shared.hub))
    for door in (
        ("POST", "/api/v1/sessions"),
        ("DELETE", "/api/v1/devices/x"),
        (WEBSOCKET, "/api/v1/stream"),
        (WEBSOCKET, "/api/v1/link"),
        ("GET", "/metrics"),
    ):
        assert door in doors


async def test_the_check_sees_a_new_unguarded_door(shared: Running, stranger: Stranger, tmp_path: Path) -> None:
    @get("/unheard-of", spec=None)
    async def new(request: Request) -> Response:
        return json_response("hello")

    app = Application(shared.hub, [new])
    assert ("GET", "/unheard-of") in every_door([new])
    async with stranger.serve(
        without_middleware(app), tmp_path / "bare"
    ) as bare:  # without the gate it is open, and the test above red
        assert await stranger.knock(bare, "GET", "/unheard-of") == 200
    async with stranger.serve(SecurityMiddleware(app, shared.hub), tmp_path / "guarded") as guarded:
        assert await stranger.knock(guarded, "GET", "/unheard-of") == stranger.refused


async def test_open_doors_are_open_for_one_method(shared: Running, stranger: Stranger) -> None:
    for _, path in OPEN:
        for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"):
            assert await stranger.knock(shared.url, method, path) == stranger.refused, (method, path)
    assert await stranger.knock(shared.url, "POST", "/healthz") == stranger.refused
    assert await stranger.knock(shared.url, "GET", "/healthz/") == stranger.refused


async def test_open_doors_are_open(shared: Running, stranger: Stranger) -> None:
    for method, path in OPEN:
        if method == "GET":
            assert await stranger.knock(shared.url, method, path) == 200, path


async def test_what_is_open_is_named_alike(shared: Running) -> None:
    named = {door for door in access_rules.PUBLIC if not PAGE.fullmatch(door[1])}
    assert named == OPEN
    assert {"/api/v1/stream"} == access_rules.AUTH_IN_FIRST_FRAME
    own = {(method, path) for method, path in access_rules.SESSION_ALLOWED if "{own}" not in path}
    assert {(method, path.replace("{message}", "x")) for method, path in own} == AGENTS
    below = {(method, path) for method, path in access_rules.SESSION_ALLOWED if "{own}" in path}
    assert below == {("GET", f"/api/v1/sessions/{{own}}{more}") for more in ("", "/events", "/messages")}


async def test_the_page_is_the_same_for_everybody(shared: Running, stranger: Stranger) -> None:
    paths = [path for method, path in every_door(all_routes(shared.hub)) if method == "GET" and PAGE.fullmatch(path)]
    async with stranger.client(shared.url) as client:
        for path in paths:
            own, foreign = await shared.client.get(path), await client.get(path)
            assert own.status_code == foreign.status_code, path
            assert own.status_code != 200 or own.content == foreign.content, path
            assert shared.token.encode() not in own.content


MESH = {
    ("GET", "/api/v1/me"),
    ("POST", "/api/v1/logout"),
    ("POST", "/api/v1/harness-hooks"),
    ("GET", "/mcp"),
    ("POST", "/mcp"),
    ("DELETE", "/mcp"),
    ("POST", "/mcp/delivered"),
}
"""All that the key of a harness on another machine opens."""


async def test_a_mesh_key_opens_the_mcp_server_and_nothing_else(shared: Running) -> None:
    _, key = await shared.hub.devices.add("mesh", "a laptop")
    opened: list[tuple[str, str, int]] = []
    async with caller(shared.url, key) as harness:
        for method, path in every_door(all_routes(shared.hub)):
            if method == WEBSOCKET or (method, path) in OPEN | MESH or (method == "GET" and PAGE.fullmatch(path)):
                continue
            if method == "POST" and path.startswith("/hooks/"):
                continue
            body: dict[str, str] | None = {} if method in ("POST", "PATCH") else None
            async with harness.stream(method, path, json=body) as reply:
                if reply.status_code != 403:
                    opened.append((method, path, reply.status_code))
        assert opened == []
        refused = await harness.get("/api/v1/sessions")
        assert refused.json()["detail"] == "a mesh's key is valid for the MCP server and hooks only"
    for path in ("/api/v1/stream", "/api/v1/link"):
        with pytest.raises((InvalidStatus, ConnectionClosed)):
            async with connect(
                f"ws{shared.url.removeprefix('http')}{path}", proxy=None, additional_headers=shared.headers(key)
            ) as socket:
                async with asyncio.timeout(10):
                    await socket.recv()
                    pytest.fail("it was let in")


A_TERMINALS_AGENT_MAY = {
    ("DELETE", "/api/v1/push/subscriptions/{subscription}"),
    ("DELETE", "/api/v1/sessions/{session}/prompts/{prompt}"),
    ("POST", "/api/v1/channels/{id}/test"),
    ("POST", "/api/v1/dead/drop"),
    ("POST", "/api/v1/dead/retry"),
    ("POST", "/api/v1/harness-hooks"),
    ("POST", "/api/v1/harness-plugins/{harness}/events"),
    ("POST", "/api/v1/harness-plugins/{harness}/handed-over"),
    ("POST", "/api/v1/harness-plugins/{harness}/sessions"),
    ("POST", "/api/v1/inboxes/{subject}/read"),
    ("POST", "/api/v1/login"),
    ("POST", "/api/v1/logout"),
    ("POST", "/api/v1/messages"),
    ("POST", "/api/v1/messages/ask"),
    ("POST", "/api/v1/nodes/{id}/agents/{name}/models"),
    ("POST", "/api/v1/nodes/{id}/refresh"),
    ("POST", "/api/v1/pair"),
    ("POST", "/api/v1/push/subscriptions"),
    ("POST", "/api/v1/push/test"),
    ("POST", "/api/v1/sessions"),
    ("POST", "/api/v1/sessions/{session}/abort"),
    ("POST", "/api/v1/sessions/{session}/close"),
    ("POST", "/api/v1/sessions/{session}/fork"),
    ("POST", "/api/v1/sessions/{session}/prompts"),
    ("POST", "/api/v1/sessions/{session}/prompts/{prompt}/move"),
    ("POST", "/api/v1/sessions/{session}/prompts/{prompt}/retry"),
    ("POST", "/api/v1/team-file"),
    ("POST", "/hooks/in/{channel}"),
    ("POST", "/mcp/delivered"),
}
"""What the agent in a person's terminal may change, as that person could: it decides nothing by it."""


async def test_whoever_adds_what_changes_something_says_whether_a_terminals_agent_may(shared: Running) -> None:
    changing = {
        (route.method, path)
        for route in all_routes(shared.hub)
        if isinstance(route, Operation) and route.method not in ("GET", "HEAD")
        for path in route.paths
    }
    person_only = {(method, path) for method, path in changing if access_rules.person_only(method, path)}
    assert changing - person_only == A_TERMINALS_AGENT_MAY
    assert len(person_only) == len([method for method, _ in access_rules.PERSON_ONLY if method != "GET"])


# --- the rules themselves ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method, path, needs",
    [
        (WEBSOCKET, "/api/v1/stream", "first frame"),
        (WEBSOCKET, "/api/v1/link", "node"),
        (WEBSOCKET, "/healthz", "device"),
        (WEBSOCKET, "/assets/a.js", "device"),
        ("GET", "/api/v1/stream", "device"),
        ("GET", "/api/v1/link", "device"),
        ("GET", "/healthz", "nothing"),
        ("POST", "/healthz", "device"),
        ("GET", "/assets/a.js", "nothing"),
        ("POST", "/assets/a.js", "device"),
        ("GET", "/assets", "device"),
        ("POST", "/hooks/in/x", "nothing"),
        ("GET", "/hooks/in/x", "device"),
        ("GET", "/api/v1/assets/a.js", "device"),
        ("GET", "/metrics", "device"),
    ],
)
async def test_what_a_request_needs(method: str, path: str, needs: str) -> None:
    assert access_rules.required_auth(method, path) == needs


@pytest.mark.parametrize(
    "path, ambiguous",
    [
        ("/", False),
        ("/api/v1/me", False),
        ("/s/a.b/..c", False),
        ("/s/...", False),
        ("/s/ü", False),
        ("//", True),
        ("/a//b", True),
        ("/a/.", True),
        ("/a/./b", True),
        ("/a/..", True),
        ("/a/../b", True),
        ("/a\\b", True),
        ("/a\x00", True),
        ("/a\nb", True),
        ("/a\x7f", True),
    ],
)
async def test_a_path_that_could_be_read_in_two_ways(path: str, ambiguous: bool) -> None:
    assert access_rules.is_ambiguous(path) is ambiguous


async def test_a_sessions_process_reads_its_own_session_only() -> None:
    allowed = access_rules.session_allowed
    for more in ("", "/events", "/messages"):
        assert allowed("GET", f"/api/v1/sessions/mine{more}", "mine")
        assert not allowed("GET", f"/api/v1/sessions/other{more}", "mine")
        assert not allowed("POST", f"/api/v1/sessions/mine{more}", "mine")
        assert not allowed("GET", f"/api/v1/sessions/mine{more}/x", "mine")
    assert not allowed("GET", "/api/v1/sessions", "mine")
    assert not allowed("GET", "/api/v1/sessions/", "mine")
    assert allowed("GET", "/api/v1/messages/any", "mine") and not allowed("GET", "/api/v1/messages/any/trace", "mine")
    assert allowed("POST", "/api/v1/messages", "mine") and not allowed("GET", "/api/v1/messages", "mine")
    assert not allowed("GET", "/api/v1/sessions/{own}", "mine")


async def test_what_only_people_do_is_found_whatever_it_is_about() -> None:
    for method, template in access_rules.PERSON_ONLY:
        path = re.sub(r"\{[^}]*\}", "x", template)
        assert access_rules.person_only(method, path), path
        assert not access_rules.person_only("PUT", path)
        assert not access_rules.person_only(method, f"/x{path}")
        lasting = (method, template) in access_rules.TERMINAL_ONLY
        assert access_rules.terminal_only(method, path) == lasting
        assert not access_rules.terminal_only("PUT", path)
    assert set(access_rules.PERSON_ONLY) >= access_rules.TERMINAL_ONLY
    assert not access_rules.person_only("GET", "/api/v1/sessions/x")


async def test_how_large_a_body_may_be_and_how_long_it_may_take() -> None:
    rules, limits = access_rules, access_rules.body_limits
    for path in (
        "/api/v1/sessions",
        "/api/v1/sessions/x/prompts",
        "/api/v1/sessions/x/prompts/y",
        "/api/v1/schedules",
    ):
        assert limits(path) == (rules.MAX_PROMPT_BODY, rules.PROMPT_BODY_S), path
    for path in ("/mcp", "/api/v1/harness-hooks", "/api/v1/harness-plugins/x/events"):
        assert limits(path) == (rules.MAX_MCP_BODY, rules.PROMPT_BODY_S), path
    for path in (
        "/api/v1/login",
        "/api/v1/messages",
        "/api/v1/sessions/x",
        "/api/v1/sessions/x/prompts/y/move",
        "/api/v1/schedules/x",
        "/mcp/delivered",
        "/x/api/v1/sessions",
    ):
        assert limits(path) == (rules.MAX_BODY, rules.BODY_S), path
    for path in ("/api/v1/login", "/api/v1/pair"):
        assert limits(path, stranger=True) == (rules.MAX_SECRET_BODY, rules.UNAUTHENTICATED_BODY_S)
    for path in ("/hooks/in/x", "/api/v1/sessions", "/mcp"):
        assert limits(path, stranger=True) == (rules.MAX_BODY, rules.UNAUTHENTICATED_BODY_S), "a stranger's are small"
    assert rules.MAX_SECRET_BODY < rules.MAX_BODY < rules.MAX_PROMPT_BODY


async def test_how_long_a_response_may_take() -> None:
    assert access_rules.response_limit("/api/v1/harness-plugins/x/events") == access_rules.PLUGIN_EVENTS_S
    for path in ("/api/v1/harness-plugins/x/sessions", "/api/v1/sessions/x/events", "/api/v1/me"):
        assert access_rules.response_limit(path) == access_rules.RESPONSE_S
