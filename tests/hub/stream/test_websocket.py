"""The client's WebSocket on a served hub: authentication, cursors, the seam, and every way it ends."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.hub.streaming import BOUND_S, Served, client, on_sqlite

from tieline.events import Text, TextDelta, encode
from tieline.hub.stream import fanout as fanouts
from tieline.hub.stream import ring_buffer as rings
from tieline.hub.stream import subscriber as subscriber_module
from tieline.hub.stream import websocket as streams
from tieline.protocol.views import NodeView
from tieline.sessions.event_log import EventLog
from tieline.sessions.records import SessionRecord
from tieline.testing.wait_for import eventually


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncGenerator[Served]:
    async with on_sqlite(tmp_path) as hub:
        yield hub


async def write(hub: Served, count: int, session: str = "s1", size: int = 10) -> list[int]:
    log = EventLog(hub.bus)
    return [await log.append(session, Text(f"{number} ".ljust(size, "x"))) for number in range(count)]


def texts(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["event"]["text"].split()[0] for frame in frames]


# --- who it is ---


async def test_it_says_welcome_and_where_it_stands(hub: Served) -> None:
    await hub.bus.table("sessions").put("s1", msgspec.json.encode(SessionRecord(id="s1", agent="scripted", cwd="/")))
    async with client(hub) as stream:
        assert stream.frames[0]["protocol"] == 1
        assert stream.frames[0]["device"] == hub.device
        ready = await stream.subscribe()
        assert ready["state"] == "reset"  # it came with no epoch: it begins with the present
        assert ready["epoch"] == hub.hub.fanout.epoch
        assert ready["cursor"] == hub.hub.fanout.cursor
        assert set(ready["snapshot"]) == {"sessions", "asks", "prompts", "nodes", "teams", "marks"}


async def test_a_bearer_needs_no_first_frame(hub: Served) -> None:
    async with client(hub, token="", additional_headers={"Authorization": f"Bearer {hub.token}"}) as stream:
        await stream.subscribe()
        assert [frame["type"] for frame in stream.frames] == ["welcome", "ready"]


async def test_an_upgrade_that_is_known_may_authenticate_without_a_token(hub: Served) -> None:
    async with client(hub, token="", additional_headers={"Authorization": f"Bearer {hub.token}"}) as stream:
        await stream.say("authenticate")
        assert (await stream.hear())["type"] == "welcome"


async def test_strangers_are_turned_away(hub: Served) -> None:
    wrong = {"type": "authenticate", "token": "wrong"}
    for first, field in ((wrong, "token"), ({"type": "subscribe"}, ""), ({"type": "beat"}, "")):
        async with client(hub, token="") as stream:
            await stream.socket.send(json.dumps(first))
            assert await stream.closed() == 4401
            assert stream.frames[-1]["code"] == "Unauthenticated"
            assert stream.frames[-1].get("field", "") == field
    refused = [line.details for line in await hub.hub.audit.read(kind="refusal")]
    assert {"why": "unknown or revoked token", "request": "WEBSOCKET /api/v1/stream"} in refused
    assert len(refused) == 2, "a refusal that comes again is counted, not written again"


async def test_whoever_says_nothing_is_turned_away(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert streams.AUTHENTICATE_S == 10
    monkeypatch.setattr(streams, "AUTHENTICATE_S", 0.05)
    async with client(hub, token="") as stream:
        assert await stream.closed() == 4401


async def test_strangers_are_only_so_many(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_UNAUTHENTICATED", 1)
    async with client(hub, token="") as first, client(hub, token="") as second:
        assert await second.closed() == 1013
        await first.say("authenticate", token=hub.token)
        assert (await first.hear())["type"] == "welcome"


async def test_a_protocol_that_is_too_old_is_told_so(hub: Served) -> None:
    async with client(hub, token="") as stream:
        await stream.say("authenticate", token=hub.token, protocol=0)
        assert await stream.closed() == 4426
        assert stream.frames[-1]["field"] == "protocol"


async def test_a_nodes_key_does_not_open_it(hub: Served) -> None:
    _, key = await hub.hub.devices.add("node", "far away", node="n1")
    async with client(hub, token="") as stream:
        await stream.say("authenticate", token=key)
        assert await stream.closed() == 4401
    (refused,) = await hub.hub.audit.read(kind="refusal")
    assert refused.who.startswith("far away (") and refused.via == "127.0.0.1"


async def test_a_revoked_device_is_closed_at_once(hub: Served) -> None:
    device, key = await hub.hub.devices.add("page", "phone")
    async with client(hub, token=key) as waiting, client(hub, token=key) as following, client(hub) as other:
        await following.subscribe()
        await other.subscribe()
        await hub.hub.devices.revoke(device.id)
        assert await waiting.closed() == 4401
        assert await following.closed() == 4401
        assert "revoked" in following.frames[-1]["message"]
        (seq,) = await write(hub, 1)
        await other.until_seq(seq)
        assert following.events == []


# --- cursors ---


async def test_it_resumes_after_its_cursor(hub: Served) -> None:
    seqs = await write(hub, 10)
    epoch = hub.hub.fanout.epoch
    async with client(hub) as stream:
        assert (await stream.subscribe(after=seqs[3], epoch=epoch))["state"] == "ok"
        await stream.until_seq(seqs[-1])
        assert stream.seqs == seqs[4:]
        new = await write(hub, 3)
        await stream.until_seq(new[-1])
        assert stream.seqs == seqs[4:] + new


async def test_another_epoch_is_a_reset(hub: Served) -> None:
    seqs = await write(hub, 3)
    async with client(hub) as stream:
        assert (await stream.subscribe(after=seqs[0], epoch="another"))["state"] == "reset"
        assert (await stream.subscribe(after=seqs[-1] + 10**6, epoch=hub.hub.fanout.epoch))["state"] == "reset"
        (new,) = await write(hub, 1)
        await stream.until_seq(new)
        assert stream.seqs == [new]  # it begins with the present


async def test_what_was_trimmed_is_a_gap(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rings, "RING_EVENTS", 1)
    seqs = await write(hub, 10)
    at = [record.at async for record in hub.bus.read("events.>", follow=False)]
    assert await hub.hub.event_indexer.sync(60), "what is not counted yet is not trimmed"
    removed = await hub.hub.fanout.retention.trim(at[4] + 1e-9 if at[5] > at[4] else at[5])
    assert removed > 0
    left = [record.seq async for record in hub.bus.read("events.>", follow=False)]
    async with client(hub) as stream:
        assert (await stream.subscribe(after=seqs[0], epoch=hub.hub.fanout.epoch))["state"] == "gap"
        await stream.until_seq(seqs[-1])
        assert stream.seqs == left
        stream.frames.clear()
        assert (await stream.subscribe(after=left[0] - 1, epoch=hub.hub.fanout.epoch))["state"] == "ok"
        await stream.until_seq(seqs[-1])
        assert stream.seqs == left


async def test_an_empty_log_is_no_gap_later(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rings, "RING_EVENTS", 1)
    async with client(hub) as stream:
        ready = await stream.subscribe()
        seqs = await write(hub, 3)
        await stream.until_seq(seqs[-1])
        assert (await stream.subscribe(after=ready["cursor"], epoch=ready["epoch"]))["state"] == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("ring", [4, 10_000])
async def test_the_seam_has_neither_gap_nor_double(hub: Served, ring: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients come at any moment of a log that grows, from any cursor: from memory and from the log."""
    monkeypatch.setattr(rings, "RING_EVENTS", ring)
    first = await write(hub, 50)
    epoch = hub.hub.fanout.epoch

    async def follow(after: int) -> list[int]:
        async with client(hub) as stream:
            await stream.subscribe(after=after, epoch=epoch)
            await stream.until(lambda frame: frame.get("event", {}).get("text") == "the end")
            return stream.seqs

    writing = asyncio.create_task(write(hub, 300))
    following = [asyncio.create_task(follow(seq)) for seq in (0, *first[::10])]
    more = await writing
    last = await EventLog(hub.bus).append("s1", Text("the end"))
    everything = [*first, *more, last]
    for after, task in zip((0, *first[::10]), following, strict=True):
        assert await task == [seq for seq in everything if seq > after]


async def test_it_follows_only_the_sessions_it_names(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rings, "RING_EVENTS", 2)
    epoch = hub.hub.fanout.epoch
    for number in range(6):
        await write(hub, 1, session=f"s{number % 3}")
    async with client(hub) as stream:
        await stream.subscribe(after=0, epoch=epoch, sessions=["s1"])
        (seq,) = await write(hub, 1, session="s1")
        await stream.until_seq(seq)
        assert {frame["session"] for frame in stream.events} == {"s1"}
        assert len(stream.events) == 3
        stream.frames.clear()
        await stream.subscribe(after=0, epoch=epoch, sessions=["s1", "s2"])
        (seq,) = await write(hub, 1, session="s2")
        await stream.until_seq(seq)
        assert [frame["session"] for frame in stream.events] == ["s1", "s2", "s1", "s2", "s1", "s2"]
        stream.frames.clear()
        await stream.subscribe(after=0, epoch=epoch, events=False)
        await write(hub, 1)
        await hub.bus.table("nodes").put("n1", msgspec.json.encode(NodeView(id="n1")))
        await stream.until_type("node")
        assert stream.events == []


async def test_a_large_event_is_one_frame_wherever_one_begins(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts lie between another session's events; a cursor may be between them."""
    log = EventLog(hub.bus)
    large = "x" * (3 * 1024 * 1024)
    data = encode(Text(large))
    places: list[int] = []
    for part in range(4):
        piece = data[part * 1024 * 1024 : (part + 1) * 1024 * 1024]
        places.append(await hub.bus.publish("events.large", piece, headers={"Part": f"{part + 1}/4"}))
        places.append(await log.append("s1", Text(f"between {part}")))
    epoch = hub.hub.fanout.epoch
    last = places[-1]
    for ring in (10_000, 1):
        monkeypatch.setattr(rings, "RING_EVENTS", ring)
        (last,) = await write(hub, 1)
        for after in (0, places[1], places[4], places[5]):
            async with client(hub) as stream:
                await stream.subscribe(after=after, epoch=epoch)
                await stream.until_seq(last)
                frames = [frame for frame in stream.events if frame["session"] == "large"]
                assert [frame["seq"] for frame in frames] == [places[6]]
                assert frames[0]["event"]["text"] == large


async def test_what_is_no_event_does_not_end_the_stream(hub: Served) -> None:
    async with client(hub) as stream:
        await stream.subscribe()
        for bad in (b"", b"not json", b"[1]", b'{"type": "text", "text": "\xff"}', b'{"type":"new","item":{"a":1}}'):
            await hub.bus.publish("events.s1", bad)
            await hub.bus.announce("deltas.s1", bad)
        (seq,) = await write(hub, 1)
        await stream.until_seq(seq)
        assert [frame["event"]["type"] for frame in stream.events] == ["new", "text"]


# --- deltas and state ---


async def test_deltas_come_live_and_not_after_their_item(hub: Served) -> None:
    log = EventLog(hub.bus)
    async with client(hub) as stream:
        await stream.subscribe()
        await hub.bus.announce("deltas.s1", encode(TextDelta("hel", item="i1")))
        await stream.until_type("delta")
        seq = await log.append("s1", Text("hello", item="i1"))
        await stream.until_seq(seq)
        await hub.bus.announce("deltas.s1", encode(TextDelta("late", item="i1")))
        await hub.bus.announce("deltas.s1", encode(TextDelta("new", item="i2")))
        frame = await stream.until_type("delta")
        assert frame == {
            "type": "delta",
            "session": "s1",
            "event": {"type": "text_delta", "text": "new", "item": "i2"},
        }


async def test_deltas_can_be_left_out(hub: Served) -> None:
    async with client(hub) as stream:
        await stream.subscribe(deltas=False)
        await hub.bus.announce("deltas.s1", encode(TextDelta("hel", item="i1")))
        (seq,) = await write(hub, 1)
        await stream.until_seq(seq)
        assert not [frame for frame in stream.frames if frame["type"] == "delta"]


async def test_state_comes_as_it_changes(hub: Served) -> None:
    sessions = hub.bus.table("sessions")
    async with client(hub) as stream:
        await stream.subscribe(sessions=["another"])
        await sessions.put("s1", msgspec.json.encode(SessionRecord(id="s1", agent="scripted", cwd="/", title="t")))
        assert (await stream.until_type("session"))["session"]["title"] == "t"
        await sessions.put("s1", msgspec.json.encode(SessionRecord(id="s1", agent="scripted", cwd="/", title="u")))
        assert (await stream.until_type("session"))["session"]["title"] == "u"
        await sessions.delete("s1")
        assert await stream.until_type("gone") == {"type": "gone", "kind": "session", "id": "s1"}


# --- ends ---


BAD: list[tuple[str | bytes, str]] = [
    ("not json", ""),
    ("[]", ""),
    ("{}", "type"),
    ('{"type": "unheard"}', "type"),
    ('{"type": "subscribe", "after": "x"}', "after"),
    ('{"type": "subscribe", "after": -1}', "after"),
    ('{"type": "subscribe", "after": 1e400}', "after"),
    ('{"type": "subscribe", "sessions": ["a b"]}', "sessions"),
    ('{"type": "subscribe", "sessions": [">"]}', "sessions"),
    ('{"type": "subscribe", "sessions": [3]}', "sessions"),
    ('{"type": "visible"}', "visible"),
    ('{"type": "visible", "visible": 1}', "visible"),
    ('{"type": "authenticate", "token": "again"}', "type"),
    ('{"type": "beat", "more": "' + "x" * 300_000 + '"}', ""),
    (b"binary", ""),
]


async def test_a_bad_frame_is_named(hub: Served) -> None:
    for text, field in BAD:
        async with client(hub) as stream:
            await stream.subscribe()
            await stream.socket.send(text)
            assert await stream.closed() == 4400, text
            assert stream.frames[-1]["type"] == "problem"
            assert stream.frames[-1].get("field", "") == field, stream.frames[-1]
    await eventually(lambda: not hub.hub.fanout.subscribers, "a subscriber is left", timeout=BOUND_S)


async def test_silence_ends_it(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SILENCE_S", 0.2)
    async with client(hub) as stream:
        await stream.subscribe()
        assert await stream.closed() == 1001


async def test_the_hub_says_beat_when_it_has_nothing_else_to_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fanouts, "HEARTBEAT_S", 0.1)
    async with on_sqlite(tmp_path) as hub, client(hub) as stream:
        await stream.subscribe()
        assert (await stream.until_type("beat"))["at"] > 0
        await stream.say("beat")
        await stream.until_type("beat")


async def test_a_client_that_takes_nothing_is_dropped_and_resumes(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriber_module, "STALL_S", 0.3)
    epoch = hub.hub.fanout.epoch
    async with client(hub, max_queue=1) as slow:
        await slow.subscribe()
        slow.socket.transport.pause_reading()
        seqs: list[int] = []
        async with asyncio.timeout(BOUND_S):
            while hub.hub.fanout.subscribers:
                seqs += await write(hub, 1, size=500_000)
        slow.socket.transport.resume_reading()
        assert await slow.closed() in (4408, 1006)
        last = slow.seqs[-1] if slow.seqs else 0
    async with client(hub) as again:
        await again.subscribe(after=last, epoch=epoch)
        (final,) = await write(hub, 1)
        await again.until_seq(final)
        assert slow.seqs + again.seqs == [*seqs, final]


async def test_deltas_of_a_client_that_is_behind_are_joined(hub: Served) -> None:
    """It is behind while it does not read; what it hears then is whole: events, the latest state, joined deltas."""
    async with client(hub, max_queue=1) as slow, client(hub) as quick:
        await slow.subscribe()
        await quick.subscribe()
        slow.socket.transport.pause_reading()
        seqs: list[int] = []
        async with asyncio.timeout(BOUND_S):
            while not any(subscriber.behind for subscriber in hub.hub.fanout.subscribers):
                seqs += await write(hub, 1, size=500_000)
                await quick.until_seq(seqs[-1])
                quick.frames.clear()
        for number in range(100):
            await hub.bus.announce("deltas.s1", encode(TextDelta(f"{number},", item="i1")))
            await hub.bus.table("nodes").put("n1", msgspec.json.encode(NodeView(id="n1", seen_at=float(number))))
        await quick.until(lambda frame: frame["type"] == "node" and frame["node"].get("seen_at") == 99.0)
        slow.socket.transport.resume_reading()
        (last,) = await write(hub, 1)
        await slow.until_seq(last)
        assert slow.seqs == [*seqs, last]

        def heard() -> str:
            return "".join(frame["event"]["text"] for frame in slow.frames if frame["type"] == "delta")

        wanted = "".join(f"{number}," for number in range(100))
        while heard() != wanted:
            await slow.hear()
        assert len([frame for frame in slow.frames if frame["type"] == "delta"]) < 10
        nodes = [frame["node"].get("seen_at", 0.0) for frame in slow.frames if frame["type"] == "node"]
        while 99.0 not in nodes:
            nodes.append((await slow.until_type("node"))["node"]["seen_at"])
        assert nodes == sorted(nodes)
        assert len(nodes) < 50


async def test_the_hub_tells_its_clients_that_it_ends(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path) as hub:
        connected = client(hub)
        stream = await connected.__aenter__()
        await stream.subscribe()
    try:
        assert await stream.closed() in (1012, 1006)
    finally:
        await connected.__aexit__(None, None, None)
