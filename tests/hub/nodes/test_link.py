"""The hub's side of a link, spoken to directly: who is let in, what is refused, and that nonsense harms nobody."""

import asyncio
import gc
import random
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.hub.conftest import Running
from tests.node.conftest import hub_at, joined_to, until_done
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tieline.hub.nodes import handshake
from tieline.node.result_outbox import ResultOutbox
from tieline.policy import Policy
from tieline.protocol import OLDEST, PROTOCOL
from tieline.protocol import commands as c
from tieline.protocol import node_link as p
from tieline.protocol.commands import Result
from tieline.protocol.views import DeviceView
from tieline.script import Say
from tieline.sessions.records import SessionRecord
from tieline.testing.wait_for import eventually

HELLO = p.Hello(protocol=PROTOCOL, oldest=OLDEST, node="n1", epoch="e1", capabilities=p.CAPABILITIES)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncGenerator[Running]:
    async with hub_at(tmp_path / "hub") as started:
        yield started


@asynccontextmanager
async def dialled(hub: Running, node: str = "n1", *, key: str = "") -> AsyncGenerator[ClientConnection]:
    if not key:
        _, key = await hub.hub.devices.add("node", "a node", node=node)
    headers = {"Authorization": f"Bearer {key}"}
    url = hub.url.replace("http", "ws") + "/api/v1/link"
    async with connect(url, additional_headers=headers, compression=None, max_size=p.MAX_FRAME, proxy=None) as socket:
        yield socket


async def heard(socket: ClientConnection) -> Any:
    async with asyncio.timeout(30):
        return msgspec.json.decode(await socket.recv())


async def welcomed(socket: ClientConnection, hello: p.Hello = HELLO) -> Any:
    await socket.send(p.encode(hello))
    frame = await heard(socket)
    assert frame["type"] == "welcome", frame
    return frame


async def refused(socket: ClientConnection, data: bytes | str) -> tuple[str, int]:
    """What the hub says about it, and how it closes."""
    await socket.send(data)
    while (frame := await heard(socket))["type"] != "refused":
        pass
    async with asyncio.timeout(30):
        await socket.wait_closed()
    return frame["code"], socket.close_code or 0


async def test_only_nodes_may_dial(hub: Running) -> None:
    _, client = await hub.hub.devices.add("client", "no node")
    for key in (hub.token, client, "tl_wrong"):
        with pytest.raises(InvalidStatus) as error:
            async with dialled(hub, key=key):
                pass
        assert error.value.response.status_code in (401, 403)


REFUSED: list[tuple[p.AnyUpFrame, str, int]] = [
    (msgspec.structs.replace(HELLO, node="n2"), "Forbidden", handshake.CLOSE_REFUSED),
    (msgspec.structs.replace(HELLO, node="a.b"), "BadFrame", handshake.CLOSE_BAD_FRAME),
    (msgspec.structs.replace(HELLO, epoch=""), "BadFrame", handshake.CLOSE_BAD_FRAME),
    (msgspec.structs.replace(HELLO, protocol=OLDEST - 1, oldest=0), "NodeTooOld", handshake.CLOSE_TOO_OLD),
    (
        msgspec.structs.replace(HELLO, protocol=PROTOCOL + 2, oldest=PROTOCOL + 1),
        "HubTooOld",
        handshake.CLOSE_TOO_OLD,
    ),
    (p.LinkBeat(), "BadFrame", handshake.CLOSE_BAD_FRAME),
]


async def test_refused_with_a_reason(hub: Running) -> None:
    _, key = await hub.hub.devices.add("node", "a node", node="n1")
    for hello, code, close in REFUSED:
        async with dialled(hub, key=key) as socket:
            assert await refused(socket, p.encode(hello)) == (code, close)
    (line,) = await hub.hub.audit.read(kind="refusal")
    assert line.who.startswith("a node (") and line.details["why"] == "this key belongs to another node"
    assert [view.id for view in await hub.hub.nodes.all()] == [hub.hub.dispatcher.local]


async def test_a_peer_of_another_version_goes_without(hub: Running) -> None:
    newer = msgspec.structs.replace(
        HELLO, protocol=PROTOCOL + 3, capabilities=("sessions", "prompts", "asks", "telepathy")
    )
    async with dialled(hub) as socket:
        welcome = await welcomed(socket, newer)
        assert welcome["protocol"] == PROTOCOL
        lacks = {"diff", "browse", "steer", "deltas", "rules", "changes", "worktrees"}
        assert set(welcome["limits"]) == lacks | {"telepathy"}
        assert set((await hub.hub.nodes.get("n1")).limits) == set(welcome["limits"])


def test_handshake_of_somebody_elses_node() -> None:
    device = DeviceView(id="d2", name="", kind="node", node="n1", created_at=2.0)
    older = DeviceView(id="d1", name="", kind="node", node="n1", created_at=1.0)
    assert handshake.negotiate(HELLO, device, [device], "local") == ()
    assert handshake.negotiate(HELLO, older, [device, older], "local") == ()
    with pytest.raises(handshake.LinkClosing, match="another device's key"):
        handshake.negotiate(HELLO, device, [device, older], "local")
    with pytest.raises(handshake.LinkClosing, match="another node"):
        handshake.negotiate(HELLO, device, [device], "n1")  # the hub's own


async def test_a_node_on_the_hubs_own_bus_is_refused(hub: Running) -> None:
    """What the hub took over would be the node's own log again, without end."""
    outbox = ResultOutbox(hub.hub.bus, "n1")
    await outbox.load()
    async with dialled(hub) as socket:
        hello = msgspec.structs.replace(HELLO, epoch=outbox.epoch)
        assert await refused(socket, p.encode(hello)) == ("Forbidden", handshake.CLOSE_REFUSED)
    assert [view.id for view in await hub.hub.nodes.all()] == [hub.hub.dispatcher.local]


async def test_the_newer_link_of_a_node_takes_over(hub: Running) -> None:
    _, key = await hub.hub.devices.add("node", "a node", node="n1")
    async with dialled(hub, key=key) as old, dialled(hub, key=key) as new:
        await welcomed(old)
        await welcomed(new)
        async with asyncio.timeout(30):
            with pytest.raises(ConnectionClosed):
                while True:
                    await old.recv()
        assert old.close_code == handshake.CLOSE_REPLACED
        assert (await hub.hub.nodes.get("n1")).online


def session(id: str) -> p.LinkState:
    value = msgspec.json.encode(SessionRecord(id=id, agent="a", cwd="/"))
    return p.LinkState(table="sessions", key=id, value=msgspec.Raw(value))


BAD = [
    b"",
    b"{",
    b"\xff\xfe",
    b"[]",
    b'{"type":"nonesuch"}',
    b'{"type":"records"}',
    b'{"type":"records","records":[{"seq":1,"subject":"events..x","data":""}]}',
    b'{"type":"records","records":[{"seq":1,"subject":"events.>","data":""}]}',
    b'{"type":"records","records":[{"seq":1,"subject":"events.s","data":"!"}]}',
    b'{"type":"records","records":[{"seq":1,"subject":"events.s","data":"","headers":{"Nats-Msg-Id":"x"}}]}',
    b'{"type":"state","table":"devices","key":"x","value":{}}',
    b'{"type":"state","table":"sessions","key":"a b","value":{}}',
    b'{"type":"state","table":"sessions","key":"x","value":{"id":1}}',
    b'{"type":"state","table":"prompts","key":"x","value":7}',
    b'{"type":"state","table":"sessions","key":"x","value":{"id":"\xd6"}}',  # is only decoded when it is stored
    b'{"type":"results","results":[{}]}',
    b'{"type":"results","results":[{"id":"a.b"}]}',  # the hubs tell each other of results by their ids
    p.encode(HELLO),
    b"[" * 100_000,
    p.encode(p.LinkRecords(records=tuple(p.LogRecord(seq=n, subject="events.s", data=b"") for n in range(300)))),
]


async def test_a_bad_frame_ends_the_link_and_nothing_else(hub: Running) -> None:
    _, key = await hub.hub.devices.add("node", "a node", node="n1")
    for data in BAD:
        async with dialled(hub, key=key) as socket:
            await welcomed(socket)
            assert await refused(socket, data) == ("BadFrame", handshake.CLOSE_BAD_FRAME), data[:80]
    assert (await hub.client.get("/healthz")).status_code == 200


async def test_a_frame_that_is_too_large(hub: Running) -> None:
    async with dialled(hub) as socket:
        await welcomed(socket)
        with pytest.raises(ConnectionClosed):
            await socket.send(b"x" * (p.MAX_FRAME + 2048))
            while True:
                await heard(socket)
    assert (await hub.client.get("/healthz")).status_code == 200


async def test_claims_about_others_have_no_effect(hub: Running) -> None:
    """A node that was broken into: it can lie about itself alone."""
    made = await hub.session(title="theirs")
    result = await hub.hub.dispatcher.dispatch(
        hub.hub.dispatcher.local, c.AbortSession(session=made["id"]), by="me", id="o1"
    )
    assert isinstance(result, Result)
    before = await hub.hub.bus.table("sessions").get(made["id"])
    async with dialled(hub) as socket:
        await welcomed(socket)
        for frame in (
            session(made["id"]),
            p.LinkState(table="sessions", key=made["id"]),
            p.LinkRecords(records=(p.LogRecord(seq=1, subject=f"events.{made['id']}", data=b"{}"),)),
            p.LinkRecords(records=(p.LogRecord(seq=2, subject="commands.x", data=b"{}"),)),
            p.Delta(session=made["id"], event=msgspec.Raw(b"{}")),
            p.Synced(table="sessions"),
            p.LinkTaken(seq=10**9),
            p.Results(results=(Result(id="o1", refusal=c.Refusal(code="x", message="x")),)),
        ):
            await socket.send(p.encode(frame))
        while (await heard(socket))["type"] != "heard":
            pass
    assert await hub.hub.bus.table("sessions").get(made["id"]) == before
    assert await hub.hub.bus.last(f"events.{made['id']}") == await hub.hub.bus.last("commands.x") == 0


def nonsense(chance: random.Random) -> bytes:
    """A frame that is nearly right."""
    good: list[Any] = [
        HELLO, session("s"), p.Synced(table="asks"), p.LinkTaken(seq=3), p.LinkBeat(at=1.0), p.NodeStatus(home="/"),
        p.LinkRecords(records=(p.LogRecord(seq=chance.randrange(100), subject="events.s", data=b"{}"),)),
        p.Results(results=(Result(id="x"),)), p.Delta(session="s", event=msgspec.Raw(b'{"type":"text_delta"}')),
    ]  # fmt: skip
    data = bytearray(p.encode(chance.choice(good)))
    for _ in range(chance.choice((0, 0, 1, 2, 5))):
        offset = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[offset] = chance.randrange(256)
            case 1:
                del data[offset : offset + chance.randrange(1, 9)]
            case 2:
                data[offset:offset] = chance.randbytes(chance.randrange(1, 9))
            case _:
                data[offset:offset] = data[max(0, offset - 9) : offset]
        if not data:
            return b""
    return bytes(data)


async def converse(hub: Running, key: str, chance: random.Random) -> None:
    async with dialled(hub, key=key) as socket:
        try:
            if chance.random() < 0.8:
                await welcomed(socket)
            for _ in range(chance.randrange(1, 30)):
                await socket.send(nonsense(chance))
        except ConnectionClosed:
            pass
        if chance.random() < 0.5:
            socket.transport.abort()


@pytest.mark.slow
async def test_fuzz(hub: Running, tmp_path: Path) -> None:
    """Nonsense in any amount: the hub goes on, other nodes too, and no memory stays behind."""
    chance = random.Random(20)
    _, key = await hub.hub.devices.add("node", "mad", node="n1")
    await hub.hub.push.sender.key()  # its libraries, which a thread loads after the hub's start, are no link's memory
    async with joined_to(hub, tmp_path / "node", [[Say("fine")]]) as node:
        for _ in range(15):
            await converse(hub, key, chance)
        gc.collect()
        tracemalloc.start()
        try:
            for _ in range(5):  # what is made once for all belongs to the beginning
                await converse(hub, key, chance)
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(40):
                await converse(hub, key, chance)

            def grown() -> int:
                gc.collect()
                return tracemalloc.get_traced_memory()[0] - before

            # The last connections end after their client has gone.
            await eventually(lambda: grown() < 1_000_000, "the memory of ended links stays behind")
        finally:
            tracemalloc.stop()
        create = c.CreateSession(session="t", agent="scripted", cwd=node.cwd, policy=Policy("allow", "allow", "allow"))
        made = await hub.hub.dispatcher.dispatch(node.id, create, by="me", wait_s=30)
        assert isinstance(made, Result) and made.refusal is None
        await hub.hub.dispatcher.dispatch(node.id, c.SendPrompt(session="t", prompt="p", text="go"), by="me", wait_s=30)
        await until_done(hub.hub.bus, "t")
    assert (await hub.client.get("/healthz")).status_code == 200
