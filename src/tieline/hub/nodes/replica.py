"""The hub's replica of a node's log and tables: no loss, no duplicates, only the node's own sessions.

The log: each record is published on the hub's own bus with an Origin that names the node, the epoch of its log, the
record's number there and the one before it. How far that went is written down now and then; what was published after
that is found again by reading the hub's own log from there, so a crash at any moment costs a short reading and no
record. The tables: the latest value counts. A node touches its own sessions only, and which node it is, we say.
"""

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...bus.base import Bus, Table
from ...errors import Conflict
from ...protocol.node_link import ORIGIN, LinkState, LogRecord
from ...sessions.event_log import AT, subject
from ...sessions.records import ASKS, PROMPTS, SESSIONS, AskRecord, PromptRecord, SessionRecord
from .registry import REPLICAS

SAVE_EVERY_S = 0.5
"""How often it is written down how far the log is, at most: the rest is found again."""
EVENTS = "events.>"
PREFIX = "events."

_encode = msgspec.json.encode
_session = msgspec.json.Decoder(SessionRecord).decode
_prompt = msgspec.json.Decoder(PromptRecord).decode
_ask = msgspec.json.Decoder(AskRecord).decode


class ReplicaCursor(Struct, frozen=True, kw_only=True):
    """The hub has the node's log up to node_seq, and all of that is up to hub_seq in its own."""

    epoch: str
    node_seq: int = 0
    hub_seq: int = 0


class Replica:
    """Of one node, for the time of one link. `load` comes first."""

    def __init__(self, bus: Bus, node: str, epoch: str) -> None:
        self.cursor = ReplicaCursor(epoch=epoch)
        self.refused = 0  # what was not the node's to say
        self._bus = bus
        self._node = node
        self._cursors: Table = bus.table(REPLICAS)
        self._tables: Mapping[str, Table] = {name: bus.table(name) for name in (SESSIONS, PROMPTS, ASKS)}
        self._digests: dict[str, dict[str, bytes]] = {name: {} for name in self._tables}  # key → digest of its value
        self._seen: dict[str, set[str]] = {name: set() for name in self._tables}
        self._ahead: dict[str, SessionRecord] = {}  # whose turns ended in records that are not here yet
        self._locks: dict[str, asyncio.Lock] = {}  # per session: its values come with its state and with its log
        self._already_stored: set[int] = set()  # records beyond the cursor that are here already
        self._saved = self.cursor
        self._saved_at = 0.0

    async def load(self) -> int:
        """Where the node's log is to go on."""
        entry = await self._cursors.get(self._node)
        cursor = msgspec.json.decode(entry.value, type=ReplicaCursor) if entry else None
        if cursor is None or cursor.epoch != self.cursor.epoch:
            cursor = ReplicaCursor(epoch=self.cursor.epoch, hub_seq=await self._bus.last(EVENTS))
        else:
            cursor = await self._recover(cursor)
        self.cursor = cursor
        await self.save_cursor(force=True)
        await self._load_tables()
        return cursor.node_seq

    async def _recover(self, cursor: ReplicaCursor) -> ReplicaCursor:
        """What was published after it was last written down how far it is."""
        before: dict[int, int] = {}
        last = cursor.hub_seq
        async for record in self._bus.read(EVENTS, after=cursor.hub_seq, follow=False):
            last = record.seq
            words = record.headers.get(ORIGIN, "").split()
            if len(words) == 4 and words[0] == self._node and words[1] == cursor.epoch:
                before[int(words[3])] = int(words[2])
        seq = cursor.node_seq
        while (following := before.pop(seq, None)) is not None:
            seq = following
        if before:  # the bus failed in the middle of a batch: go on at the gap, and leave out what is behind it
            self._already_stored = set(before.values())
            return replace(cursor, node_seq=seq)
        return replace(cursor, node_seq=seq, hub_seq=last)

    async def _load_tables(self) -> None:
        for entry in await self._tables[SESSIONS].entries():
            if _session(entry.value).node == self._node:
                self._digests[SESSIONS][entry.key] = _digest(entry.value)
        for entry in await self._tables[PROMPTS].entries():
            if self.owns(entry.key.partition(".")[0]):
                self._digests[PROMPTS][entry.key] = _digest(entry.value)
        for entry in await self._tables[ASKS].entries():
            if self.owns(_ask(entry.value).session):
                self._digests[ASKS][entry.key] = _digest(entry.value)

    def owns(self, session: str) -> bool:
        return session in self._digests[SESSIONS]

    # --- the log ---------------------------------------------------------------------------------------

    async def append(self, records: Sequence[LogRecord]) -> int:
        """Publish them in their order. The number of the last one, all durable when it returns."""
        seq = self.cursor.node_seq
        places: list[tuple[str, int, asyncio.Task[int]]] = []
        async with asyncio.TaskGroup() as group:
            for record in records:
                if record.seq <= seq:
                    continue  # sent twice
                before, seq = seq, record.seq
                session = record.subject.removeprefix(PREFIX)
                if not record.subject.startswith(PREFIX) or not self.owns(session):
                    self.refused += 1
                elif seq not in self._already_stored:
                    # Tasks start in the order they are made, and the bus keeps the order it is called in.
                    places.append((session, seq, group.create_task(self._publish(record, before))))
        ends = {session: task.result() for session, _, task in places}
        hub_seq = max([self.cursor.hub_seq, *ends.values()])
        self.cursor = replace(self.cursor, node_seq=seq, hub_seq=hub_seq)
        self._already_stored = {there for there in self._already_stored if there > seq}
        await self._update_session_seqs(places)
        await self.save_cursor()
        return seq

    async def _publish(self, record: LogRecord, before: int) -> int:
        epoch = self.cursor.epoch
        origin = f"{self._node} {epoch} {record.seq} {before}"
        headers = {**record.headers, ORIGIN: origin, AT: f"{record.at:.6f}"}
        return await self._bus.publish(
            record.subject, record.data, id=f"{self._node}.{epoch}.{record.seq}", headers=headers
        )

    async def save_cursor(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if self.cursor != self._saved and (force or now - self._saved_at >= SAVE_EVERY_S):
            self._saved, self._saved_at = self.cursor, now
            await self._cursors.put(self._node, _encode(self.cursor))

    async def save_idle(self) -> None:
        """Nothing is on its way: all that is in the log by now need not be read again."""
        if not self._already_stored:
            last = await self._bus.last(EVENTS)
            self.cursor = replace(self.cursor, hub_seq=max(last, self.cursor.hub_seq))
            await self.save_cursor(force=True)

    # --- the tables ------------------------------------------------------------------------------------

    async def apply(self, state: LinkState) -> None:
        """A key's present value."""
        data = bytes(state.value)
        if data == b"null":
            self._seen[state.table].discard(state.key)
            await self._drop(state.table, state.key)
            return
        if state.table == SESSIONS:
            async with self._locks.setdefault(state.key, asyncio.Lock()):
                await self._apply_session(state.key, data)
            return
        if state.table == PROMPTS:
            session = _prompt(data).session
            owned = self.owns(session) and state.key.startswith(f"{session}.")
        else:
            # People are shown the record and answer by its id: under any other it would be another ask's answer.
            record = _ask(data)
            session = record.session
            owned = self.owns(session) and state.key == record.id == record.ask.id
        if owned and state.table == ASKS and state.key not in self._digests[ASKS]:
            there = await self._tables[ASKS].get(state.key)
            owned = there is None or _ask(there.value).session == session
        if owned:
            self._seen[state.table].add(state.key)
            await self._put(state.table, state.key, data)
        else:
            self.refused += 1

    async def _apply_session(self, key: str, data: bytes) -> None:
        record = replace(_session(data), node=self._node)
        if record.id != key:
            self.refused += 1
            return
        if not self.owns(key):
            # Durable before any of its events: they are asked for by the record.
            try:
                await self._tables[SESSIONS].put(key, _encode(replace(record, seq=0)), expect=0)
            except Conflict:
                there = await self._tables[SESSIONS].get(key)
                if there is None or _session(there.value).node != self._node:
                    self.refused += 1
                    return
            self._digests[SESSIONS][key] = b""
        self._seen[SESSIONS].add(key)
        if record.seq > self.cursor.node_seq:
            self._ahead[key] = record
        else:
            self._ahead.pop(key, None)
        await self._put(SESSIONS, key, _encode(replace(record, seq=await self._bus.last(subject(key)))))

    async def _update_session_seqs(self, places: list[tuple[str, int, asyncio.Task[int]]]) -> None:
        """Writes a session's position in our own numbers of the log, once the records that it refers to are here."""
        for session in [key for key, record in self._ahead.items() if record.seq <= self.cursor.node_seq]:
            async with self._locks.setdefault(session, asyncio.Lock()):
                record = self._ahead.get(session)
                if record is None or record.seq > self.cursor.node_seq:
                    continue  # its state came anew while we waited
                del self._ahead[session]
                ours = [
                    task.result() for of_session, seq, task in places if of_session == session and seq <= record.seq
                ]
                session_seq = ours[-1] if ours else await self._bus.last(subject(session))
                await self._put(SESSIONS, session, _encode(replace(record, seq=session_seq)))

    async def finish_sync(self, table: str) -> None:
        """All present values were sent: what is here beyond them is gone."""
        for key in [key for key in self._digests[table] if key not in self._seen[table]]:
            await self._drop(table, key)

    async def _put(self, table: str, key: str, data: bytes) -> None:
        digest = _digest(data)
        if self._digests[table].get(key) != digest:
            self._digests[table][key] = digest
            await self._tables[table].put(key, data)

    async def _drop(self, table: str, key: str) -> None:
        if key in self._digests[table]:
            await self._tables[table].delete(key)
            del self._digests[table][key]
            if table == SESSIONS:
                self._ahead.pop(key, None)
                self._locks.pop(key, None)


def _digest(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=16).digest()
