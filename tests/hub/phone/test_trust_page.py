"""The page with the certificate gives that, explains it, and nothing else."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2 as httpx
import pytest
from tests.hub.phone.conftest import with_phone

from tieline.hub.http.server import bind, serve_at
from tieline.hub.phone.trust_page import TrustPage, fingerprint

CERTIFICATE = b"\x30\x03abc"


async def answer(method: str, path: str) -> httpx.Response:
    page = TrustPage(CERTIFICATE, hub="https://192.0.2.7:8137", authority="Tieline on <box>", machine="<box>")
    async with (
        serve_at(page, bind("127.0.0.1", 0, tls=False, insecure=False), tls=None) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30.0) as client,
    ):
        return await client.request(method, path)


async def test_it_gives_the_certificate_as_phones_expect_it() -> None:
    response = await answer("GET", "/tieline.crt")
    assert (response.status_code, response.content) == (200, CERTIFICATE)
    assert response.headers["content-type"] == "application/x-x509-ca-cert"


async def test_it_explains_and_shows_the_fingerprint() -> None:
    response = await answer("GET", "/")
    for words in ("iPhone", "Android", "Certificate Trust Settings", "CA certificate", fingerprint(CERTIFICATE)):
        assert words in response.text
    assert "<box>" not in response.text and "&lt;box&gt;" in response.text
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src" not in policy and "unsafe" not in policy
    assert "<script" not in response.text and "https://192.0.2.7:8137" in response.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/me", 404),
        ("GET", "/healthz", 404),
        ("POST", "/", 405),
        ("HEAD", "/", 200),
        ("DELETE", "/x", 405),
    ],
)
async def test_nothing_of_the_hub_is_behind_it(method: str, path: str, status: int) -> None:
    response = await answer(method, path)
    assert response.status_code == status
    assert method != "HEAD" or not response.content


async def test_its_connections_end_with_it() -> None:
    page = TrustPage(CERTIFICATE, hub="https://192.0.2.7:8137", authority="a", machine="m")
    async with serve_at(page, bind("127.0.0.1", 0, tls=False, insecure=False), tls=None) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    async with asyncio.timeout(30):
        await reader.read()
    writer.close()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


async def test_whoever_waits_for_the_page_may_go_while_it_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, may_open, opened = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slow_page() -> AsyncGenerator[str]:
        begun.set()
        await may_open.wait()
        opened.set()
        yield "http://127.0.0.1:1"

    async with with_phone(tmp_path) as (_, phone):
        monkeypatch.setattr(phone, "_trust_page", slow_page)
        waiting = asyncio.create_task(phone._open_trust_page())  # pyright: ignore[reportPrivateUsage]
        async with asyncio.timeout(30):
            await begun.wait()
            waiting.cancel()
            await asyncio.wait((waiting,))
            may_open.set()
            await opened.wait()
    assert "phone-trust-page failed" not in caplog.text
