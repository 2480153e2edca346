"""Consuming: leases, retries, counts, dead letters, competition."""

import asyncio
import time
from collections import Counter
from contextlib import aclosing

import pytest

from ...bus import BadSubject, Bus, Delivery
from ...errors import UsageError
from .base import BOUND, BusContractBase, all_of, first, opened, some


class DeliveryContract(BusContractBase):
    async def test_ack_ends_it(self, bus: Bus, family: str) -> None:
        await bus.publish(f"{family}.a", b"one", headers={"K": "v"})
        await bus.publish(f"{family}.a", b"two")
        async with aclosing(bus.consume(f"{family}.a", "g")) as consumer:
            delivery = await first(consumer)
            assert (delivery.record.data, delivery.attempt) == (b"one", 1)
            assert delivery.record.headers == {"K": "v"}
            await delivery.ack()
            await (await first(consumer)).ack()
        await bus.publish(f"{family}.a", b"three")
        (delivery,) = await some(bus.consume(f"{family}.a", "g"), 1)
        assert (delivery.record.data, delivery.attempt) == (b"three", 1)

    async def test_a_group_begins_with_the_oldest_and_waits_for_more(self, bus: Bus, family: str) -> None:
        await bus.publish(f"{family}.a", b"old")
        async with aclosing(bus.consume(f"{family}.>", "g")) as consumer:
            assert (await first(consumer)).record.data == b"old"
            pending = asyncio.ensure_future(first(consumer))
            await bus.publish(f"{family}.b", b"new")
            assert (await pending).record.data == b"new"

    async def test_groups_do_not_share(self, bus: Bus, family: str) -> None:
        await bus.publish(f"{family}.a", b"one")
        for group, pattern in (("g", f"{family}.a"), ("h", f"{family}.a"), ("g", f"{family}.*")):
            (delivery,) = await some(bus.consume(pattern, group), 1)
            assert (delivery.record.data, delivery.attempt) == (b"one", 1)
            await delivery.ack()

    async def test_competing_consumers_share(self, bus: Bus, family: str) -> None:
        done: Counter[bytes] = Counter()
        finished = asyncio.Event()

        async def work() -> int:
            mine = 0
            async with aclosing(bus.consume(f"{family}.>", "g")) as consumer:
                async for delivery in consumer:
                    done[delivery.record.data] += 1
                    mine += 1
                    await delivery.ack()
                    if len(done) == 100:
                        finished.set()
            return mine

        workers = [asyncio.ensure_future(work()) for _ in range(5)]
        await asyncio.gather(*(bus.publish(f"{family}.{n % 7}", str(n).encode()) for n in range(100)))
        await asyncio.wait_for(finished.wait(), BOUND)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        assert set(done.values()) == {1}

    async def test_a_lease_runs_out(self, bus: Bus, family: str) -> None:
        await bus.publish(f"{family}.a", b"one")
        async with aclosing(bus.consume(f"{family}.a", "g", lease_s=0.5)) as consumer:
            began = time.monotonic()
            lost = await first(consumer)
            again = await first(consumer)
            assert time.monotonic() - began > 0.4
            assert (again.record, again.attempt) == (lost.record, 2)
            await again.ack()

    async def test_another_consumer_takes_over(self, bus: Bus, family: str) -> None:
        await bus.publish(f"{family}.a", b"one")
        (lost,) = await some(bus.consume(f"{family}.a", "g", lease_s=0.5), 1)
        (again,) = await some(bus.consume(f"{family}.a", "g", lease_s=0.5), 1)
        assert (again.record, again.attempt) == (lost.record, 2)

    async def test_extend_keeps_it(self, bus: Bus, family: str) -> None:
        await bus.publish(f"{family}.a", b"one")
        async with aclosing(bus.consume(f"{family}.a", "g", lease_s=1.0)) as consumer:
            delivery = await first(consumer)
            pending = asyncio.ensure_future(first(consumer))
            for _ in range(6):  # three times the lease
                done, _ = await asyncio.wait([pending], timeout=0.5)
                assert not done
                await delivery.extend()
            await delivery.ack()
            await bus.publish(f"{family}.a", b"two")
            assert (await pending).record.data == b"two"

    async def test_retry_waits_and_counts(self, bus: Bus, family: str) -> None:
        await bus.publish(f"{family}.a", b"one")
        async with aclosing(bus.consume(f"{family}.a", "g")) as consumer:
            await (await first(consumer)).retry()
            second = await first(consumer)
            assert second.attempt == 2
            began = time.monotonic()
            await second.retry(0.7)
            # what waits does not hold up what comes after it
            await bus.publish(f"{family}.a", b"two")
            other = await first(consumer)
            assert other.record.data == b"two"
            await other.ack()
            third = await first(consumer)
            assert time.monotonic() - began >= 0.65
            assert (third.record.data, third.attempt) == (b"one", 3)
            await third.ack()

    async def test_reject_is_a_dead_letter(self, bus: Bus, family: str) -> None:
        seq = await bus.publish(f"{family}.a.b", b"poison", headers={"K": "v"})
        await bus.publish(f"{family}.a.b", b"fine")
        async with aclosing(bus.consume(f"{family}.>", family)) as consumer:
            await (await first(consumer)).reject("it is\n  bad: \x00 ✗")
            assert (await first(consumer)).record.data == b"fine"
        (dead,) = await all_of(bus.read(f"dead.{family}.>", follow=False))
        assert dead.subject == f"dead.{family}.{family}.a.b"
        assert dead.data == b"poison"
        assert dead.headers == {
            "K": "v",
            "Tieline-Reason": "it is bad: ✗",
            "Tieline-Group": family,
            "Tieline-Subject": f"{family}.a.b",
            "Tieline-Seq": str(seq),
            "Tieline-Deliveries": "1",
        }

    @pytest.mark.parametrize("how", ["retry", "lease"])
    async def test_deliveries_are_counted_and_end(self, bus: Bus, family: str, how: str) -> None:
        await bus.publish(f"{family}.a", b"poison")
        async with (
            aclosing(bus.consume(f"{family}.a", family, lease_s=0.3, max_deliveries=3)) as consumer,
            aclosing(bus.read(f"dead.{family}.>")) as dead,
        ):
            for attempt in (1, 2, 3):
                delivery = await first(consumer)
                assert delivery.attempt == attempt
                if how == "retry":
                    await delivery.retry()
            pending = asyncio.ensure_future(first(consumer))
            letter = await first(dead)
            assert letter.data == b"poison"
            assert letter.headers["Tieline-Deliveries"] == "3"
            await bus.publish(f"{family}.a", b"next")
            assert (await pending).record.data == b"next"

    async def test_max_pending_bounds_a_group(self, bus: Bus, family: str) -> None:
        for n in range(4):
            await bus.publish(f"{family}.a", str(n).encode())
        async with aclosing(bus.consume(f"{family}.a", "g", max_pending=2)) as consumer:
            held = [await first(consumer), await first(consumer)]
            pending = asyncio.ensure_future(first(consumer))
            done, _ = await asyncio.wait([pending], timeout=0.3)
            assert not done
            await held[0].ack()
            assert (await pending).record.data == b"2"

    async def test_settled_once(self, bus: Bus, family: str) -> None:
        await bus.publish(f"{family}.a", b"one")
        (delivery,) = await some(bus.consume(f"{family}.a", "g"), 1)
        await delivery.ack()
        for again in (delivery.ack(), delivery.retry(), delivery.reject("x"), delivery.extend()):
            with pytest.raises(UsageError, match="settled"):
                await again

    async def test_a_cancelled_wait_loses_nothing(self, bus: Bus, family: str) -> None:
        """Consumers come and go while records do: none is counted as delivered to one who had gone."""
        for n in range(20):
            consumer = bus.consume(f"{family}.a", "g", lease_s=BOUND * 4)
            waiting = asyncio.ensure_future(anext(consumer))
            publishing = asyncio.ensure_future(bus.publish(f"{family}.a", str(n).encode()))
            if n % 2:
                await publishing
            waiting.cancel()
            results = await asyncio.gather(waiting, return_exceptions=True)
            await publishing
            if isinstance(results[0], Delivery):
                await results[0].retry()
            await consumer.aclose()
        found = await some(bus.consume(f"{family}.a", "g", lease_s=BOUND * 4), 20)
        assert sorted(int(delivery.record.data) for delivery in found) == list(range(20))

    async def test_groups_outlive_the_bus(self, url: str, family: str) -> None:
        if url.endswith(":memory:"):
            return
        async with opened(url) as bus:
            for n in range(3):
                await bus.publish(f"{family}.a", str(n).encode())
            async with aclosing(bus.consume(f"{family}.a", "g", lease_s=1)) as consumer:
                await (await first(consumer)).ack()
                await first(consumer)  # never settled
        async with opened(url) as bus:
            found = await some(bus.consume(f"{family}.a", "g", lease_s=1), 2)
            assert {(delivery.record.data, delivery.attempt) for delivery in found} == {(b"1", 2), (b"2", 1)}

    async def test_trimmed_records_are_not_delivered(self, bus: Bus, family: str) -> None:
        seqs = [await bus.publish(f"{family}.a", str(n).encode()) for n in range(4)]
        async with aclosing(bus.consume(f"{family}.a", "g", lease_s=1)) as consumer:
            held = await first(consumer)
            await bus.trim(f"{family}.a", before=seqs[2])
            assert (await first(consumer)).record.data == b"2"
            await held.ack()
            assert (await first(consumer)).record.data == b"3"

    async def test_stats_of_groups(self, bus: Bus, family: str) -> None:
        for n in range(3):
            await bus.publish(f"{family}.{n}", b"")
        async with aclosing(bus.consume(f"{family}.*", family)) as consumer:
            await first(consumer)
            (group,) = [group for group in (await bus.stats()).groups if group.name == family]
        assert (group.pattern, group.pending, group.outstanding) == (f"{family}.*", 2, 1)

    async def test_bad_options(self, bus: Bus, family: str) -> None:
        with pytest.raises(BadSubject, match="bad group"):
            await anext(bus.consume(f"{family}.a", "g.h"))
        for refused in (
            bus.consume(f"{family}.a", "g", lease_s=0),
            bus.consume(f"{family}.a", "g", max_deliveries=0),
            bus.consume(f"{family}.a", "g", max_pending=0),
        ):
            with pytest.raises(UsageError):
                await anext(refused)
