"""Publishing: order, ids, headers, sizes, patterns, trimming, clear refusals."""

import asyncio
import time

import pytest

from ...bus import MAX_RECORD, BadSubject, Bus, Record, RecordTooLarge
from ...errors import UsageError
from .base import BusContractBase, all_of, opened


async def bodies(bus: Bus, pattern: str, after: int = 0) -> list[bytes]:
    return [record.data for record in await all_of(bus.read(pattern, after=after, follow=False))]


class PublishingContract(BusContractBase):
    async def test_a_record_comes_back_whole(self, bus: Bus, family: str) -> None:
        before = time.time()
        seq = await bus.publish(f"{family}.a", b"\x00\xff", headers={"Kind": "tést", "Empty": ""})
        (record,) = await all_of(bus.read(f"{family}.a", follow=False))
        assert (record.subject, record.seq, record.data) == (f"{family}.a", seq, b"\x00\xff")
        assert record.headers == {"Kind": "tést", "Empty": ""}
        assert before - 60 < record.at < time.time() + 60

    async def test_no_headers_are_no_headers(self, bus: Bus, family: str) -> None:
        await bus.publish(f"{family}.a", b"", id="one")
        (record,) = await all_of(bus.read(f"{family}.a", follow=False))
        assert (record.data, dict(record.headers)) == (b"", {})

    async def test_order_and_growing_cursors(self, bus: Bus, family: str) -> None:
        seqs = [await bus.publish(f"{family}.{n % 3}", str(n).encode()) for n in range(30)]
        assert seqs == sorted(set(seqs))
        assert await bodies(bus, f"{family}.*") == [str(n).encode() for n in range(30)]
        assert await bodies(bus, f"{family}.1") == [str(n).encode() for n in range(1, 30, 3)]

    async def test_each_publisher_keeps_its_order(self, bus: Bus, family: str) -> None:
        async def publisher(name: int) -> None:
            for n in range(20):
                await bus.publish(f"{family}.x", f"{name} {n}".encode())

        await asyncio.gather(*(publisher(name) for name in range(10)))
        published = [body.decode().split() for body in await bodies(bus, f"{family}.x")]
        assert len(published) == 200
        for name in range(10):
            assert [int(n) for who, n in published if who == str(name)] == list(range(20))

    async def test_calls_at_once_keep_their_order(self, bus: Bus, family: str) -> None:
        """Also the very first records, for which a bus may have to create a stream."""
        calls = [bus.publish(f"{family}.{n % 10}", str(n).encode()) for n in range(500)]
        await asyncio.gather(*calls)
        for subject in range(10):
            numbers = [int(body) for body in await bodies(bus, f"{family}.{subject}")]
            assert numbers == list(range(subject, 500, 10))

    async def test_under_way_in_the_order_of_the_calls(self, bus: Bus, family: str) -> None:
        ways = [bus.publish_nowait(f"{family}.a", str(n).encode(), headers={"n": str(n)}) for n in range(100)]
        seqs = await asyncio.gather(*ways)
        assert seqs == sorted(seqs)
        assert [int(body) for body in await bodies(bus, f"{family}.a")] == list(range(100))
        assert await bus.publish_nowait(f"{family}.a", b"again", id="x") == await bus.publish(
            f"{family}.a", b"", id="x"
        )
        with pytest.raises(BadSubject):
            await bus.publish_nowait("no good", b"")

    async def test_the_same_id_is_one_record(self, bus: Bus, family: str) -> None:
        first = await bus.publish(f"{family}.a", b"first", id="x")
        assert await bus.publish(f"{family}.a", b"second", id="x") == first
        assert await bus.publish(f"{family}.b", b"elsewhere in the family", id="x") == first
        other = await bus.publish(f"{family}.a", b"other", id="y")
        assert other > first
        assert await bodies(bus, f"{family}.>") == [b"first", b"other"]

    async def test_the_same_id_in_another_family_is_another_record(self, bus: Bus, family: str) -> None:
        await bus.publish(f"{family}.a", b"one", id="x")
        await bus.publish(f"{family}0.a", b"two", id="x")
        assert await bodies(bus, f"{family}0.a") == [b"two"]

    async def test_the_same_id_at_the_same_moment(self, bus: Bus, family: str) -> None:
        seqs = await asyncio.gather(*(bus.publish(f"{family}.a", b"x", id=f"id{n % 10}") for n in range(100)))
        assert len(set(seqs)) == 10
        assert len(await bodies(bus, f"{family}.a")) == 10

    async def test_ids_and_records_outlive_the_bus(self, url: str, family: str) -> None:
        async with opened(url) as bus:
            first = await bus.publish(f"{family}.a", b"one", id="x")
        if url.endswith(":memory:"):
            return
        async with opened(url) as bus:
            assert await bus.publish(f"{family}.a", b"two", id="x") == first
            assert await bus.publish(f"{family}.a", b"three") > first
            assert await bodies(bus, f"{family}.a") == [b"one", b"three"]

    async def test_patterns(self, bus: Bus, family: str) -> None:
        for name in ("agent", "agent.a", "agent.b", "agent.a.deep", "agentless.x", "other.a"):
            await bus.publish(f"{family}.{name}", name.encode())
        await bus.publish(family, b"bare")
        for pattern, expected in {
            f"{family}.agent.>": [b"agent.a", b"agent.b", b"agent.a.deep"],
            f"{family}.agent.*": [b"agent.a", b"agent.b"],
            f"{family}.*.a": [b"agent.a", b"other.a"],
            f"{family}.*.a.>": [b"agent.a.deep"],
            f"{family}.*": [b"agent"],
            f"{family}.agent": [b"agent"],
            family: [b"bare"],
            f"{family}.nothing.>": [],
        }.items():
            assert await bodies(bus, pattern) == expected, pattern

    async def test_a_family_is_no_prefix(self, bus: Bus, family: str) -> None:
        await bus.publish(f"{family}.a", b"mine")
        await bus.publish(f"{family}0.a", b"another family's")
        assert await bodies(bus, f"{family}.>") == [b"mine"]

    @pytest.mark.parametrize("size", [0, 1, 65536, MAX_RECORD])
    async def test_sizes(self, bus: Bus, family: str, size: int) -> None:
        data = bytes(range(256)) * (size // 256 + 1)
        await bus.publish(f"{family}.a", data[:size], id="large", headers={"K": "v"})
        assert await bodies(bus, f"{family}.a") == [data[:size]]

    async def test_too_large(self, bus: Bus, family: str) -> None:
        with pytest.raises(RecordTooLarge, match="1,048,577") as caught:
            await bus.publish(f"{family}.a", bytes(MAX_RECORD + 1))
        assert (caught.value.field, caught.value.limit) == ("data", MAX_RECORD)
        assert await bodies(bus, f"{family}.a") == []

    @pytest.mark.parametrize(
        "subject",
        [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "a b",
            "a.\n",
            "a.*",
            "a.>",
            "*",
            ">",
            "$JS.API",
            "_INBOX.x",
            "a.\x00",
            "a.\ud800",
        ],
    )
    async def test_bad_subjects(self, bus: Bus, subject: str) -> None:
        with pytest.raises(BadSubject, match="bad subject") as caught:
            await bus.publish(subject, b"")
        assert caught.value.field == "subject"
        assert caught.value.problem

    @pytest.mark.parametrize("pattern", ["", "a..b", "a.>.b", "a.b*", "a.>x", "*.a", ">", "*"])
    async def test_bad_patterns(self, bus: Bus, pattern: str) -> None:
        with pytest.raises(BadSubject, match="bad pattern"):
            await anext(bus.read(pattern))
        with pytest.raises(BadSubject, match="bad pattern"):
            await bus.trim(pattern, keep=1)

    @pytest.mark.parametrize(
        "headers", [{"": "x"}, {"a b": "x"}, {"Nats-Msg-Id": "x"}, {"A": "two\nlines"}, {"A": " "}]
    )
    async def test_bad_headers(self, bus: Bus, family: str, headers: dict[str, str]) -> None:
        with pytest.raises(BadSubject, match="bad headers"):
            await bus.publish(f"{family}.a", b"", headers=headers)

    async def test_bad_ids(self, bus: Bus, family: str) -> None:
        for id in ("", " x", "\n", "x" * 257):
            with pytest.raises(BadSubject, match="bad id"):
                await bus.publish(f"{family}.a", b"", id=id)

    async def test_trim_keeps_the_newest(self, bus: Bus, family: str) -> None:
        for n in range(10):
            await bus.publish(f"{family}.{'ab'[n % 2]}", str(n).encode())
        assert await bus.trim(f"{family}.a", keep=2) == 3
        assert await bodies(bus, f"{family}.a") == [b"6", b"8"]
        assert len(await bodies(bus, f"{family}.b")) == 5
        assert await bus.trim(f"{family}.>", keep=3) == 4
        assert await bodies(bus, f"{family}.>") == [b"7", b"8", b"9"]
        assert await bus.trim(f"{family}.>", keep=100) == 0

    async def test_trim_before(self, bus: Bus, family: str) -> None:
        seqs = [await bus.publish(f"{family}.{'ab'[n % 2]}", str(n).encode()) for n in range(10)]
        assert await bus.trim(f"{family}.*", before=seqs[4]) == 4
        assert await bodies(bus, f"{family}.>") == [b"4", b"5", b"6", b"7", b"8", b"9"]
        assert await bus.trim(f"{family}.nobody", before=seqs[4]) == 0

    async def test_cursors_grow_after_everything_was_trimmed(self, url: str, bus: Bus, family: str) -> None:
        last = await bus.publish(f"{family}.a", b"one")
        assert await bus.trim(f"{family}.a", keep=0) == 1
        assert await bodies(bus, f"{family}.>") == []
        assert await bus.publish(f"{family}.a", b"two") > last
        assert await bodies(bus, f"{family}.>", after=last) == [b"two"]

    async def test_trim_wants_one_of_two(self, bus: Bus, family: str) -> None:
        for options in ({}, {"keep": 1, "before": 1}, {"keep": -1}):
            with pytest.raises(UsageError):
                await bus.trim(f"{family}.a", **options)

    async def test_stats(self, bus: Bus, family: str) -> None:
        before = await bus.stats()
        seq = await bus.publish(f"{family}.a", b"x" * 1000)
        await bus.publish(f"{family}.b", b"x")
        after = await bus.stats()
        assert after.records - before.records == 2
        assert after.subjects - before.subjects == 2
        assert after.last >= seq
        assert after.bytes > 0


def cursors(records: list[Record]) -> list[int]:
    return [record.seq for record in records]
