"""What a follower holds when it does not keep up."""

from tieline.bus import Record
from tieline.bus.sqlite.log_follower import LogFollower
from tieline.bus.sqlite.record_query import CHUNK_BYTES, CHUNK_RECORDS


async def live(woken: list[bool]) -> LogFollower:
    feed = LogFollower("a.b", 0, lambda: woken.append(True))

    async def nothing(_: object) -> tuple[list[Record], int, bool]:
        return [], 0, True

    await feed.replay(nothing)
    assert not feed.behind
    return feed


async def test_it_keeps_a_bounded_number_and_knows_that_it_is_behind() -> None:
    woken: list[bool] = []
    feed = await live(woken)
    for seq in range(1, 10_001):
        feed.offer(Record("a.b", seq, b"x", {}, 0.0))
    assert [record.seq for record in feed.buffer] == list(range(1, CHUNK_RECORDS + 1))
    assert feed.behind
    assert woken == [True], "one wake-up for many records"


async def test_it_keeps_a_bounded_number_of_bytes() -> None:
    feed = await live([])
    for seq in range(1, 100):
        feed.offer(Record("a.b", seq, bytes(1024 * 1024), {}, 0.0))
    assert sum(len(record.data) for record in feed.buffer) <= CHUNK_BYTES
    assert feed.behind


async def test_what_it_missed_is_read_from_where_it_is() -> None:
    feed = await live([])
    for seq in range(1, 1000):
        feed.offer(Record("a.b", seq, b"x", {}, 0.0))
    last = feed.take()
    while feed.buffer:
        last = feed.take()
    asked: list[object] = []

    async def read(look: object) -> tuple[list[Record], int, bool]:
        asked.append(look)
        feed.offer(Record("a.b", 1000, b"committed meanwhile, and read", {}, 0.0))
        feed.offer(Record("a.b", 1001, b"committed meanwhile", {}, 0.0))
        return [Record("a.b", seq, b"x", {}, 0.0) for seq in range(last.seq + 1, 1001)], 1000, True

    await feed.replay(read)
    assert [record.seq for record in feed.buffer] == list(range(CHUNK_RECORDS + 1, 1002))
    assert not feed.behind
