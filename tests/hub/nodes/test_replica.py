"""A node's log at the hub: each record once and in order, whenever the hub died; and nothing that is another's."""

from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tieline.bus import Bus, open_bus
from tieline.events import Ask
from tieline.hub.nodes.replica import Replica, ReplicaCursor
from tieline.protocol.node_link import ORIGIN, LinkState, LogRecord
from tieline.sessions.event_log import AT, happened_at
from tieline.sessions.records import AskRecord, PromptRecord, SessionRecord

SEQS = (3, 4, 9, 10, 11, 20)


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncGenerator[Bus]:
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        yield bus


def record(seq: int, session: str = "s") -> LogRecord:
    return LogRecord(seq=seq, subject=f"events.{session}", data=f"{session} {seq}".encode(), at=1000.0 + seq)


def session(id: str, *, seq: int = 0, node: str = "whoever it says") -> LinkState:
    value = msgspec.json.encode(SessionRecord(id=id, agent="a", cwd="/", node=node, seq=seq))
    return LinkState(table="sessions", key=id, value=msgspec.Raw(value))


async def open_replica(bus: Bus, node: str = "n1", epoch: str = "e1") -> Replica:
    replica = Replica(bus, node, epoch)
    await replica.load()
    return replica


async def log(bus: Bus, session: str = "s") -> list[str]:
    return [entry.data.decode() async for entry in bus.read(f"events.{session}", follow=False)]


async def stored(bus: Bus, id: str) -> SessionRecord:
    entry = await bus.table("sessions").get(id)
    assert entry is not None
    return msgspec.json.decode(entry.value, type=SessionRecord)


@pytest.mark.parametrize("crash_after", range(len(SEQS) + 1))
@pytest.mark.parametrize("written_down", [False, True])
async def test_goes_on_exactly_where_it_was(bus: Bus, crash_after: int, written_down: bool) -> None:
    """Not by the bus's memory of ids, which is short: by what is in the hub's own log."""
    replica = await open_replica(bus)
    await replica.apply(session("s"))
    for seq in SEQS[:crash_after]:
        await bus.publish("events.other", b"between")
        assert await replica.append([record(seq)]) == seq
        if written_down:
            await replica.save_cursor(force=True)
    again = Replica(bus, "n1", "e1")
    assert await again.load() == (SEQS[crash_after - 1] if crash_after else 0)
    await again.append([record(seq) for seq in SEQS])  # some of them again
    assert await log(bus) == [f"s {seq}" for seq in SEQS]
    headers = [entry.headers async for entry in bus.read("events.s", follow=False)]
    assert headers[0][ORIGIN] == "n1 e1 3 0" and headers[1][ORIGIN] == "n1 e1 4 3"
    assert float(headers[0][AT]) == 1003.0
    assert [happened_at(entry) async for entry in bus.read("events.s", follow=False)] == [1000.0 + seq for seq in SEQS]


async def test_a_gap_is_filled_and_what_is_behind_it_is_not_doubled(bus: Bus) -> None:
    """The bus failed in the middle of a batch: one record is missing, later ones are there."""
    replica = await open_replica(bus)
    await replica.apply(session("s"))
    await replica.append([record(3)])
    await bus.publish("events.s", b"s 9", headers={ORIGIN: "n1 e1 9 4"})
    again = Replica(bus, "n1", "e1")
    assert await again.load() == 3
    await again.append([record(4), record(9), record(10)])
    assert sorted(await log(bus)) == ["s 10", "s 3", "s 4", "s 9"]
    three = Replica(bus, "n1", "e1")
    assert await three.load() == 10


async def test_another_log_begins_anew(bus: Bus) -> None:
    replica = await open_replica(bus)
    await replica.apply(session("s"))
    await replica.append([record(3), record(4)])
    again = Replica(bus, "n1", "e2")
    assert await again.load() == 0
    await again.append([record(3)])
    assert await log(bus) == ["s 3", "s 4", "s 3"]
    assert await Replica(bus, "n1", "e2").load() == 3


async def test_at_rest_nothing_need_be_read_again(bus: Bus) -> None:
    replica = await open_replica(bus)
    await replica.apply(session("s"))
    await replica.append([record(3)])
    for _ in range(5):
        await bus.publish("events.other", b"x")
    await replica.save_idle()
    entry = await bus.table("replicas").get("n1")
    assert entry is not None
    assert msgspec.json.decode(entry.value, type=ReplicaCursor).hub_seq == await bus.last("events.>")
    assert await Replica(bus, "n1", "e1").load() == 3


async def test_only_its_own_sessions(bus: Bus) -> None:
    other = await open_replica(bus, "n2")
    await other.apply(session("theirs"))
    ask = AskRecord(id="a1", session="theirs", ask=Ask("a1", "plan"), digest="")
    await other.apply(LinkState(table="asks", key="a1", value=msgspec.Raw(msgspec.json.encode(ask))))
    replica = await open_replica(bus)
    await replica.apply(session("s"))
    assert (await stored(bus, "s")).node == "n1"
    # Another's session, under its own name and stamped as ever it likes.
    await replica.apply(session("theirs", node="n2"))
    assert (await stored(bus, "theirs")).node == "n2"
    # One key for another.
    await replica.apply(LinkState(table="sessions", key="t", value=session("s").value))
    assert await bus.table("sessions").get("t") is None
    # Another's events, and what is no session's at all.
    await replica.append([record(1, "theirs"), LogRecord(seq=2, subject="commands.n2", data=b"{}"), record(3)])
    assert await log(bus, "theirs") == [] and await log(bus) == ["s 3"]
    assert await bus.last("commands.n2") == 0
    # Prompts and asks in another's session, or over another's.
    prompt = msgspec.json.encode(PromptRecord(id="p", session="theirs", text="x"))
    await replica.apply(LinkState(table="prompts", key="theirs.p", value=msgspec.Raw(prompt)))
    own = msgspec.json.encode(PromptRecord(id="p", session="s", text="x"))
    await replica.apply(LinkState(table="prompts", key="theirs.p", value=msgspec.Raw(own)))
    assert await bus.table("prompts").keys() == []
    mine = msgspec.structs.replace(ask, session="s")
    await replica.apply(LinkState(table="asks", key="a1", value=msgspec.Raw(msgspec.json.encode(mine))))
    entry = await bus.table("asks").get("a1")
    assert entry is not None and msgspec.json.decode(entry.value, type=AskRecord).session == "theirs"
    # What it does not have it cannot remove.
    await replica.apply(LinkState(table="sessions", key="theirs"))
    await replica.finish_sync("sessions")
    assert await bus.table("sessions").keys() == ["s", "theirs"]
    assert replica.refused == 7


async def test_an_ask_is_its_own_under_its_own_id_only(bus: Bus) -> None:
    """People are shown the record and answer by its id: a node must not show its words over another one's ask."""
    replica = await open_replica(bus)
    await replica.apply(session("s"))

    async def takes(key: str, id: str, inner: str) -> bool:
        forged = AskRecord(id=id, session="s", ask=Ask(inner, "plan"), digest="")
        await replica.apply(LinkState(table="asks", key=key, value=msgspec.Raw(msgspec.json.encode(forged))))
        return await bus.table("asks").get(key) is not None

    assert not await takes("k1", "theirs", "theirs")
    assert not await takes("k2", "k2", "theirs")
    assert replica.refused == 2
    assert await takes("k3", "k3", "k3")


async def test_what_is_gone_at_the_node_goes(bus: Bus) -> None:
    replica = await open_replica(bus)
    for id in ("s", "t", "u"):
        await replica.apply(session(id))
    await replica.apply(LinkState(table="sessions", key="t"))
    assert await bus.table("sessions").keys() == ["s", "u"]
    again = await open_replica(bus)
    await again.apply(session("u"))
    await again.finish_sync("sessions")
    assert await bus.table("sessions").keys() == ["u"]


async def test_a_sessions_place_is_told_in_the_hubs_numbers(bus: Bus) -> None:
    for _ in range(10):
        await bus.publish("events.other", b"x")
    replica = await open_replica(bus)
    await replica.apply(session("s", seq=9))  # the state came before the records that it speaks of
    assert (await stored(bus, "s")).seq == 0
    await replica.append([record(3), record(9), record(10)])
    places = [entry.seq async for entry in bus.read("events.s", follow=False)]
    assert (await stored(bus, "s")).seq == places[1]
    await replica.apply(session("s", seq=10))
    assert (await stored(bus, "s")).seq == places[2]


@hypothesis_settings(max_examples=25)
@given(lives=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4), st.booleans()), max_size=6))
async def test_any_number_of_crashes(lives: list[tuple[int, int, bool]]) -> None:
    """However often it dies and however the node batches: each once, in order."""
    source = list(range(1, 40, 2))
    async with open_bus("sqlite://:memory:") as bus:
        for batches, size, written in [*lives, (100, 3, False)]:
            replica = Replica(bus, "n1", "e1")
            after = await replica.load()
            await replica.apply(session("s"))
            left = [seq for seq in source if seq > after]
            for start in range(0, min(len(left), batches * size), size):
                await replica.append([record(seq) for seq in left[start : start + size]])
            if written:
                await replica.save_cursor(force=True)
        assert await log(bus) == [f"s {seq}" for seq in source]
