"""Only the hub's own machine opens it to others. Played by an attacker who holds a paired phone, or its key."""

from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest
from tests.hub.conftest import Running
from tests.hub.phone.conftest import needs_network, with_phone
from tests.hub.phone.test_local_network import phone_client, set_up

from tieline.config import HubConfig
from tieline.hub.phone.phone_access import PhoneAccess
from tieline.protocol.phone import PhoneWayName

TUNNEL = "https://board.tail1234.ts.net"
OPENED = ("tailscale", "lan", "mkcert", "cloudflare", "ngrok")
TOLD = ("configured", "ssh")
ELSEWHERE = {
    "the tunnel's own name": {"Host": "board.tail1234.ts.net", "Origin": TUNNEL},
    "the name of loopback, written by hand": {"Host": "localhost", "X-Forwarded-For": "100.64.0.9"},
    "the same with its port": {"Host": "127.0.0.1:8137", "X-Forwarded-Host": "board.tail1234.ts.net"},
    "a tailnet's user": {"Host": "localhost", "Tailscale-User-Login": "ann@example.com"},
    "cloudflare": {"Host": "localhost", "Cf-Connecting-Ip": "203.0.113.9"},
    "the standard's header": {"Host": "localhost", "Forwarded": "for=203.0.113.9"},
    "a proxy's": {"Host": "localhost", "Via": "1.1 proxy"},
    "nginx's": {"Host": "localhost", "X-Real-Ip": "203.0.113.9"},
}


def at(hub: Running) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=hub.url, timeout=30.0, trust_env=False)


async def phone_of(hub: Running) -> dict[str, str]:
    _, key = await hub.hub.devices.add("page", "phone")
    return {"Authorization": f"Bearer {key}"}


async def refused(
    client: httpx.AsyncClient, access: PhoneAccess, headers: dict[str, str], way: str, state: str = "off"
) -> None:
    reply = await client.post("/api/v1/phone", json={"way": way}, headers=headers)
    assert reply.status_code == 403, (way, headers, reply.text)
    assert "only the hub's own machine" in reply.json()["detail"], reply.text
    assert access.status().state == state


def test_every_way_is_one_of_these() -> None:
    assert set(OPENED) | set(TOLD) == set(get_args(PhoneWayName))


@pytest.mark.parametrize("case", ELSEWHERE)
async def test_not_through_a_tunnel(tmp_path: Path, case: str) -> None:
    async with with_phone(tmp_path) as (hub, access):
        hub.hub.origins.set_phone([TUNNEL])
        headers = {**await phone_of(hub), **ELSEWHERE[case]}
        async with at(hub) as client:
            assert (await client.get("/api/v1/phone", headers=headers)).status_code == 200, "it is let in"
            for way in OPENED:
                await refused(client, access, headers, way)
            assert (await client.post("/api/v1/phone", json={"way": "ssh"}, headers=headers)).status_code == 200


@needs_network
async def test_not_from_another_address_whatever_it_says(tmp_path: Path) -> None:
    async with with_phone(tmp_path) as (hub, access):
        status = await set_up(hub.client)
        async with phone_client(tmp_path, status) as phone:
            for host in ("localhost", f"127.0.0.1:{hub.serving.port}", urlsplit(status.url).netloc):
                headers = {**await phone_of(hub), "Host": host}
                await refused(phone, access, headers, "ngrok", state="on")
        assert access.status().way == "lan"


@pytest.mark.parametrize(
    "config", [HubConfig(public_url="https://hub.example.com"), HubConfig(hosts=("hub.example.com",))]
)
async def test_not_through_a_proxy_that_says_nothing(tmp_path: Path, config: HubConfig) -> None:
    """As nginx passes requests on when nobody tells it more: from loopback, to loopback's name."""
    async with with_phone(tmp_path, config=config) as (hub, access), at(hub) as client:
        await refused(client, access, await phone_of(hub), "lan")


async def test_the_page_on_the_hubs_machine_may(tmp_path: Path) -> None:
    """It is refused for another reason: no such program is there."""
    async with with_phone(tmp_path) as (hub, _):
        hub.env["PATH"] = str(tmp_path)  # type: ignore[index]
        key = await phone_of(hub)
        async with at(hub) as client:
            port = hub.serving.port
            for host in ("localhost", "127.0.0.1", "[::1]"):
                headers = {**key, "Host": f"{host}:{port}", "Origin": f"http://{host}:{port}"}
                reply = await client.post("/api/v1/phone", json={"way": "ngrok"}, headers=headers)
                assert reply.status_code == 409, reply.text
