"""What a node was told and what became of it, durable on its own bus on both ways.

Orders that came over the link go to `inbox.<node>` before the hub is told that they are here; results wait in the
table `outbox` until the hub says that it has heard them. So either side may vanish in between.
"""

import asyncio
from contextlib import suppress

import msgspec
from msgspec import Struct

from ..bus.base import MAX_RECORD, Bus, Table
from ..errors import RecordTooLarge
from ..ids import new_id
from ..protocol.commands import Order, Result

LINK = "link"
OUTBOX = "outbox"

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Result).decode


class Place(Struct, frozen=True, kw_only=True):
    """The last order that is here, by the numbers of the hub's log of that epoch."""

    hub: str = ""
    orders: int = 0


class Outbox:
    def __init__(self, bus: Bus, node: str) -> None:
        self.place = Place()
        self.epoch = ""  # of this node's log
        self.kept = 0  # the last of its records that the hub said it has, since we run
        self.inbox = f"inbox.{node}"
        self.changed = asyncio.Event()
        self._bus = bus
        self._node = node
        self._links: Table = bus.table(LINK)
        self._table: Table = bus.table(OUTBOX)
        self._unheard: dict[str, Result] = {}

    async def load(self) -> None:
        entry = await self._links.get(f"{self._node}.epoch")
        if entry is None:
            await self._links.put(f"{self._node}.epoch", new_id().encode(), expect=0)
            entry = await self._links.get(f"{self._node}.epoch")
        assert entry is not None
        self.epoch = entry.value.decode()
        if entry := await self._links.get(f"{self._node}.place"):
            self.place = msgspec.json.decode(entry.value, type=Place)
        for entry in await self._table.entries(f"{self._node}.>"):
            result = _decode(entry.value)
            self._unheard[result.id] = result

    async def take(self, hub: str, orders: list[tuple[int, Order]]) -> None:
        """Durable when it returns."""
        for _, order in orders:
            await self._bus.publish(self.inbox, _encode(order), id=order.id)
        await self.move(Place(hub=hub, orders=orders[-1][0]))

    async def move(self, place: Place) -> None:
        if place != self.place:
            await self._links.put(f"{self._node}.place", _encode(place))
            self.place = place

    async def done(self, result: Result) -> None:
        """An order was carried out. Durable when it returns."""
        data = _encode(result)
        if len(data) > MAX_RECORD:  # it was done; what it gave does not travel
            result = Result(id=result.id, refusal=result.refusal, at=result.at)
            data = _encode(result)
        with suppress(RecordTooLarge):
            await self._table.put(f"{self._node}.{result.id}", data)
        self._unheard[result.id] = result
        self.changed.set()

    def unheard(self) -> list[Result]:
        return list(self._unheard.values())

    async def heard(self, ids: tuple[str, ...]) -> None:
        for id in ids:
            if id in self._unheard:
                await self._table.delete(f"{self._node}.{id}")
                self._unheard.pop(id, None)
