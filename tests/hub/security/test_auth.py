"""Whose key it is, and who the owner and an agent are."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tieline.bus import open_bus
from tieline.hub.security.auth import MAX_KEY, OWNER, Auth, actor_name
from tieline.hub.security.devices import Devices


@pytest.fixture
async def devices(tmp_path: Path) -> AsyncGenerator[Devices]:
    async with open_bus(f"sqlite:///{tmp_path / 'bus.db'}") as bus, Devices(bus) as devices:
        yield devices


async def test_a_key_is_its_devices(devices: Devices) -> None:
    auth = Auth(devices)
    device, key = await devices.add("page", "phone", by="owner")
    found = auth.device_of(key)
    assert found is not None
    assert (found.id, found.name, found.kind, found.by) == (device.id, "phone", "page", "owner")
    for wrong in ("", key[:-1], key + "x", key.upper(), device.id, device.hash, "\udcff"):
        assert auth.device_of(wrong) is None


async def test_what_is_too_long_for_a_key_is_not_looked_up(devices: Devices, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    monkeypatch.setattr(devices, "device_of", looked_up.append)
    for token in ("", "x" * (MAX_KEY + 1), "x" * MAX_KEY):
        assert Auth(devices).device_of(token) is None
    assert looked_up == ["x" * MAX_KEY]


async def test_the_owner_and_an_agent_are_no_devices_of_the_list(devices: Devices) -> None:
    auth = Auth(devices)
    owner, agent = auth.owner(), auth.agent("mine")
    assert (owner.id, owner.name, owner.kind, owner.current) == (OWNER, "this machine", "client", False)
    assert (agent.id, agent.name, agent.kind, agent.current) == ("session-mine", "session mine", "client", False)
    for one in (owner, agent):
        assert one.created_at <= one.seen_at
    assert devices.list() == [] and not devices.knows(agent.id) and devices.knows(owner.id)


async def test_a_device_is_named_with_the_end_of_its_id(devices: Devices) -> None:
    """Its name is its own choice: another one may call itself the same, or `owner`."""
    auth = Auth(devices)
    assert actor_name(auth.owner()) == "owner"
    other = replace(auth.agent("x"), id="0123456789", name="owner")
    assert actor_name(other) == "owner (456789)"
