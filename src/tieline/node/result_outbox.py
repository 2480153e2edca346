"""The outbox of a node: results of commands wait in the table `outbox` until the hub acknowledges them."""

import asyncio
from contextlib import suppress

import msgspec

from ..bus.base import MAX_RECORD, Bus, Table
from ..errors import RecordTooLarge
from ..ids import new_id
from ..protocol.commands import Result

LINK = "link"
OUTBOX = "outbox"

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Result).decode


async def keeps_log(bus: Bus, node: str, epoch: str) -> bool:
    """Whether this is the bus that the node has its log on."""
    entry = await bus.table(LINK).get(_epoch(node))
    return entry is not None and entry.value.decode() == epoch


def _epoch(node: str) -> str:
    return f"{node}.epoch"


class ResultOutbox:
    def __init__(self, bus: Bus, node: str) -> None:
        self.epoch = ""  # of this node's log
        self.kept = 0  # the last of its records that the hub said it has, since we run
        self.changed = asyncio.Event()
        self._node = node
        self._links: Table = bus.table(LINK)
        self._table: Table = bus.table(OUTBOX)
        self._unheard: dict[str, Result] = {}

    async def load(self) -> None:
        entry = await self._links.get(_epoch(self._node))
        if entry is None:
            await self._links.put(_epoch(self._node), new_id().encode(), expect=0)
            entry = await self._links.get(_epoch(self._node))
        assert entry is not None
        self.epoch = entry.value.decode()
        for entry in await self._table.entries(f"{self._node}.>"):
            result = _decode(entry.value)
            self._unheard[result.id] = result

    async def done(self, result: Result) -> None:
        """A command was carried out. Durable when it returns."""
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
