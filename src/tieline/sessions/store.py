"""The session records of one node, in memory and in the bus table. Records of other nodes are left alone."""

import asyncio

import msgspec
from msgspec import Struct

from ..bus.base import Bus, Table
from ..errors import Conflict, UsageError
from .records import SESSIONS, SessionRecord

_decode = msgspec.json.Decoder(SessionRecord).decode
_encode = msgspec.json.encode

ID = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
MAX_ID = 64


class _Kept(Struct):
    record: SessionRecord
    written: SessionRecord | None
    lock: asyncio.Lock


class SessionStore:
    def __init__(self, bus: Bus, node: str) -> None:
        self._table: Table = bus.table(SESSIONS)
        self._node = node
        self._kept: dict[str, _Kept] = {}

    async def load(self) -> None:
        for entry in await self._table.entries():
            record = _decode(entry.value)
            if record.node == self._node:
                self._kept[record.id] = _Kept(record, record, asyncio.Lock())

    def __contains__(self, id: str) -> bool:
        return id in self._kept

    def get(self, id: str) -> SessionRecord:
        if kept := self._kept.get(id):
            return kept.record
        raise UsageError(f"no session {id!r}", field="session", hint="`tieline sessions` lists them.")

    def ids(self) -> list[str]:
        return list(self._kept)

    async def add(self, record: SessionRecord) -> SessionRecord:
        """A new one, or one of this node's that was being added when its maker was cancelled. An id that another node
        uses is refused."""
        if not 0 < len(record.id) <= MAX_ID or not ID.issuperset(record.id):
            raise UsageError(
                f"the session id {record.id!r} is not valid",
                field="id",
                hint=f"Use letters, digits, - and _, at most {MAX_ID}.",
            )
        kept = self._kept[record.id] = _Kept(record, None, asyncio.Lock())
        try:
            async with kept.lock:
                await self._table.put(record.id, _encode(record), expect=0)
                kept.written = record
        except BaseException as error:
            del self._kept[record.id]
            if isinstance(error, Conflict):
                entry = await self._table.get(record.id)
                if entry is not None and (stored := _decode(entry.value)).node == self._node:
                    self._kept[record.id] = _Kept(stored, stored, asyncio.Lock())
                    return stored
                raise UsageError(f"the session id {record.id!r} is in use on another node", field="id") from None
            raise
        return record

    async def keep(self, record: SessionRecord) -> None:
        """Durable when it returns. Whoever changes a record at the same time: the last one stays, here and there."""
        kept = self._kept[record.id]
        kept.record = record
        async with kept.lock:
            if kept.written is not kept.record:
                latest = kept.record
                await self._table.put(record.id, _encode(latest))
                kept.written = latest
