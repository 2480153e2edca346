"""Asks that wait for people, on the bus: answered once, bound to what was asked, expired or withdrawn, never lost.

The first answer wins; the others are told who won. The log says who answered, how and when. What is over is kept for a
while, so that a late answer can be told what became of it.
"""

import asyncio
import time
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from ..ask_parts import ask_parts
from ..bus.base import MAX_RECORD, Bus, Table
from ..errors import Conflict, UsageError
from ..events import Answer, Ask
from .ask_decisions import check, expired, lost
from .records import ASKS, AskRecord, AskStatus, digest

_decode = msgspec.json.Decoder(AskRecord).decode
_encode = msgspec.json.encode

KEPT_S = 7 * 24 * 3600
"""How long an ask that is over is kept: rules are tested with it."""
KEPT_RULED_S = 24 * 3600
"""How long one is kept that a rule decided: there may be many more of those than people could answer."""
ROOM_FOR_ANSWER = 64 * 1024
"""Bytes of a record that its answer may need."""


class AlreadyAnswered(UsageError):
    """Somebody was faster, or the ask is over. `record` says what became of it."""

    def __init__(self, record: AskRecord) -> None:
        answer = record.answer
        if answer is not None and answer.by == "restart" and answer.decision == "deny":
            how = f"over: {answer.reason}"
        else:
            how = record.status + (f" by {answer.by}: {answer.decision}" if answer else "")
        super().__init__(f"this ask is {how}", field="ask", hint="Nothing was changed by your answer.")
        self.record = record


class PendingAsks:
    """`wait` is a session's `on_ask`; `answer` is everybody else's side."""

    def __init__(
        self, bus: Bus, *, expiry_s: float, changed: Callable[[str, bool], None] = lambda session, waits: None
    ):
        self._table: Table = bus.table(ASKS)
        self._expiry_s = expiry_s
        self._waiting: dict[str, asyncio.Future[Answer]] = {}
        self._open: dict[str, AskRecord] = {}
        self._arriving: dict[str, asyncio.Future[int]] = {}  # on their way to the table; the log may show them already
        self._changed = changed

    async def load(self, owns: Callable[[str], bool]) -> list[AskRecord]:
        """What was pending in our sessions when the owner died: nobody waits for it any longer. Expires it and gives it
        back."""
        orphans: list[AskRecord] = []
        for entry in await self._table.entries():
            record = _decode(entry.value)
            if record.status == "pending" and owns(record.session):
                orphans.append(await self.close(entry.key, "expired", lost(record.ask)))
        return orphans

    async def wait(self, session: str, ask: Ask, *, expires: bool = True) -> Answer:
        """Store the ask and wait for its answer; it may expire. A cancelled wait withdraws the ask."""
        expiry_s = self._expiry_s if expires else None
        record, value = _record(session, ask, expiry_s)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[ask.id] = future
        keeping = self._arriving[ask.id] = asyncio.ensure_future(self._table.put(ask.id, value, expect=0))
        keeping.add_done_callback(lambda _: self._arriving.pop(ask.id, None))
        announced = False
        try:
            async with asyncio.timeout(expiry_s):
                await asyncio.shield(keeping)
                self._open[ask.id] = record
                self._changed(session, True)
                announced = True
                return await future
        except TimeoutError:
            over = await self._over(ask.id, keeping, "expired")
            # An answer that came in the last moment counts.
            return over.answer if over and over.answer else expired(ask, self._expiry_s)
        except asyncio.CancelledError:
            await self._over(ask.id, keeping, "withdrawn")
            raise
        finally:
            self._waiting.pop(ask.id, None)
            self._open.pop(ask.id, None)
            if announced:
                self._changed(session, False)

    async def keep_decided(self, session: str, ask: Ask, answer: Answer) -> None:
        """It was decided before anybody was asked. Kept like any other that is over."""
        record, _ = _record(session, ask, None)
        value = _encode(replace(record, status="answered", answer=answer))
        await self._table.put(ask.id, value, expect=0, ttl=KEPT_RULED_S)

    async def _over(self, id: str, keeping: "asyncio.Future[int]", status: AskStatus) -> AskRecord | None:
        """None: it never came to the table."""
        await asyncio.wait({keeping})  # it is stored whether or not somebody waits for it
        return None if keeping.exception() is not None else await self.close(id, status)

    async def answer(self, id: str, answer: Answer, *, expect_digest: str = "") -> AskRecord:
        """Decide it. Raises AlreadyAnswered when somebody was faster; exactly one answer wins."""
        while True:
            record, revision = await self.get(id)
            if record.status != "pending":
                self._hand_over(id, record.answer)  # the bus may have failed after it was written, before we knew
                raise AlreadyAnswered(record)
            if expect_digest and expect_digest != record.digest:
                raise UsageError(
                    "the ask has changed since it was shown",
                    field="digest",
                    hint="Look at the ask again, then decide.",
                )
            if 0 < record.expires_at < time.time():
                raise AlreadyAnswered(await self.close(id, "expired"))
            check(record.ask, answer)
            decided = replace(answer, ask=id, tool=record.ask.tool)
            changed = replace(record, status="answered", answer=decided)
            try:
                await self._table.put(id, _encode(changed), expect=revision, ttl=KEPT_S)
            except Conflict:
                continue
            self._hand_over(id, decided)
            return changed

    async def settle(self, id: str, answer: Answer) -> AskRecord:
        """It was decided where we have no say: at its terminal. What it finally is: an answer may have won."""
        record = await self.close(id, "answered", answer)
        self._hand_over(id, record.answer)
        return record

    def _hand_over(self, id: str, answer: Answer | None) -> None:
        future = self._waiting.get(id)
        if answer is not None and future is not None and not future.done():
            future.set_result(answer)

    async def close(self, id: str, status: AskStatus, answer: Answer | None = None) -> AskRecord:
        """End a pending ask without anybody's answer; `answer` says why, where the status does not. What it finally is:
        an answer may have won."""
        while True:
            record, revision = await self.get(id)
            if record.status != "pending":
                return record
            changed = replace(record, status=status, answer=answer)
            try:
                await self._table.put(id, _encode(changed), expect=revision, ttl=KEPT_S)
            except Conflict:
                continue
            return changed

    async def get(self, id: str) -> tuple[AskRecord, int]:
        if arriving := self._arriving.get(id):
            await asyncio.wait({arriving})
        entry = await self._table.get(id)
        if entry is None:
            raise UsageError(f"no ask {id!r}", field="ask", hint="It may have been deleted with its session.")
        return _decode(entry.value), entry.revision

    def pending(self, session: str = "") -> list[AskRecord]:
        """The open asks, the oldest first."""
        records = [record for record in self._open.values() if session in ("", record.session)]
        return sorted(records, key=lambda record: record.created_at)


def _record(session: str, ask: Ask, expiry_s: float | None) -> tuple[AskRecord, bytes]:
    """Pending, with its encoding."""
    now = time.time()
    record = AskRecord(
        id=ask.id,
        session=session,
        ask=ask,
        digest=digest(ask),
        created_at=now,
        expires_at=0.0 if expiry_s is None else now + expiry_s,
        parts=ask_parts(ask),
    )
    value = _encode(record)
    if len(value) > MAX_RECORD - ROOM_FOR_ANSWER:  # what people see is made of the ask; the ask itself may fit
        record = replace(record, parts=())
        value = _encode(record)
    return record, value
