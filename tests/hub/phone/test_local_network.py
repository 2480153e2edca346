"""The real local network of this machine: the hub by TLS, for whoever trusts our authority."""

import asyncio
import ipaddress
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx2 as httpx
import msgspec
import pytest
from tests.hub.phone.conftest import needs_network, with_phone

from tieline.hub.phone import local_network
from tieline.hub.phone.lan_addresses import is_own, lan_addresses
from tieline.hub.phone.local_network import parse_address
from tieline.protocol.phone import PhoneStatus
from tieline.testing.wait_for import eventually

pytestmark = needs_network

LAN = {"way": "lan"}


def phone_client(folder: Path, status: PhoneStatus) -> httpx.AsyncClient:
    """A phone that trusts the authority, and no other."""
    context = ssl.create_default_context(cafile=folder / "state" / "phone" / "authority.pem")
    return httpx.AsyncClient(base_url=status.url, verify=context, timeout=30.0, trust_env=False)


async def set_up(client: httpx.AsyncClient, **body: object) -> PhoneStatus:
    reply = await client.post("/api/v1/phone", json={**LAN, **body})
    assert reply.status_code == 200, reply.text
    return msgspec.json.decode(reply.content, type=PhoneStatus)


async def test_a_phone_that_trusts_the_authority_pairs_over_tls(tmp_path: Path) -> None:
    async with with_phone(tmp_path) as (hub, _):
        status = await set_up(hub.client)
        assert status.state == "on" and status.check is not None and status.check.ok, status
        assert not status.url.startswith("https://127.")
        offer = (await hub.client.post("/api/v1/pairings", json={"kind": "page"})).json()
        assert offer["url"].startswith(f"{status.url}/#login=") and offer["qr"] and not offer["here_only"]
        node = (await hub.client.post("/api/v1/pairings", json={"kind": "node"})).json()
        assert node["url"].startswith(hub.url), "a node does not trust the phones' authority"
        async with phone_client(tmp_path, status) as phone:
            origin = {"Origin": status.url}
            response = await phone.post("/api/v1/login", json={"secret": offer["secret"]}, headers=origin)
            assert response.status_code == 200 and response.json()["url"] == status.url
            assert "strict-transport-security" not in response.headers, "this machine's name is of other servers too"
            key = {"Authorization": f"Bearer {response.json()['key']}"}
            assert (await phone.get("/api/v1/sessions", headers=key)).status_code == 200
            assert (await phone.get("/api/v1/sessions")).status_code == 401
            foreign = await phone.get("/healthz", headers={"Origin": "https://evil.test"})
            assert foreign.status_code == 403
            rebound = await phone.get("/healthz", headers={"Host": "evil.test"})
            assert rebound.status_code == 403


async def test_a_phone_that_does_not_trust_it_is_refused_by_its_own_tls(tmp_path: Path) -> None:
    async with with_phone(tmp_path) as (hub, _):
        status = await set_up(hub.client)
        async with httpx.AsyncClient(verify=ssl.create_default_context(), trust_env=False) as client:
            with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
                await client.get(f"{status.url}/healthz")
        parts = urlsplit(status.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(30):
            assert b"HTTP" not in await reader.read(), "what is not TLS gets no answer"
        writer.close()


async def test_the_page_with_the_certificate_is_beside_it(tmp_path: Path) -> None:
    async with with_phone(tmp_path) as (hub, _):
        status = await set_up(hub.client)
        async with httpx.AsyncClient(trust_env=False) as client:
            given = await client.get(f"{status.trust_url}/tieline.crt")
            page = await client.get(status.trust_url)
            assert (await client.get(f"{status.trust_url}/api/v1/me")).status_code == 404
        root = (tmp_path / "state" / "phone" / "authority.pem").read_text()
        assert given.content == ssl.PEM_cert_to_DER_cert(root)
        assert status.fingerprint in page.text and len(status.fingerprint) == 95


async def test_off_closes_it_at_once_with_its_connections(tmp_path: Path) -> None:
    async with with_phone(tmp_path) as (hub, _):
        status = await set_up(hub.client)
        parts = urlsplit(status.url)
        context = ssl.create_default_context(cafile=tmp_path / "state" / "phone" / "authority.pem")
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=context)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n" % parts.netloc.encode())
        assert b"200" in await reader.readline()
        assert (await hub.client.delete("/api/v1/phone")).status_code == 204
        async with asyncio.timeout(30):
            while await reader.read(65536):
                pass
        writer.close()
        for url in (status.url, status.trust_url):
            closed = urlsplit(url)
            with socket.socket() as probe:
                assert probe.connect_ex((closed.hostname, closed.port)) != 0
        assert (await hub.client.get("/api/v1/phone")).json()["state"] == "off"
        assert (await hub.client.get("/healthz")).status_code == 200
    assert not (tmp_path / "state" / "phone" / "way.json").exists()


@pytest.mark.slow
async def test_a_phone_may_close_the_way_that_it_came_by(tmp_path: Path) -> None:
    """The answer may be lost with the connection, but not the change."""
    async with with_phone(tmp_path) as (hub, access):
        status = await set_up(hub.client)
        async with phone_client(tmp_path, status) as phone:
            with suppress(httpx.TransportError):
                await phone.delete("/api/v1/phone", headers=hub.headers())
        await eventually(lambda: access.status().state == "off" and not access.url, "it is still on")
        with pytest.raises(Exception, match="unknown host"):
            hub.hub.origins.check_host(urlsplit(status.other_urls[0]).netloc if status.other_urls else "x", {})


async def test_it_comes_back_with_the_hub_at_the_same_address(tmp_path: Path) -> None:
    async with with_phone(tmp_path) as (hub, _):
        before = await set_up(hub.client)
    async with with_phone(tmp_path) as (hub, access):
        await eventually(lambda: access.url == before.url, "it did not come back")
        assert access.status().fingerprint == before.fingerprint
        assert not access.status().trust_url, "the page without TLS is open only when a person asks for it"
        async with phone_client(tmp_path, before) as phone:
            assert (await phone.get("/healthz")).status_code == 200


async def test_the_same_again_leaves_connections_alone(tmp_path: Path) -> None:
    async with with_phone(tmp_path) as (hub, _):
        first = await set_up(hub.client)
        async with phone_client(tmp_path, first) as phone:
            await phone.get("/healthz")
            again = await set_up(hub.client)
            assert (again.url, again.fingerprint) == (first.url, first.fingerprint) and again.trust_url
            assert (await phone.get("/healthz")).status_code == 200


async def test_when_the_address_changes_it_moves_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's old address is played: 127.0.0.9, which is then taken away. The new one is its real address."""
    old, gone = ipaddress.ip_address("127.0.0.9"), asyncio.Event()
    real = lan_addresses()
    monkeypatch.setattr(local_network, "LOOK_S", 0.05)
    monkeypatch.setattr(local_network, "lan_addresses", lambda: real if gone.is_set() else [old])

    def has(address: local_network.IpAddress) -> bool:
        return is_own(address) and not (gone.is_set() and address == old)

    def covers(address: local_network.IpAddress) -> bool:
        return True

    monkeypatch.setattr(local_network, "is_own", has)
    async with with_phone(tmp_path) as (_, access):
        authority = await local_network.LocalAuthority.open(tmp_path / "state" / "phone", real[0], replace=True)
        reached: list[local_network.WayStatus] = []

        async def source(address: local_network.IpAddress) -> local_network.LocalAuthority:
            return authority

        monkeypatch.setattr(authority, "covers", covers)
        port = local_network.choose_port(real[0], 0)
        app = access._app  # pyright: ignore[reportPrivateUsage]
        task = asyncio.create_task(local_network.run_local_network(app, source, "", port, reached.append))
        try:
            await eventually(lambda: bool(reached), "nothing was reported")
            assert reached[0].urls[0] == f"https://127.0.0.9:{port}"
            gone.set()
            await eventually(lambda: len(reached) > 1, "it did not move")
            assert reached[1].urls[0] == local_network.url_of(real[0], port)
            context = ssl.create_default_context(cadata=authority.authority)
            async with httpx.AsyncClient(verify=context, trust_env=False) as client:
                assert (await client.get(f"{reached[1].urls[0]}/healthz")).status_code == 200
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_a_certificate_is_replaced_while_connections_stay_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_network, "LOOK_S", 0.05)
    due = asyncio.Event()

    def is_due(self: local_network.LocalAuthority) -> bool:
        return due.is_set()

    monkeypatch.setattr(local_network.LocalAuthority, "is_due", is_due)
    async with with_phone(tmp_path) as (hub, _):
        status = await set_up(hub.client)
        parts = urlsplit(status.url)
        context = ssl.create_default_context(cafile=tmp_path / "state" / "phone" / "authority.pem")

        async def serial() -> str:
            _, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=context)
            serial_number = writer.get_extra_info("peercert")["serialNumber"]
            writer.close()
            return serial_number

        first = await serial()
        async with phone_client(tmp_path, status) as phone:
            await phone.get("/healthz")
            due.set()
            async with asyncio.timeout(30):
                while await serial() == first:
                    pass
            assert (await phone.get("/healthz")).status_code == 200


async def test_a_port_that_is_taken(tmp_path: Path) -> None:
    address = str(lan_addresses()[0])
    async with with_phone(tmp_path) as (hub, _):
        with socket.socket() as other:
            other.bind((address, hub.serving.port))
            other.listen()
            status = await set_up(hub.client)
            assert urlsplit(status.url).port not in (None, hub.serving.port)
            asked = await hub.client.post("/api/v1/phone", json={**LAN, "port": hub.serving.port})
            assert asked.status_code in (200, 409)
            assert asked.status_code == 409 or asked.json()["state"] == "failed"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1", "phones cannot reach"),
        ("0.0.0.0", "phones cannot reach"),
        ("x/../y", "no IP"),
        ("203.0.113.77", "not an address of"),
    ],
)
def test_an_address_is_one_of_this_machines(address: str, why: str) -> None:
    with pytest.raises(Exception, match=why):
        parse_address(address)
