"""Logging in, pairing, devices: single use, expiring, hashed, revocable at once."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2 as httpx
import msgspec
import pytest
from tests.hub.conftest import Running, caller, running
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tieline.bus import open_bus
from tieline.config import HubConfig
from tieline.hub import devices as devices_module
from tieline.hub.devices import Devices, PairingRecord, hashed
from tieline.hub.rates import Rates
from tieline.protocol.frames import Authenticate, Subscribe, encode
from tieline.testing.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


def anonymous(hub: Running) -> httpx.AsyncClient:
    return caller(hub.url)


async def offer(hub: Running, kind: str, name: str = "") -> dict[str, Any]:
    reply = await hub.client.post("/api/v1/pairings", json={"kind": kind, "name": name})
    assert reply.status_code == 201, reply.text
    return reply.json()


async def paired(hub: Running, kind: str = "client", **more: str) -> dict[str, Any]:
    secret = (await offer(hub, kind))["secret"]
    async with anonymous(hub) as stranger:
        reply = await stranger.post("/api/v1/pair", json={"secret": secret, **more})
    assert reply.status_code == 201, reply.text
    return reply.json()


async def test_login_by_a_link_that_works_once(shared: Running) -> None:
    made = await offer(shared, "page", "my phone")
    assert made["url"] == f"{shared.url}/#login={made['secret']}"
    async with anonymous(shared) as browser:
        reply = await browser.post("/api/v1/login", json={"secret": made["secret"]})
        assert reply.status_code == 200
        said = reply.headers["set-cookie"].split("; ")
        assert said[0].startswith(f"tieline-{shared.serving.port}=tl_")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(said)
        assert "Secure" not in said  # plain HTTP on loopback
        assert reply.json()["device"]["name"] == "my phone"
        again = await browser.post("/api/v1/login", json={"secret": made["secret"]}, headers={"Cookie": ""})
        assert (again.status_code, again.json()["field"]) == (401, "secret")


async def test_the_cookie_is_secure_behind_tls(tmp_path: Path) -> None:
    async with running(tmp_path, config=HubConfig(public_url="https://hub.example")) as hub:
        made = await offer(hub, "page")
        assert made["url"].startswith("https://hub.example/#login=")
        async with anonymous(hub) as browser:
            body = {"secret": made["secret"]}
            reply = await browser.post("/api/v1/login", json=body, headers={"Host": "hub.example"})
        assert "Secure" in reply.headers["set-cookie"].split("; ")


async def test_a_secret_is_for_one_kind(shared: Running) -> None:
    page, node = await offer(shared, "page"), await offer(shared, "node")
    assert node["url"].startswith(f"{shared.url}/#pair=")
    async with anonymous(shared) as stranger:
        wrong = await stranger.post("/api/v1/pair", json={"secret": page["secret"]})
        assert wrong.status_code == 403
        wrong = await stranger.post("/api/v1/login", json={"secret": node["secret"]})
        assert wrong.status_code == 403
        nameless = await stranger.post("/api/v1/pair", json={"secret": node["secret"]})
        assert (nameless.status_code, nameless.json()["field"]) == (400, "node")
        good = await stranger.post("/api/v1/pair", json={"secret": node["secret"], "node": "n1", "name": "box"})
        assert good.status_code == 201  # what was refused did not use it up
        assert good.json()["device"]["node"] == "n1"


async def test_of_two_who_claim_one_secret_one_gets_in(shared: Running) -> None:
    made = await offer(shared, "client")
    async with anonymous(shared) as one, anonymous(shared) as other:
        replies = await asyncio.gather(
            *(who.post("/api/v1/pair", json={"secret": made["secret"]}) for who in (one, other))
        )
    assert sorted(reply.status_code for reply in replies) == [201, 401]


async def test_a_secret_ends(tmp_path: Path) -> None:
    async with open_bus(f"sqlite:///{tmp_path / 'bus.db'}") as bus, Devices(bus) as devices:
        secret, expires_at = await devices.offer("client")
        entry = await bus.table("pairings").get(hashed(secret))
        assert entry is not None
        kept = msgspec.json.decode(entry.value, type=PairingRecord)
        assert kept.expires_at == expires_at
        assert devices_module.PAIRING_S == 600
        old = msgspec.structs.replace(kept, expires_at=1.0)
        await bus.table("pairings").put(hashed(secret), msgspec.json.encode(old))
        try:
            await devices.claim(secret, ("client",))
            raise AssertionError("it was too old")
        except devices_module.Refused as refused:
            assert refused.code == "Unauthenticated"


async def test_keys_and_secrets_are_kept_hashed(shared: Running) -> None:
    made = await offer(shared, "page")
    got = await paired(shared, name="laptop")
    entries = await shared.hub.bus.table("devices").entries()
    assert hashed(got["key"]).encode() in b"".join(entry.value for entry in entries)
    await shared.client.post(
        "/api/v1/pairings", json={"kind": "client"}, headers={"Idempotency-Key": "one"}
    )  # also what is kept to answer twice
    for file in Path(shared.env["TIELINE_HOME"]).parent.rglob("*"):
        if file.is_file() and file.name != "token":
            data = file.read_bytes()
            for secret in (made["secret"], got["key"], shared.hub.token):
                assert secret.encode() not in data, file


async def test_devices_are_listed_and_revoked(shared: Running) -> None:
    got = await paired(shared, name="laptop")
    async with anonymous(shared) as laptop:
        laptop.headers["Authorization"] = f"Bearer {got['key']}"
        listed = (await laptop.get("/api/v1/devices")).json()
        assert listed[0]["id"] == "owner"
        assert [one["id"] for one in listed if one.get("current")] == [got["device"]["id"]]
        assert "hash" not in json.dumps(listed)
        assert (await shared.client.delete(f"/api/v1/devices/{got['device']['id']}")).status_code == 204
        assert (await laptop.get("/api/v1/devices")).status_code == 401
    assert (await shared.client.delete(f"/api/v1/devices/{got['device']['id']}")).status_code == 404
    assert (await shared.client.delete("/api/v1/devices/owner")).status_code == 409


async def test_logout_ends_the_key(shared: Running) -> None:
    made = await offer(shared, "page")
    async with anonymous(shared) as browser:
        me = await browser.post("/api/v1/login", json={"secret": made["secret"]})
        key = me.headers["set-cookie"].partition(";")[0]
        reply = await browser.post("/api/v1/logout", headers={"Cookie": key, "X-Tieline-CSRF": me.json()["csrf"]})
        assert reply.status_code == 204
        assert "Max-Age=0" in reply.headers["set-cookie"]
        assert (await browser.get("/api/v1/me", headers={"Cookie": key})).status_code == 401


async def test_revoked_means_at_once_on_open_sockets_and_streams(shared: Running) -> None:
    got = await paired(shared, name="tablet")
    url = f"ws{shared.url.removeprefix('http')}/api/v1/stream"
    async with asyncio.timeout(60), anonymous(shared) as tablet, connect(url, proxy=None) as by_frame:
        await by_frame.send(encode(Authenticate(token=got["key"])), text=True)
        await by_frame.send(encode(Subscribe()), text=True)
        head = {"Authorization": f"Bearer {got['key']}"}
        async with (
            connect(url, proxy=None, additional_headers=head) as by_header,
            tablet.stream("GET", "/api/v1/stream/sse", headers=head) as events,
        ):
            await by_header.send(encode(Authenticate()), text=True)
            assert json.loads(await by_frame.recv())["type"] == "welcome"
            assert json.loads(await by_header.recv())["type"] == "welcome"
            assert events.status_code == 200
            assert (await shared.client.delete(f"/api/v1/devices/{got['device']['id']}")).status_code == 204
            for socket in (by_frame, by_header):
                try:
                    while True:
                        await socket.recv()
                except ConnectionClosed as closed:
                    assert closed.rcvd is not None
                    assert closed.rcvd.code == 4401
            async for _ in events.aiter_bytes():
                pass  # it ends


async def test_another_hub_on_the_bus_hears_of_a_revocation(tmp_path: Path) -> None:
    async with open_bus(f"sqlite:///{tmp_path / 'bus.db'}") as bus, Devices(bus) as one, Devices(bus) as other:
        device, key = await one.add("client", "laptop")
        async with asyncio.timeout(30):
            await eventually(lambda: other.device_of(key) is not None, "it does not know the device")
            gone = asyncio.Event()
            other.on_revoke(lambda id: gone.set() if id == device.id else None)
            await one.revoke(device.id)
            await gone.wait()
        assert other.device_of(key) is None


async def test_a_revocation_outlives_a_restart_and_when_it_was_seen(tmp_path: Path) -> None:
    async with open_bus(f"sqlite:///{tmp_path / 'bus.db'}") as bus:
        async with Devices(bus) as devices:
            gone, gone_key = await devices.add("client", "gone")
            _, kept_key = await devices.add("client", "kept")
            await devices.revoke(gone.id)
        async with Devices(bus) as devices:
            assert devices.device_of(gone_key) is None
            assert devices.device_of(kept_key) is not None
            assert [one.name for one in devices.list()] == ["kept"]


async def test_secrets_can_be_guessed_only_so_often(shared: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await offer(shared, "client")
    assert shared.hub.guesses.per_minute == 10
    slow = Rates(tries=4, per_s=86400)  # so slow that none comes back during the test
    monkeypatch.setattr(shared.hub, "guesses", slow)
    async with anonymous(shared) as stranger:
        guesses = [("/api/v1/login", 401), ("/api/v1/pair", 401)] * 2 + [("/api/v1/login", 429), ("/api/v1/pair", 429)]
        for path, status in guesses:
            reply = await stranger.post(path, json={"secret": "guess"})
            assert reply.status_code == status
            assert status != 429 or int(reply.headers["retry-after"]) >= 1
        assert (await stranger.post("/api/v1/pair", json={"secret": made["secret"]})).status_code == 429
    assert (await shared.client.get("/api/v1/me")).status_code == 200


async def test_right_secrets_do_not_count_as_guesses(shared: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared.hub, "guesses", Rates(tries=2, per_s=86400))
    monkeypatch.setattr(shared.hub, "offers", Rates(tries=100, per_s=60))
    for _ in range(5):
        await paired(shared)


async def test_secrets_are_made_only_so_often(shared: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shared.hub.offers.per_minute == 30
    monkeypatch.setattr(shared.hub, "offers", Rates(tries=2, per_s=86400))
    replies = [await shared.client.post("/api/v1/pairings", json={"kind": "page"}) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [201, 201, 429]


async def test_a_nodes_key_opens_the_link_alone(shared: Running) -> None:
    got = await paired(shared, "node", node="n1")
    head = {"Authorization": f"Bearer {got['key']}"}
    async with anonymous(shared) as node:
        assert (await node.get("/api/v1/me", headers=head)).status_code == 200
        for path in ("/api/v1/sessions", "/api/v1/devices", "/metrics", "/api/v1/stream/sse"):
            assert (await node.get(path, headers=head)).status_code == 403, path
        assert (await node.post("/api/v1/pairings", json={}, headers=head)).status_code == 403
        assert (await node.post("/api/v1/logout", headers=head)).status_code == 204


async def test_names_are_made_fit_to_show(shared: Running) -> None:
    got = await paired(shared, name="a\x1b[31m\n" + "b" * 200)
    assert got["device"]["name"].isprintable()
    assert len(got["device"]["name"]) == 64
