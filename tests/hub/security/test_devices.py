"""Devices: who let whom in, and what a revocation takes with it; those that nobody uses expire."""

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest
from tests.hub.conftest import Running, caller

from tieline.bus import Bus, open_bus
from tieline.errors import BusError
from tieline.hub.http.problems import RequestRefused
from tieline.hub.security import devices as devices_module
from tieline.hub.security.devices import UNUSED_S, Device, Devices
from tieline.protocol.audit import AuditLine
from tieline.protocol.views import DeviceView
from tieline.testing.wait_for import eventually


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncGenerator[Bus]:
    async with open_bus(f"sqlite:///{tmp_path / 'bus.db'}") as bus:
        yield bus


async def chain(devices: Devices) -> list[Device]:
    """The owner let in a phone, it a laptop, that a tablet; and beside them a desk."""
    claimed: list[Device] = []
    for name in ("phone", "laptop", "tablet", "desk"):
        by = claimed[-1].id if claimed and name != "desk" else "owner"
        secret, _ = await devices.offer("client", name=name, by=by)
        claimed.append((await devices.claim(secret, ("client",)))[0])
    return claimed


async def test_who_let_whom_in_is_kept(bus: Bus) -> None:
    async with Devices(bus) as devices:
        phone, laptop, tablet, desk = await chain(devices)
        assert [device.by for device in (phone, laptop, tablet, desk)] == ["owner", phone.id, laptop.id, "owner"]
    async with Devices(bus) as devices:
        assert {device.name: device.by for device in devices.list()}["tablet"] == laptop.id
        assert devices.paired_by(phone.id) == (laptop.id, tablet.id)
        assert devices.paired_by(desk.id) == ()


async def test_a_secret_of_one_who_was_revoked_lets_nobody_in(bus: Bus) -> None:
    async with Devices(bus) as devices:
        phone, _ = await devices.add("page", "phone", by="owner")
        secret, _ = await devices.offer("client", by=phone.id)
        await devices.revoke(phone.id)
        with pytest.raises(RequestRefused) as refused:
            await devices.claim(secret, ("client",))
        assert refused.value.code == "Unauthenticated"


async def test_what_the_bus_tells_late_lets_no_revoked_device_in_again(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bus tells in order, and later than we know: when it was last seen, for one."""
    monkeypatch.setattr(devices_module, "PROPAGATION_S", 0.0)
    devices = Devices(bus)  # its table is not followed: what the bus tells comes when this test says so
    tell = devices._apply  # pyright: ignore[reportPrivateUsage]
    phone, key = await devices.add("page", "phone")
    written = msgspec.json.encode(phone)
    await devices.revoke(phone.id)
    tell(phone.id, written, True)
    assert devices.device_of(key) is None and not devices.knows(phone.id)
    tell(phone.id, None, True)
    tell(phone.id, written, True)  # written after that: it is news again
    assert devices.knows(phone.id)


async def test_one_that_the_bus_cannot_revoke_stays(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices_module, "PROPAGATION_S", 0.0)
    devices = Devices(bus)
    tell = devices._apply  # pyright: ignore[reportPrivateUsage]
    phone, key = await devices.add("page", "phone")

    async def fails(key: str, *, expect: int | None = None) -> None:
        raise BusError("it is full")

    with monkeypatch.context() as patch:
        patch.setattr(devices._table, "delete", fails)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(BusError):
            await devices.revoke(phone.id)
    assert devices.device_of(key) is not None
    renamed = msgspec.structs.replace(phone, name="renamed")
    tell(phone.id, msgspec.json.encode(renamed), True)
    assert [one.name for one in devices.list()] == ["renamed"], "the bus is believed again"


async def test_a_key_is_given_out_when_the_bus_has_told_of_it(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its next request may come to another hub; a bus that does not tell is not waited for."""
    monkeypatch.setattr(devices_module, "PROPAGATION_S", 30.0)
    devices = Devices(bus)  # its table is not followed
    pairing = asyncio.create_task(devices.add("client", "laptop"))
    await eventually(lambda: len(devices.list()) == 1, "it is not written")
    (listed,) = devices.list()
    entry = await bus.table("devices").get(listed.id)
    assert entry is not None and not pairing.done()
    devices._apply(listed.id, entry.value, True)  # pyright: ignore[reportPrivateUsage]
    device, key = await asyncio.wait_for(pairing, 10)
    assert device.id == listed.id and devices.device_of(key) == device
    monkeypatch.setattr(devices_module, "PROPAGATION_S", 0.05)
    assert (await asyncio.wait_for(devices.add("client", "desk"), 10))[0].name == "desk"


async def test_unused_for_ninety_days_means_out(bus: Bus) -> None:
    assert UNUSED_S == 90 * 24 * 3600
    expired: list[DeviceView] = []
    async with Devices(bus) as devices:
        old, key = await devices.add("client", "old")
        used, used_key = await devices.add("client", "used")
        open_, _ = await devices.add("client", "connected for months")
    for device, ago in ((old, UNUSED_S + 60), (used, UNUSED_S - 3600), (open_, UNUSED_S + 60)):
        past = time.time() - ago
        aged = msgspec.structs.replace(device, created_at=past, seen_at=past)
        await bus.table("devices").put(device.id, msgspec.json.encode(aged))
    async with Devices(bus) as devices:
        devices.on_expired = expired.append
        closed = devices.connected(open_.id)
        assert devices.device_of(key) is None, "also before anybody has looked"
        assert devices.device_of(used_key) is not None
        await devices.expire()
        assert [device.name for device in expired] == ["old"]
        assert {device.name for device in devices.list()} == {"used", "connected for months"}
        closed()
        await devices.expire()
        assert len(devices.list()) == 2, "its time counts from when it was here last"


async def test_a_device_is_connected_until_its_last_connection_closes(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Devices(bus) as devices:
        phone, key = await devices.add("page", "phone")
        first, second = devices.connected(phone.id), devices.connected(phone.id)
        for stranger in ("owner", "session-x"):
            devices.connected(stranger)()
        monkeypatch.setattr(devices_module, "UNUSED_S", -60.0)  # from now on all that are not connected are unused
        first()
        assert devices.device_of(key) is not None
        second()
        assert devices.device_of(key) is None


async def test_when_a_device_was_last_seen_outlives_the_hub(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Devices(bus) as devices:
        one, key = await devices.add("page", "one")
        other, _ = await devices.add("page", "other")
        seen = time.time() + 3600
        for device, at in ((one, seen), (other, one.seen_at + 1)):
            devices._seen[device.id] = at  # pyright: ignore[reportPrivateUsage]
        assert devices.view(one).seen_at == seen
    async with Devices(bus) as devices:
        found = {device.name: device.seen_at for device in devices.list()}
        assert found == {"one": seen, "other": other.seen_at}, "not for a moment's difference"
        used = devices.device_of(key)
        assert used is not None and used.seen_at == seen


async def test_revoking_takes_along_what_it_let_in(hub: Running) -> None:
    phone, laptop, tablet, desk = await chain(hub.hub.devices)
    listed = (await hub.client.get("/api/v1/devices")).json()
    assert {device["id"]: device.get("by") for device in listed}[tablet.id] == laptop.id
    assert (await hub.client.delete(f"/api/v1/devices/{phone.id}", params={"let_in": "true"})).status_code == 204
    left = {device["id"] for device in (await hub.client.get("/api/v1/devices")).json()}
    assert desk.id in left and not left & {phone.id, laptop.id, tablet.id}
    lines = msgspec.json.decode(
        (await hub.client.get("/api/v1/audit", params={"kind": "revoke"})).content, type=list[AuditLine]
    )
    assert [line.details["device"].split(" (")[0] for line in lines] == ["tablet", "laptop", "phone"]


async def test_without_a_word_only_the_one(hub: Running) -> None:
    phone, laptop, _, _ = await chain(hub.hub.devices)
    async with asyncio.timeout(30), caller(hub.url):
        assert (await hub.client.delete(f"/api/v1/devices/{phone.id}")).status_code == 204
    assert hub.hub.devices.knows(laptop.id) and not hub.hub.devices.knows(phone.id)


async def test_an_expired_device_leaves_a_line(hub: Running) -> None:
    device, _ = await hub.hub.devices.add("client", "old")
    hub.hub.devices.on_expired(hub.hub.devices.view(device))
    (line,) = await hub.hub.audit.read(kind="revoke")
    assert (line.who, line.details["why"]) == ("hub", "not used for 90 days")
