"""The gate: Host, Origin, tokens, on HTTP and on upgrades."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.hub.conftest import Running, caller, running
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tieline.config import HubConfig
from tieline.hub.http.problems import RequestRefused
from tieline.hub.http.request_context import RequestContext
from tieline.hub.http.response_writer import SECURITY_HEADERS
from tieline.hub.security import access_rules, middleware
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

ME = "/api/v1/me"


async def upgrade(hub: Running, path: str, headers: dict[str, str]) -> int:
    """The status of an upgrade: 101 when the door opened."""
    try:
        async with connect(
            f"ws{hub.url.removeprefix('http')}{path}", additional_headers=headers, proxy=None, open_timeout=30
        ):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


async def log_in(hub: Running) -> str:
    """A page's key."""
    offer = (await hub.client.post("/api/v1/pairings", json={"kind": "page"})).json()
    reply = await hub.client.post("/api/v1/login", json={"secret": offer["secret"]}, headers={"Authorization": ""})
    assert reply.status_code == 200, reply.text
    return reply.json()["key"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8137", "127.0.0.1.evil.example", "", "localhost@evil"])
async def test_a_name_that_was_made_to_point_here_is_refused(shared: Running, host: str) -> None:
    reply = await shared.client.get(ME, headers={"Host": host})
    assert reply.status_code in (400, 403), reply.text
    if host:
        assert reply.json()["field"] == "Host"
    assert await upgrade(shared, "/api/v1/stream", {**shared.headers(), "Host": host or "x"}) in (400, 403)


async def test_an_open_connection_does_not_keep_the_body_of_its_last_request(
    shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts: list[RequestContext] = []
    note = shared.hub.note

    def noted(context: RequestContext, *more: Any) -> None:
        assert context.body
        contexts.append(context)
        note(context, *more)

    monkeypatch.setattr(shared.hub, "note", noted)
    reply = await shared.client.post("/api/v1/messages", json={"to": "relay.user.x", "text": "long " * 1000})
    assert reply.status_code in (201, 503), reply.text
    (context,) = contexts
    await eventually(lambda: not context.body, "it is kept")


async def test_our_own_names_are_fine(shared: Running) -> None:
    for host in (
        "localhost",
        f"localhost:{shared.serving.port}",
        "127.0.0.1:1",
        "[::1]:8137",
        "LOCALHOST.",
        "127.0.0.1",
    ):
        reply = await shared.client.get(ME, headers={"Host": host})
        assert reply.status_code == 200, (host, reply.text)


async def test_further_names_and_origins_are_configured(tmp_path: Path) -> None:
    config = HubConfig(hosts=("box.lan",), origins=("https://tools.example",), public_url="https://hub.example")
    async with running(tmp_path, config=config) as hub:
        for host in ("box.lan:8137", "hub.example"):
            assert (await hub.client.get(ME, headers={"Host": host})).status_code == 200
        reply = await hub.client.get(ME, headers={"Origin": "https://tools.example"})
        assert reply.status_code == 200
        assert reply.headers["access-control-allow-origin"] == "https://tools.example"
        assert "access-control-allow-credentials" not in reply.headers
        assert (await hub.client.get(ME, headers={"Origin": "https://hub.example"})).status_code == 200
        asked = {"Origin": "https://tools.example", "Access-Control-Request-Method": "POST", "Authorization": ""}
        preflight = await hub.client.request("OPTIONS", "/api/v1/sessions", headers=asked)
        assert preflight.status_code == 204
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        refused = await hub.client.request(
            "OPTIONS", "/api/v1/sessions", headers={**asked, "Origin": "https://x.example"}
        )
        assert refused.status_code == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1"])
async def test_another_sites_page_is_refused(shared: Running, origin: str) -> None:
    for method in ("GET", "POST"):
        reply = await shared.client.request(method, "/api/v1/sessions", headers={"Origin": origin})
        assert (reply.status_code, reply.json()["field"]) == (403, "Origin")
    assert await upgrade(shared, "/api/v1/stream", {**shared.headers(), "Origin": origin}) == 403


async def test_our_own_page_is_fine(shared: Running) -> None:
    assert (await shared.client.get(ME, headers={"Origin": shared.url})).status_code == 200
    assert await upgrade(shared, "/api/v1/stream", {"Origin": shared.url}) == 101
    assert await upgrade(shared, "/api/v1/stream", {}) == 101  # not a browser


async def test_another_sites_page_cannot_embed_what_it_may_not_read(shared: Running) -> None:
    for site in ("cross-site", "same-site"):  # another port of this machine is the same site
        embedded = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
        refused = await shared.client.get("/healthz", headers=embedded)
        assert refused.status_code == 403
        problem = refused.json()
        assert problem["detail"] == "cross-site request is not allowed" and "hint" not in problem
    own = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
    assert (await shared.client.get("/healthz", headers=own)).status_code == 200
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert (await shared.client.get("/healthz", headers=followed)).status_code == 200


async def test_a_token_always_and_never_in_the_query(shared: Running) -> None:
    async with caller(shared.url) as stranger:
        for where in (ME, "/api/v1/sessions", "/metrics", "/api/v1/audit", "/api/v1/devices", "/api/v1/none"):
            reply = await stranger.get(where)
            assert reply.status_code == 401, where
            assert reply.headers["www-authenticate"].startswith("Bearer")
            assert reply.headers["content-type"] == "application/problem+json"
            assert (await stranger.get(where, headers={"Authorization": "Bearer tl_wrong"})).status_code == 401
            for name in ("token", "access_token", "key", "authorization"):
                asked = await stranger.get(where, params={name: shared.token})
                assert asked.status_code == 401, name
    assert await upgrade(shared, f"/api/v1/link?token={shared.token}", {}) == 401
    assert await upgrade(shared, "/api/v1/none", {}) == 401
    basic = {"Authorization": f"Basic {shared.token}"}
    assert (await shared.client.get(ME, headers=basic)).status_code == 401
    for wrong in ("", "Bearer tl_wrong"):  # who says a key is whose key it is, also on the owner's socket
        assert (await shared.client.get(ME, headers={"Authorization": wrong})).status_code == 401


async def test_only_a_node_links(shared: Running) -> None:
    for kind in ("client", "page", "mesh"):
        _, key = await shared.hub.devices.add(kind, kind)
        assert await upgrade(shared, "/api/v1/link", shared.headers(key)) == 403, kind
    _, key = await shared.hub.devices.add("node", "a node", node="n")
    assert await upgrade(shared, "/api/v1/link", shared.headers(key)) == 101


async def test_a_header_that_counts_is_there_once(shared: Running) -> None:
    twice = [("Host", "localhost"), ("Authorization", f"Bearer {shared.token}"), ("Authorization", "Bearer x")]
    reader, writer = await asyncio.open_connection("127.0.0.1", shared.serving.port)
    lines = "".join(f"{name}: {value}\r\n" for name, value in twice)
    writer.write(f"GET {ME} HTTP/1.1\r\n{lines}\r\n".encode())
    async with asyncio.timeout(30):
        head = await reader.readuntil(b"\r\n")
    writer.close()
    await writer.wait_closed()
    assert b" 400 " in head


@pytest.mark.parametrize("in_chunks", [False, True])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_body_is_bounded_whatever_the_method_and_however_it_comes(
    shared: Running, method: str, in_chunks: bool
) -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        for _ in range(5):
            yield bytes(access_rules.MAX_BODY // 4)

    content = chunks() if in_chunks else bytes(access_rules.MAX_BODY + 1)
    reply = await shared.client.request(method, ME, content=content)
    assert (reply.status_code, reply.json()["code"]) == (413, "BodyTooLarge")
    reply = await shared.client.request(method, ME, content=bytes(access_rules.MAX_BODY))
    assert reply.status_code != 413


async def test_a_body_that_does_not_come_whole_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_rules, "UNAUTHENTICATED_BODY_S", 0.05)
    read_body = middleware._read_body  # pyright: ignore[reportPrivateUsage]

    async def read(*messages: dict[str, Any]) -> bytes:
        left = list(messages)

        async def receive() -> Any:
            return left.pop(0) if left else await asyncio.Event().wait()

        return await read_body(RequestContext(path=ME), receive)

    part = {"type": "http.request", "body": b"a", "more_body": True}
    assert await read(part, {"type": "http.request"}) == b"a"
    for messages, why in (
        ((part, {"type": "http.disconnect"}), "closed in the middle"),
        ((part,), "did not arrive within 0.05 seconds"),
    ):
        with pytest.raises(RequestRefused, match=why) as refused:
            await read(*messages)
        assert refused.value.code == "SlowRequest"


async def test_the_application_gets_the_body_that_was_read_whole_and_then_what_comes() -> None:
    async def receive() -> Any:
        return {"type": "http.disconnect"}

    replayed = middleware._replay(b"body", receive)  # pyright: ignore[reportPrivateUsage]
    assert await replayed() == {"type": "http.request", "body": b"body", "more_body": False}
    assert [await replayed() for _ in range(2)] == [{"type": "http.disconnect"}] * 2


async def test_paths_that_can_be_read_in_two_ways_are_nobodys(shared: Running) -> None:
    for path in ("/assets/../api/v1/me", "/assets/%2e%2e/api/v1/me", "/api//v1/me", "/assets/..%5cme", "/assets/%00"):
        reader, writer = await asyncio.open_connection("127.0.0.1", shared.serving.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        async with asyncio.timeout(30):
            head = await reader.readuntil(b"\r\n")
        writer.close()
        await writer.wait_closed()
        assert b" 400 " in head, path


async def test_every_answer_keeps_browsers_on_their_guard(shared: Running) -> None:
    for path in ("/healthz", ME, "/api/v1/none", "/api/v1/docs"):
        reply = await shared.client.get(path)
        for name, value in SECURITY_HEADERS:
            assert reply.headers[name.decode()] == value.decode(), path
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    refused = await shared.client.get(ME, headers={"Authorization": ""})
    assert refused.headers["x-content-type-options"] == "nosniff"
    assert refused.headers["cache-control"] == "no-store"
    assert "server" not in refused.headers


async def test_a_cookie_opens_nothing(shared: Running) -> None:
    """Whatever a browser sends by itself is nobody's word."""
    key = await log_in(shared)
    cookies = {"Cookie": f"tieline-{shared.serving.port}={key}; tieline={key}; key={key}"}
    async with caller(shared.url) as browser:
        assert (await browser.get(ME, headers=cookies)).status_code == 401
        reply = await browser.get(ME, headers={"Authorization": f"Bearer {key}"})
        assert (reply.status_code, reply.json()["device"]["kind"]) == (200, "page")
        assert "set-cookie" not in reply.headers
    assert await upgrade(shared, "/api/v1/link", {**cookies, "Origin": shared.url}) == 401


async def test_over_tls_a_name_of_ours_is_for_tls_only(tmp_path: Path) -> None:
    async with running(tmp_path, config=HubConfig(public_url="https://hub.example")) as hub:
        reply = await hub.client.get("/healthz", headers={"Host": "hub.example"})
        assert reply.headers["strict-transport-security"] == "max-age=31536000"
        refused = await hub.client.get(ME, headers={"Host": "hub.example", "Authorization": "Bearer wrong"})
        assert refused.status_code == 401 and "strict-transport-security" in refused.headers
        here = await hub.client.get("/healthz")  # by loopback's name: other things run on this machine
        assert "strict-transport-security" not in here.headers
