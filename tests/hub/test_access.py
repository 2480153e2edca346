"""Logging in, pairing, devices: single use, expiring, hashed, revocable at once."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import msgspec
import pytest
from starlette.types import Message
from tests.bus.conftest import NatsServer
from tests.bus.conftest import running as nats_running
from tests.hub.conftest import Running, caller
from tests.hub.streaming import client, served
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tieline.bus import open_bus
from tieline.bus.base import Change, Table
from tieline.config import Config, HubConfig
from tieline.hub.app import build
from tieline.hub.security import devices as devices_module
from tieline.hub.security.devices import Device, Devices, PairingRecord, hash_secret
from tieline.hub.security.rate_limit import RateLimiter
from tieline.protocol.stream_frames import Authenticate, Subscribe, encode
from tieline.testing.wait_for import eventually

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
        assert "set-cookie" not in reply.headers  # browsers send cookies to every port of a host
        key = reply.json()["key"]
        assert key.startswith("tl_")
        assert reply.json()["device"]["name"] == "my phone"
        me = await browser.get("/api/v1/me", headers={"Authorization": f"Bearer {key}"})
        assert me.json()["device"]["kind"] == "page" and "key" not in me.json()
        again = await browser.post("/api/v1/login", json={"secret": made["secret"]})
        assert (again.status_code, again.json()["field"]) == (401, "secret")


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


async def test_a_machine_has_one_key(shared: Running) -> None:
    """Somebody with a secret cannot take another node's place: its device is revoked first, and the answer says so."""
    first, second = await offer(shared, "node"), await offer(shared, "node")
    async with anonymous(shared) as client:
        response = await client.post("/api/v1/pair", json={"secret": first["secret"], "node": "twice", "name": "mill"})
        assert response.status_code == 201
        again = {"secret": second["secret"], "node": "twice"}
        refused = await client.post("/api/v1/pair", json=again)
        assert refused.status_code == 409 and "Revoke its device 'mill'" in refused.json()["hint"]
        await shared.client.delete(f"/api/v1/devices/{response.json()['device']['id']}")
        assert (await client.post("/api/v1/pair", json=again)).status_code == 201  # the secret was not used up


async def test_of_two_who_claim_one_secret_one_gets_in(shared: Running) -> None:
    made = await offer(shared, "client")
    async with anonymous(shared) as first, anonymous(shared) as second:
        replies = await asyncio.gather(
            *(who.post("/api/v1/pair", json={"secret": made["secret"]}) for who in (first, second))
        )
    assert sorted(reply.status_code for reply in replies) == [201, 401]


async def test_a_secret_ends(tmp_path: Path) -> None:
    async with open_bus(f"sqlite:///{tmp_path / 'bus.db'}") as bus, Devices(bus) as devices:
        secret, expires_at = await devices.offer("client")
        entry = await bus.table("pairings").get(hash_secret(secret))
        assert entry is not None
        kept = msgspec.json.decode(entry.value, type=PairingRecord)
        assert kept.expires_at == expires_at
        assert devices_module.PAIRING_S == 600
        old = msgspec.structs.replace(kept, expires_at=1.0)
        await bus.table("pairings").put(hash_secret(secret), msgspec.json.encode(old))
        try:
            await devices.claim(secret, ("client",))
            raise AssertionError("it was too old")
        except devices_module.RequestRefused as refused:
            assert refused.code == "Unauthenticated"


async def test_keys_and_secrets_are_kept_hashed(shared: Running) -> None:
    made = await offer(shared, "page")
    got = await paired(shared, name="laptop")
    entries = await shared.hub.bus.table("devices").entries()
    assert hash_secret(got["key"]).encode() in b"".join(entry.value for entry in entries)
    await shared.client.post(
        "/api/v1/pairings", json={"kind": "client"}, headers={"Idempotency-Key": "one"}
    )  # also what is kept to answer twice
    for file in Path(shared.env["TIELINE_HOME"]).parent.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            for secret in (made["secret"], got["key"], shared.token):
                assert secret.encode() not in data, file


async def test_devices_are_listed_and_revoked(shared: Running) -> None:
    got = await paired(shared, name="laptop")
    async with anonymous(shared) as laptop:
        laptop.headers["Authorization"] = f"Bearer {got['key']}"
        listed = (await laptop.get("/api/v1/devices")).json()
        assert listed[0]["id"] == "owner"
        assert [device["id"] for device in listed if device.get("current")] == [got["device"]["id"]]
        assert "hash" not in json.dumps(listed)
        assert (await shared.client.delete(f"/api/v1/devices/{got['device']['id']}")).status_code == 204
        assert (await laptop.get("/api/v1/devices")).status_code == 401
    assert (await shared.client.delete(f"/api/v1/devices/{got['device']['id']}")).status_code == 404
    assert (await shared.client.delete("/api/v1/devices/owner")).status_code == 409


async def test_logout_ends_the_key(shared: Running) -> None:
    made = await offer(shared, "page")
    async with anonymous(shared) as browser:
        me = await browser.post("/api/v1/login", json={"secret": made["secret"]})
        page = {"Authorization": f"Bearer {me.json()['key']}"}
        assert (await browser.post("/api/v1/logout", headers=page)).status_code == 204
        assert (await browser.get("/api/v1/me", headers=page)).status_code == 401


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
    async with open_bus(f"sqlite:///{tmp_path / 'bus.db'}") as bus, Devices(bus) as devices, Devices(bus) as other:
        device, key = await devices.add("client", "laptop")
        async with asyncio.timeout(30):
            await eventually(lambda: other.device_of(key) is not None, "it does not know the device")
            gone = asyncio.Event()
            other.on_revoke(lambda id: gone.set() if id == device.id else None)
            await devices.revoke(device.id)
            await gone.wait()
        assert other.device_of(key) is None


async def test_revoked_on_one_hub_means_at_once_on_another(tmp_path: Path) -> None:
    """Two hubs on one NATS: what the device has open at the other one is closed, and its key opens nothing there."""
    async with (
        asyncio.timeout(90),
        nats_running(NatsServer(tmp_path / "nats")) as server,
        open_bus(server.url) as bus,
        open_bus(server.url) as other_bus,
        served(bus, tmp_path / "one") as hub,
        served(other_bus, tmp_path / "two") as other,
    ):
        device, key = await hub.hub.devices.add("client", "tablet")
        await eventually(lambda: other.hub.devices.knows(device.id), "it does not know the device", timeout=30)
        async with caller(other.url, key) as tablet, client(other, key) as following:
            await following.subscribe()
            async with (
                tablet.stream("GET", "/api/v1/stream/sse") as events,
                caller(hub.url, hub.token) as owner,
            ):
                assert events.status_code == 200
                assert (await owner.delete(f"/api/v1/devices/{device.id}")).status_code == 204
                assert await following.closed() == 4401
                assert "revoked" in following.frames[-1]["message"]
                async for _ in events.aiter_bytes():
                    pass  # it ends
            assert (await tablet.get("/api/v1/me")).status_code == 401


async def test_a_page_is_let_in_by_every_hub_behind_a_load_balancer(tmp_path: Path) -> None:
    """It is logged in once, whichever hub took it, on whatever port that hub itself listens."""
    config = Config(hub=HubConfig(public_url="https://hub.example"))
    page = {"Host": "hub.example", "Origin": "https://hub.example"}
    async with (
        open_bus(f"sqlite:///{tmp_path / 'bus.db'}") as bus,
        served(bus, tmp_path / "one", config) as hub,
        served(bus, tmp_path / "two", config) as other,
        caller(hub.url) as first,
        caller(other.url) as second,
    ):
        secret, _ = await hub.hub.devices.offer("page", name="", by="owner")
        reply = await first.post("/api/v1/login", json={"secret": secret}, headers=page)
        assert reply.status_code == 200
        await eventually(lambda: other.hub.devices.knows(reply.json()["device"]["id"]), "not known there", timeout=30)
        page["Authorization"] = f"Bearer {reply.json()['key']}"
        assert (await second.get("/api/v1/me", headers=page)).status_code == 200
        assert (await second.post("/api/v1/logout", headers=page)).status_code == 204


@pytest.mark.parametrize("path", ["/api/v1/stream", "/api/v1/stream/sse", "/api/v1/link"])
async def test_revoked_on_the_way_in_means_out(shared: Running, path: str) -> None:
    """Past the gate already, and not yet counted as open."""
    node = path.endswith("link")
    device, key = await shared.hub.devices.add("node" if node else "client", "late", node="late" if node else "")
    messages: list[Message] = []
    kind = "http" if path.endswith("sse") else "websocket"

    async def receive() -> Message:
        if messages or kind == "http":
            await asyncio.Event().wait()
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        if not messages:
            await shared.hub.devices.revoke(device.id)
        messages.append(message)

    scope: dict[str, Any] = {
        "type": kind,
        "method": "GET",
        "scheme": "http" if kind == "http" else "ws",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {key}".encode())],
        "server": ("127.0.0.1", shared.serving.port),
        "client": ("127.0.0.1", 1),
        "subprotocols": [],
        "state": {},
        "extensions": {},
    }
    async with asyncio.timeout(30):
        await build(shared.hub)(scope, receive, send)  # it ends by itself
    if kind == "websocket":
        assert (messages[-1]["type"], messages[-1]["code"]) == ("websocket.close", 4401)
    else:
        assert messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


class Late:
    """A table whose watch tells each change only when it is let."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.pulled = asyncio.Event()
        self.let = asyncio.Semaphore(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    async def watch(self) -> AsyncGenerator[Change, None]:
        async for change in self._table.watch():
            self.pulled.set()
            await self.let.acquire()
            yield change


@pytest.mark.slow
async def test_what_the_bus_tells_late_does_not_bring_a_device_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asyncio.timeout(30), open_bus(f"sqlite:///{tmp_path / 'bus.db'}") as bus:
        late = Late(bus.table("devices"))
        with monkeypatch.context() as patched:
            patched.setattr(bus, "table", {"devices": late, "pairings": None}.get)
            devices = Devices(bus)
        async with devices:
            device, key = await devices.add("client", "laptop")
            await late.pulled.wait()  # that it is there is on its way
            await devices.revoke(device.id)
            marker = msgspec.json.encode(Device(id="marker", name="marker", hash="x"))
            await bus.table("devices").put("marker", marker)
            while not devices.knows("marker"):
                late.let.release()
                await asyncio.sleep(0)
                assert devices.device_of(key) is None
            await devices.revoke("marker")


async def test_a_revocation_outlives_a_restart_and_when_it_was_seen(tmp_path: Path) -> None:
    async with open_bus(f"sqlite:///{tmp_path / 'bus.db'}") as bus:
        async with Devices(bus) as devices:
            gone, gone_key = await devices.add("client", "gone")
            _, kept_key = await devices.add("client", "kept")
            await devices.revoke(gone.id)
        async with Devices(bus) as devices:
            assert devices.device_of(gone_key) is None
            assert devices.device_of(kept_key) is not None
            assert [device.name for device in devices.list()] == ["kept"]


async def test_secrets_can_be_guessed_only_so_often(shared: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await offer(shared, "client")
    assert shared.hub.login_limiter.per_minute == 10
    slow = RateLimiter(tries=4, per_s=86400)  # so slow that none comes back during the test
    monkeypatch.setattr(shared.hub, "login_limiter", slow)
    async with anonymous(shared) as stranger:
        guesses = [("/api/v1/login", 401), ("/api/v1/pair", 401)] * 2 + [("/api/v1/login", 429), ("/api/v1/pair", 429)]
        for path, status in guesses:
            reply = await stranger.post(path, json={"secret": "guess"})
            assert reply.status_code == status
            assert status != 429 or int(reply.headers["retry-after"]) >= 1
        assert (await stranger.post("/api/v1/pair", json={"secret": made["secret"]})).status_code == 429
    assert (await shared.client.get("/api/v1/me")).status_code == 200


async def test_right_secrets_do_not_count_as_guesses(shared: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared.hub, "login_limiter", RateLimiter(tries=2, per_s=86400))
    monkeypatch.setattr(shared.hub, "pairing_limiter", RateLimiter(tries=100, per_s=60))
    for _ in range(5):
        await paired(shared)


async def test_secrets_are_made_only_so_often(shared: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shared.hub.pairing_limiter.per_minute == 30
    monkeypatch.setattr(shared.hub, "pairing_limiter", RateLimiter(tries=2, per_s=86400))
    replies = [await shared.client.post("/api/v1/pairings", json={"kind": "page"}) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [201, 201, 429]


async def test_a_nodes_key_opens_the_link_alone(shared: Running) -> None:
    got = await paired(shared, "node", node="n2")
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


async def test_the_owners_name_for_a_device_counts(shared: Running) -> None:
    for given, called in (("my phone", "my phone"), ("", "Firefox on Android")):
        secret = (await offer(shared, "page", given))["secret"]
        async with anonymous(shared) as browser:
            reply = await browser.post("/api/v1/login", json={"secret": secret, "name": "Firefox on Android"})
        assert reply.json()["device"]["name"] == called
