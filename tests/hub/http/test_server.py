"""The listening socket: loopback, or TLS, or a word that it may be without."""

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import httpx2 as httpx
import pytest
from tests.hub.certificates import certificate
from tests.hub.conftest import caller, running

from tieline.config import HubConfig
from tieline.errors import UsageError
from tieline.hub.http.server import ServerAddress, bind, serve


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1"])
def test_beyond_loopback_only_with_tls_or_when_it_is_said(host: str) -> None:
    with pytest.raises(UsageError) as refused:
        bind(host, 0, tls=False, insecure=False)
    assert refused.value.field == "hub.host"
    assert "--insecure" in refused.value.hint


@pytest.mark.parametrize(("tls", "insecure"), [(True, False), (False, True)])
def test_with_either_it_listens(tls: bool, insecure: bool) -> None:
    bound = bind("0.0.0.0", 0, tls=tls, insecure=insecure)
    assert bound.getsockname()[1] > 0
    bound.close()


def test_a_name_that_only_looks_like_ours_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", elsewhere)
    with pytest.raises(UsageError, match="not a loopback address"):
        bind("localhost", 0, tls=False, insecure=False)


def test_a_taken_port_is_said() -> None:
    bound = bind("127.0.0.1", 0, tls=False, insecure=False)
    bound.listen()
    with pytest.raises(UsageError) as refused:
        bind("127.0.0.1", bound.getsockname()[1], tls=False, insecure=False)
    assert refused.value.field == "hub.port"
    bound.close()


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(UsageError, match=f"there is no port {port}") as refused:
        bind("127.0.0.1", port, tls=False, insecure=False)
    assert refused.value.field == "hub.port"


def test_addresses() -> None:
    assert ServerAddress(host="0.0.0.0", port=1, tls=False).url == "http://127.0.0.1:1"
    assert ServerAddress(host="::1", port=1, tls=True).url == "https://[::1]:1"


async def nothing(scope: object, receive: object, send: object) -> None: ...


async def test_the_hub_refuses_too() -> None:
    with pytest.raises(UsageError):
        async with serve(nothing, host="0.0.0.0", config=HubConfig()):
            pass


async def test_over_tls_origins_are_https_and_loopback_is_not_held_to_it(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    async with running(tmp_path, config=HubConfig(tls_certificate=str(cert), tls_key=str(key))) as hub:
        assert hub.url.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(cert))
        async with httpx.AsyncClient(base_url=hub.url, headers=hub.headers(), verify=trusted, timeout=30.0) as client:
            offer = (await client.post("/api/v1/pairings", json={"kind": "page"})).json()
            assert offer["url"].startswith(hub.url)
            reply = await client.post("/api/v1/login", json={"secret": offer["secret"]})
            assert reply.status_code == 200 and "strict-transport-security" not in reply.headers
            assert (await client.get("/api/v1/me", headers={"Origin": hub.url})).status_code == 200
            plain = hub.url.replace("https", "http")
            assert (await client.get("/api/v1/me", headers={"Origin": plain})).status_code == 403

    async with serve(nothing, config=HubConfig(tls_certificate=str(cert), tls_key=str(key)), head_s=0.2) as serving:
        reader, writer = await asyncio.open_connection("127.0.0.1", serving.port)
        async with asyncio.timeout(30):  # a handshake that is not begun ends like a request that does not come
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        writer.close()


async def test_it_answers_by_the_address_that_was_dialled(tmp_path: Path) -> None:
    config = HubConfig(host="0.0.0.0", insecure=True)
    async with running(tmp_path, config=config) as hub:
        name = socket.gethostname()
        async with caller(hub.url, hub.token) as client:
            assert (await client.get("/api/v1/me", headers={"Host": name})).status_code == 200
            assert (await client.get("/api/v1/me", headers={"Host": "10.9.8.7"})).status_code == 403
