"""Who is there: shown as long as somebody vouches for it, whichever hub does."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from tieline.bus import Bus, open_bus
from tieline.hub.nodes.registry import Lost, NodeRegistry, PresenceRecord, UnknownNode
from tieline.protocol.views import NodeView
from tieline.sessions.records import SessionRecord

VIEW = NodeView(id="n1", name="laptop")


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncGenerator[Bus]:
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        yield bus


def env(path: Path) -> dict[str, str]:
    return {"TIELINE_HOME": str(path)}


async def offline(nodes: NodeRegistry, id: str) -> None:
    async with asyncio.timeout(30):
        while (await nodes.get(id)).online:  # noqa: ASYNC110 (it is a table of another's)
            await asyncio.sleep(0.02)


async def test_comes_and_goes(bus: Bus, tmp_path: Path) -> None:
    async with NodeRegistry(bus, env(tmp_path)) as nodes:
        with pytest.raises(UnknownNode):
            await nodes.get("n1")
        with pytest.raises(UnknownNode):
            await nodes.get("no such name")
        presence = await nodes.register(VIEW)
        assert (await nodes.get("n1")).online
        await presence.renew()
        await nodes.change("n1", home="/home/me")
        assert [(view.id, view.home, view.online) for view in await nodes.all()] == [("n1", "/home/me", True)]
        await presence.leave()
        assert not (await nodes.get("n1")).online
        await nodes.change("nobody", home="/")  # nothing happens


async def test_the_newest_link_wins(bus: Bus, tmp_path: Path) -> None:
    async with NodeRegistry(bus, env(tmp_path)) as nodes:
        old = await nodes.register(VIEW)
        new = await nodes.register(VIEW)
        with pytest.raises(Lost):
            await old.renew()
        await old.leave()
        assert (await nodes.get("n1")).online
        await new.renew()


async def test_a_presence_that_ran_out_comes_back(bus: Bus, tmp_path: Path) -> None:
    async with NodeRegistry(bus, env(tmp_path)) as nodes:
        presence = await nodes.register(VIEW)
        await nodes.presence.delete("n1")
        await offline(nodes, "n1")
        await presence.renew()
        assert (await nodes.get("n1")).online


@pytest.mark.slow
async def test_another_hub_that_dies(bus: Bus, tmp_path: Path) -> None:
    """Its nodes are shown as offline by those that are left, when the time of its word is up."""
    async with NodeRegistry(bus, env(tmp_path / "one")) as registry, NodeRegistry(bus, env(tmp_path / "two")) as other:
        assert registry.hub != other.hub
        presence = await registry.register(VIEW)
        value = msgspec.json.encode(presence.value)
        await registry.presence.put("n1", value, ttl=1)  # the last time that it said so
        await offline(other, "n1")


async def test_ours_from_before_a_crash(bus: Bus, tmp_path: Path) -> None:
    ended = await asyncio.create_subprocess_exec("/bin/true")
    await ended.wait()
    async with NodeRegistry(bus, env(tmp_path)) as nodes:
        await nodes.register(VIEW)
        await nodes.register(NodeView(id="n2"))
        await nodes.register(NodeView(id="n3"))
        hub = nodes.hub
    table = bus.table("presence")
    await table.put("n1", msgspec.json.encode(PresenceRecord(hub=hub, link="x", pid=ended.pid)), ttl=600)
    await table.put("n2", msgspec.json.encode(PresenceRecord(hub=hub, link="x", pid=os.getppid())), ttl=600)
    await table.put("n3", msgspec.json.encode(PresenceRecord(hub="another", link="x", pid=ended.pid)), ttl=600)
    async with NodeRegistry(bus, env(tmp_path)) as nodes:
        assert {view.id: view.online for view in await nodes.all()} == {"n1": False, "n2": True, "n3": True}


async def test_removed_with_what_is_shown_of_it(bus: Bus, tmp_path: Path) -> None:
    sessions, prompts, asks = bus.table("sessions"), bus.table("prompts"), bus.table("asks")
    for id, node in (("s1", "n1"), ("s2", "n2")):
        await sessions.put(id, msgspec.json.encode(SessionRecord(id=id, agent="a", cwd="/", node=node)))
        await prompts.put(f"{id}.p", b"{}")
        await asks.put(f"ask-{id}", msgspec.json.encode({"session": id}))
    await bus.publish("commands.n1", b"{}")
    async with NodeRegistry(bus, env(tmp_path)) as nodes:
        await nodes.register(VIEW)
        await nodes.remove("n1")
        with pytest.raises(UnknownNode):
            await nodes.get("n1")
        with pytest.raises(UnknownNode):
            await nodes.remove("n1")
    assert await sessions.keys() == ["s2"]
    assert await prompts.keys() == ["s2.p"]
    assert await asks.keys() == ["ask-s2"]
    assert await bus.last("commands.n1") == 0


async def test_one_leaves_while_another_enters(bus: Bus, tmp_path: Path) -> None:
    """In whichever order they get to the tables: whoever is there is shown."""
    async with NodeRegistry(bus, env(tmp_path)) as nodes:
        old = await nodes.register(VIEW)
        for _ in range(50):
            new, _ = await asyncio.gather(nodes.register(VIEW), old.leave())
            assert (await nodes.get("n1")).online
            old = new
        await old.leave()
        assert not (await nodes.get("n1")).online
