"""Reading: from a cursor, following, across the seam, slowly."""

import asyncio
import random
from contextlib import aclosing

import pytest

from ...bus import Bus, BusClosed, Record
from .base import BOUND, BusContractBase, all_of, first, opened, some

KIB = 1024
BEGINNINGS = 30
"""Moments at which a bus is closed on those who only just begin."""


class ReadContract(BusContractBase):
    async def test_after_a_cursor(self, bus: Bus, family: str) -> None:
        seqs = [await bus.publish(f"{family}.a", str(n).encode()) for n in range(10)]
        records = await all_of(bus.read(f"{family}.a", after=seqs[6], follow=False))
        assert [record.seq for record in records] == seqs[7:]
        assert await all_of(bus.read(f"{family}.a", after=seqs[9], follow=False)) == []
        assert await all_of(bus.read(f"{family}.a", after=seqs[9] + 1000, follow=False)) == []

    async def test_nothing_there_yet(self, bus: Bus, family: str) -> None:
        assert await all_of(bus.read(f"{family}.>", follow=False)) == []
        async with aclosing(bus.read(f"{family}.>")) as reader:
            pending = asyncio.ensure_future(first(reader))
            await bus.publish(f"{family}.a", b"first")
            assert (await pending).data == b"first"

    @pytest.mark.parametrize("pattern", ["{}.a", "{}.*", "{}.>"])
    async def test_replay_then_follow_while_others_publish(self, bus: Bus, family: str, pattern: str) -> None:
        """Readers that begin at any moment see everything once, in order."""
        total = 400

        async def publish() -> None:
            for start in range(0, total, 8):
                await asyncio.gather(*(bus.publish(f"{family}.a", str(n).encode()) for n in range(start, start + 8)))

        async def follow(begin: int) -> list[Record]:
            async with aclosing(bus.read(f"{family}.a")) as progress, asyncio.timeout(BOUND):
                async for record in progress:  # begin when this many records exist
                    if int(record.data) >= begin:
                        break
            return await some(bus.read(pattern.format(family)), total)

        results = await asyncio.gather(publish(), *(follow(begin) for begin in range(0, total, 50)))
        for records in results[1:]:
            assert records is not None
            assert sorted(int(record.data) for record in records) == list(range(total))
            assert [record.seq for record in records] == sorted({record.seq for record in records})

    async def test_live_is_the_same_as_replay(self, bus: Bus, family: str) -> None:
        async with aclosing(bus.read(f"{family}.>")) as reader:
            pending = asyncio.ensure_future(first(reader))
            await bus.publish(f"{family}.a", b"1", headers={"K": "v"})
            live = [await pending]
            await bus.publish(f"{family}.b.c", b"2")
            live.append(await first(reader))
        assert await all_of(bus.read(f"{family}.>", follow=False)) == live

    async def test_many_followers_each_get_everything(self, bus: Bus, family: str) -> None:
        readers = [asyncio.ensure_future(some(bus.read(f"{family}.{n % 5}"), 10)) for n in range(50)]
        await asyncio.gather(*(bus.publish(f"{family}.{n % 5}", str(n).encode()) for n in range(50)))
        for number, records in enumerate(await asyncio.gather(*readers)):
            assert sorted(int(record.data) for record in records) == list(range(number % 5, 50, 5))

    async def test_a_slow_reader_holds_nobody_up_and_misses_nothing(self, bus: Bus, family: str) -> None:
        """It stops after the first record while far more is published than anybody would buffer; then reads on."""
        data = bytes(16 * KIB)
        async with aclosing(bus.read(f"{family}.a")) as slow:
            pending = asyncio.ensure_future(first(slow))
            await bus.publish(f"{family}.a", data)
            seqs = [(await pending).seq]
            fast = asyncio.ensure_future(some(bus.read(f"{family}.a", after=seqs[0]), 2000))
            for _ in range(0, 2000, 50):
                await asyncio.gather(*(bus.publish(f"{family}.a", data) for _ in range(50)))
            assert len(await fast) == 2000
            seqs += [(await first(slow)).seq for _ in range(2000)]
            assert seqs == sorted(set(seqs))
            # and it is live again
            pending = asyncio.ensure_future(first(slow))
            last = await bus.publish(f"{family}.a", b"live")
            assert (await pending).seq == last

    async def test_a_dropped_reader_resumes_by_cursor(self, bus: Bus, family: str) -> None:
        for n in range(100):
            await bus.publish(f"{family}.{n % 3}", str(n).encode())
        begun = await some(bus.read(f"{family}.>"), 40)
        rest = await some(bus.read(f"{family}.>", after=begun[-1].seq), 60)
        assert [int(record.data) for record in begun + rest] == list(range(100))

    async def test_large_records_in_a_row(self, bus: Bus, family: str) -> None:
        data = bytes(512 * KIB)
        for n in range(24):
            await bus.publish(f"{family}.{n % 2}", data + str(n).encode())
        for pattern, count in ((f"{family}.>", 24), (f"{family}.1", 12)):
            assert len(await all_of(bus.read(pattern, follow=False))) == count

    async def test_a_sparse_pattern_in_a_long_log(self, bus: Bus, family: str) -> None:
        for n in range(20):
            await bus.publish(f"{family}.rare.{n}", str(n).encode())
            await asyncio.gather(*(bus.publish(f"{family}.common.{m}", b"") for m in range(100)))
        records = await all_of(bus.read(f"{family}.rare.*", follow=False))
        assert [int(record.data) for record in records] == list(range(20))

    async def test_trimmed_records_are_skipped(self, bus: Bus, family: str) -> None:
        seqs = [await bus.publish(f"{family}.a", str(n).encode()) for n in range(10)]
        await bus.trim(f"{family}.a", before=seqs[5])
        records = await all_of(bus.read(f"{family}.a", after=seqs[1], follow=False))
        assert [int(record.data) for record in records] == [5, 6, 7, 8, 9]

    async def test_a_cancelled_reader_ends(self, bus: Bus, family: str) -> None:
        """At whatever moment: when it begins, waits, is just being handed something. A lost cancellation is a hang."""
        moments = random.Random(7)

        async def read() -> None:
            async for _ in bus.read(f"{family}.>"):
                pass

        async def watch() -> None:
            async for _ in bus.table(family).watch():
                pass

        async def listen() -> None:
            async for _ in bus.listen(f"{family}.>"):
                pass

        for number in range(64):
            task = asyncio.create_task((read, watch, listen)[number % 3]())
            for _ in range(moments.randrange(6)):
                await bus.publish(f"{family}.a", b"")
                await bus.table(family).put("k", b"")
            for _ in range(moments.randrange(12)):
                await bus.announce(f"{family}.a", b"")
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task}, timeout=BOUND)
            assert task.cancelled(), f"number {number} goes on"

    async def test_a_closed_bus_tells_its_readers(self, url: str, family: str) -> None:
        async with opened(url) as bus:
            reader = asyncio.ensure_future(first(bus.read(f"{family}.a")))
            watcher = asyncio.ensure_future(first(bus.table(family).watch()))
            # each has begun when this has come back through one like it
            other = asyncio.ensure_future(first(bus.read(f"{family}.b")))
            await bus.publish(f"{family}.b", b"")
            await other
        done, _ = await asyncio.wait([reader, watcher], timeout=BOUND)
        assert [type(waiting.exception()) for waiting in done] == [BusClosed] * 2
        with pytest.raises(BusClosed):
            await bus.publish(f"{family}.a", b"")

    async def test_a_bus_that_is_closed_while_readers_begin(self, url: str, family: str) -> None:
        """Readers get BusClosed and nothing else, at whichever of their steps the bus is closed."""
        for steps in range(BEGINNINGS):
            async with opened(url) as bus:
                beginning = [
                    asyncio.ensure_future(first(bus.read(f"{family}.a"))),
                    asyncio.ensure_future(first(bus.table(family).watch())),
                    asyncio.ensure_future(first(bus.listen(f"{family}.a"))),
                ]
                for number in range(steps):
                    # Gives the readers the time of a request and its answer.
                    await bus.publish(f"{family}.b", b"%d" % number)
            done, _ = await asyncio.wait(beginning, timeout=BOUND)
            assert [type(task.exception()) for task in done] == [BusClosed] * 3, steps
