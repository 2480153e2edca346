"""The fan-out by itself, and several hubs on one bus: any hub serves any client the same."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.bus.conftest import NatsServer, running
from tests.hub.streaming import BOUND_S, client, served

from tieline.bus import open_bus
from tieline.bus.base import Bus
from tieline.events import Text, TextDelta, encode
from tieline.hub.state.live_state import LiveState
from tieline.hub.stream import ring_buffer as rings
from tieline.hub.stream.encoded_frames import EncodedFrame
from tieline.hub.stream.fanout import Fanout
from tieline.hub.stream.subscriber import Subscriber
from tieline.sessions.event_log import EventLog
from tieline.sessions.records import SessionRecord
from tieline.testing.wait_for import eventually


class Sink:
    """A connection that takes what it is sent, or, while `shut`, nothing."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.taken: list[Any] = []
        self.ended: list[tuple[int, str]] = []

    async def send(self, message: Any) -> None:
        await self.open.wait()
        framed = message["framed"]
        self.taken.append(msgspec.json.decode(framed[framed.index(b"{") :]))

    def dropped(self, code: int, why: str) -> None:
        self.ended.append((code, why))

    @property
    def seqs(self) -> list[int]:
        return [frame["seq"] for frame in self.taken if frame["type"] == "event"]


def follow(fanout: Fanout, sink: Sink, cursor: int = 0) -> Subscriber:
    follower = Subscriber(fanout, sink.send, sink.dropped)
    follower.configure(cursor, None, events=True, deltas=True)
    fanout.add(follower, EncodedFrame(b'{"type":"ready"}'))
    return follower


async def write(bus: Bus, count: int, text: str = "x") -> list[int]:
    log = EventLog(bus)
    return [await log.append("s1", Text(text)) for _ in range(count)]


async def test_its_epoch_stays_and_its_ring_is_warm(tmp_path: Path) -> None:
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus, LiveState(bus) as state:
        async with Fanout(bus, state) as fanout:
            epoch = fanout.epoch
            seqs = await write(bus, 5)
        async with Fanout(bus, state) as fanout:
            assert fanout.epoch == epoch
            assert fanout.cursor == seqs[-1]
            recent = fanout.recent_after(seqs[1])
            assert recent is not None
            assert [packet.seq for packet in recent] == seqs[2:]
    async with open_bus(f"sqlite://{tmp_path}/other.db") as bus, LiveState(bus) as state, Fanout(bus, state) as fanout:
        assert fanout.epoch != epoch


async def test_a_client_that_keeps_up_has_no_task(tmp_path: Path) -> None:
    async with (
        open_bus(f"sqlite://{tmp_path}/bus.db") as bus,
        LiveState(bus) as state,
        Fanout(bus, state) as fanout,
    ):
        sinks = [Sink() for _ in range(20)]
        before = len(asyncio.all_tasks())
        for sink in sinks:
            follow(fanout, sink)
        seqs = await write(bus, 10)
        await eventually(lambda: all(sink.seqs == seqs for sink in sinks), "not all were told", timeout=BOUND_S)
        assert len(asyncio.all_tasks()) <= before
        # One frame for all of them, encoded once.
        assert fanout.recent_after(0) is not None


async def test_whoever_falls_out_of_the_ring_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rings, "RING_EVENTS", 10)
    async with (
        open_bus(f"sqlite://{tmp_path}/bus.db") as bus,
        LiveState(bus) as state,
        Fanout(bus, state) as fanout,
    ):
        slow, quick = Sink(), Sink()
        follower = follow(fanout, slow)
        follow(fanout, quick)
        slow.open.clear()
        seqs = await write(bus, 50)
        await eventually(lambda: quick.seqs == seqs, "the other one is held up", timeout=BOUND_S)
        assert follower.behind
        slow.open.set()
        await eventually(lambda: bool(slow.ended), "not dropped", timeout=BOUND_S)
        assert slow.ended[0][0] == 4408
        again = Sink()
        follow(fanout, again, slow.seqs[-1])  # and comes back with its cursor
        await eventually(lambda: slow.seqs + again.seqs == seqs, "not caught up", timeout=BOUND_S)


async def test_deltas_beyond_measure_wait_for_their_item(tmp_path: Path) -> None:
    """Of an item too large for what is kept, nothing more is said until it is whole: a hole would be worse."""
    async with (
        open_bus(f"sqlite://{tmp_path}/bus.db") as bus,
        LiveState(bus) as state,
        Fanout(bus, state) as fanout,
    ):
        sink, quick = Sink(), Sink()
        follower = follow(fanout, sink)
        follow(fanout, quick)
        sink.open.clear()
        await write(bus, 1)
        await eventually(
            lambda: follower.behind, "the event is not on its way", timeout=BOUND_S
        )  # else the first delta is
        for _ in range(40):
            await bus.announce("deltas.s1", encode(TextDelta("x" * 10_000, item="large")))
            await bus.announce("deltas.s1", encode(TextDelta("y", item="small")))

        def text_of(sink: Sink, item: str) -> str:
            return "".join(frame["event"]["text"] for frame in sink.taken if frame.get("event", {}).get("item") == item)

        await eventually(lambda: len(text_of(quick, "small")) == 40, "not told", timeout=BOUND_S)
        sink.open.set()
        await eventually(lambda: len(text_of(sink, "small")) == 40, "not told", timeout=BOUND_S)
        assert text_of(sink, "large") == ""
        await bus.announce("deltas.s1", encode(TextDelta("more", item="large")))
        seq = await EventLog(bus).append("s1", Text("whole", item="large"))
        await eventually(lambda: seq in sink.seqs, "the item did not come", timeout=BOUND_S)
        assert text_of(sink, "large") == "whole"


async def test_it_trims_what_is_too_old(tmp_path: Path) -> None:
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus, LiveState(bus) as state:
        await write(bus, 3)
        async with Fanout(bus, state, keep_events_days=1e-9) as fanout:
            async with asyncio.timeout(BOUND_S):
                while await bus.first("events.>"):  # noqa: ASYNC110 (it happens in the bus)
                    await asyncio.sleep(0.02)
            assert fanout.epoch


async def talk(bus: Bus) -> None:
    """Deltas are for those who listen already: said until somebody does."""
    while True:
        await bus.announce("deltas.s1", encode(TextDelta("hel", item="i1")))
        await asyncio.sleep(0.05)


async def test_two_hubs_on_one_nats_serve_the_same(tmp_path: Path) -> None:
    """Events, deltas and state; and a client goes from one to the other with its cursor."""
    async with (
        running(NatsServer(tmp_path / "nats")) as server,
        open_bus(server.url) as bus,
        open_bus(server.url) as other_bus,
        served(bus, tmp_path / "one") as hub,
        served(other_bus, tmp_path / "two") as other,
    ):
        assert hub.hub.fanout.epoch == other.hub.fanout.epoch
        async with client(hub) as first, client(other) as second:
            await first.subscribe()
            await second.subscribe()
            record = SessionRecord(id="s1", agent="scripted", cwd="/")
            for writer in (bus, other_bus):
                await writer.table("sessions").put("s1", msgspec.json.encode(record))
                for reader in (first, second):
                    await reader.until_type("session")
                talking = asyncio.create_task(talk(writer))
                for reader in (first, second):
                    await reader.until_type("delta")
                talking.cancel()
            seqs = await write(bus, 20) + await write(other_bus, 20)
            assert [frame["seq"] for frame in await first.until_seq(seqs[-1])] == seqs
            assert [frame["seq"] for frame in await second.until_seq(seqs[-1])] == seqs
            first_frames = {frame["seq"]: frame for frame in first.events}
            assert all(first_frames[frame["seq"]] == frame for frame in second.events)
        more = await write(bus, 5)
        async with client(other) as again:  # it was the first hub's client
            assert (await again.subscribe(after=seqs[-1], epoch=hub.hub.fanout.epoch))["state"] == "ok"
            await again.until_seq(more[-1])
            assert again.seqs == more
