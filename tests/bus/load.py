"""Load on a bus while something is done to it, and what must be true afterwards."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from uuid import uuid4

from tieline.bus import Bus, Record
from tieline.testing.bus_contract.base import all_of

PUBLISHERS = 8


class Load:
    """Publishers and a follower; `each` records per publisher, the trouble after a third of them."""

    def __init__(self, bus: Bus, *, each: int, bound: float) -> None:
        self.bus = bus
        self.each = each
        self.bound = bound
        self.family = f"load{uuid4().hex[:8]}"
        self.acked: dict[str, int] = {}
        self.followed: list[Record] = []
        self._third = asyncio.Event()

    @property
    def total(self) -> int:
        return PUBLISHERS * self.each

    async def run(self, trouble: Callable[[], Awaitable[None]]) -> None:
        async with asyncio.timeout(self.bound):
            follower = asyncio.ensure_future(self._follow())
            try:
                async with asyncio.TaskGroup() as tasks:
                    for publisher in range(PUBLISHERS):
                        tasks.create_task(self._publish(publisher))
                    await self._third.wait()
                    await trouble()
                await follower
            finally:
                follower.cancel()
                await asyncio.gather(follower, return_exceptions=True)
        await self._check()

    async def _publish(self, publisher: int) -> None:
        for n in range(self.each):
            id = f"{publisher}-{n}"
            self.acked[id] = await self.bus.publish(f"{self.family}.{publisher % 3}", id.encode(), id=id)
            if len(self.acked) >= self.total // 3:
                self._third.set()

    async def _follow(self) -> None:
        async with aclosing(self.bus.read(f"{self.family}.>")) as reader:
            async for record in reader:
                self.followed.append(record)
                if len(self.followed) == self.total:
                    return

    async def _check(self) -> None:
        records = await all_of(self.bus.read(f"{self.family}.>", follow=False))
        assert {record.data.decode(): record.seq for record in records} == self.acked
        assert len(records) == self.total, "a record is there twice"
        for publisher in range(PUBLISHERS):
            mine = [r.data.decode().split("-") for r in records if r.data.startswith(b"%d-" % publisher)]
            assert [int(n) for _, n in mine] == list(range(self.each)), "order of a publisher"
        assert self.followed == records, "live is not what replay is"
