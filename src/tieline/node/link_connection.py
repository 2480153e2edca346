"""One connection to a hub, from the welcome to its end: the frames it sends and what it does with those it gets."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from ..bus.base import Bus, Record
from ..protocol import node_link as p
from ..protocol.commands import READING, CommandEnvelope, GetDiff, Refusal, Result
from ..sessions.ask_rules import AskRule
from ..sessions.records import ASKS, PROMPTS, SESSIONS
from .command_executor import CommandExecutor
from .command_inbox import CommandInbox, InboxPosition
from .result_outbox import ResultOutbox

UNKEPT = 4
"""Frames of records that may be on their way at once."""
MOST_RESULT = p.MAX_FRAME - 256 * 1024
READERS = 16
"""Reading commands that are answered at once."""
LOOK_AGAIN_S = 60.0
"""How often it is compared what the hub was told with what is there: a watch may miss that something went."""

_encode = msgspec.json.encode

TABLES: tuple[Literal["sessions", "prompts", "asks"], ...] = (SESSIONS, PROMPTS, ASKS)
SendUp = Callable[[p.AnyUpFrame], Awaitable[None]]
ReceiveDown = Callable[[], Awaitable[p.AnyDownFrame]]


class LinkConnection:
    def __init__(
        self,
        bus: Bus,
        executor: CommandExecutor,
        inbox: CommandInbox,
        outbox: ResultOutbox,
        welcome: p.LinkWelcome,
        send: SendUp,
        hub: str,
    ) -> None:
        """`hub` is its address."""
        self._bus = bus
        self._executor = executor
        self._inbox = inbox
        self._outbox = outbox
        self._welcome = welcome
        self._send = send
        self._hub = hub
        self._known: dict[str, dict[str, int]] = {table: {} for table in TABLES}  # key → the revision the hub was told
        self._kept = asyncio.Event()
        outbox.kept = welcome.after
        self._flying: list[int] = []
        self._status = asyncio.Event()
        self._commands: asyncio.Queue[tuple[int, CommandEnvelope]] = asyncio.Queue(maxsize=p.BATCH)
        self._readers = asyncio.Semaphore(READERS)
        self._ahead_s = time.time() - welcome.at if welcome.at else 0.0  # our clock, of the hub's

    async def run(self, receive: ReceiveDown) -> None:
        """Until something fails: the connection, mostly."""
        changed = self._status.set
        self._executor.agents.changed.append(changed)
        self._outbox.changed.set()
        self._status.set()
        if self._inbox.position.log != self._welcome.epoch:
            await self._inbox.move(InboxPosition(log=self._welcome.epoch))
        if "rules" in self._welcome.limits:  # this hub will not say when one is revoked
            await self._executor.manager.rules.forget_joined()
        works: list[Coroutine[Any, Any, None]] = [
            self._listen(receive),
            self._send_records(),
            *(self._send_table(table) for table in TABLES),
            self._send_results(),
            self._send_status(),
            self._take_commands(),
            self._beat(),
        ]
        if "deltas" not in self._welcome.limits:
            works.append(self._send_deltas())
        try:
            async with asyncio.TaskGroup() as self._group:
                for work in works:
                    self._group.create_task(work)
        finally:
            self._executor.agents.changed.remove(changed)

    # --- down ------------------------------------------------------------------------------------------

    async def _listen(self, receive: ReceiveDown) -> None:
        while True:
            frame = await receive()
            match frame:
                case p.Kept(seq=seq):
                    self._outbox.kept = max(self._outbox.kept, seq)
                    self._flying = [last for last in self._flying if last > seq]
                    self._kept.set()
                case p.LinkCommands(orders=orders):
                    for item in orders:
                        await self._commands.put(item)
                case p.LinkRules(revision=revision, rules=rules):
                    await self._executor.manager.rules.keep_joined(self._hub, tuple(map(self._timed_rule, rules)))
                    await self._send(p.RulesKept(revision=revision))
                case p.Heard(ids=ids):
                    await self._outbox.heard(ids)
                case p.LinkWelcome() | p.LinkRefused() | p.LinkBeat():
                    pass

    async def _take_commands(self) -> None:
        while True:
            batch = [await self._commands.get()]
            while not self._commands.empty():
                batch.append(self._commands.get_nowait())
            lasting = [
                (seq, self._timed(envelope)) for seq, envelope in batch if not isinstance(envelope.command, READING)
            ]
            if lasting:
                await self._inbox.take(self._welcome.epoch, lasting)
            for _, envelope in batch:
                if isinstance(envelope.command, READING):
                    await self._readers.acquire()
                    self._group.create_task(self._answer(envelope))
            await self._send(p.LinkTaken(seq=batch[-1][0]))

    def _timed(self, envelope: CommandEnvelope) -> CommandEnvelope:
        """When it expires, by our clock."""
        return replace(envelope, expires_at=envelope.expires_at + self._ahead_s) if envelope.expires_at else envelope

    def _timed_rule(self, rule: AskRule) -> AskRule:
        return replace(rule, expires_at=rule.expires_at + self._ahead_s) if rule.expires_at else rule

    async def _answer(self, envelope: CommandEnvelope) -> None:
        """A reading command is not stored: its caller waits for the answer."""
        try:
            await self._send(p.Results(results=(fitting(envelope, await self._executor.result_of(envelope)),)))
        finally:
            self._readers.release()

    # --- to the hub ----------------------------------------------------------------------------------

    async def _send_records(self) -> None:
        waiting: asyncio.Queue[Record] = asyncio.Queue(maxsize=2 * p.BATCH)

        async def read() -> None:
            async with aclosing(self._bus.read("events.>", after=self._welcome.after)) as records:
                async for record in records:
                    await waiting.put(record)

        self._group.create_task(read())
        held: Record | None = None
        while True:
            batch = [held or await waiting.get()]
            held = None
            size = len(batch[0].data)
            while not waiting.empty() and len(batch) < p.BATCH and held is None:
                record = waiting.get_nowait()
                size += len(record.data)
                if size > p.BATCH_BYTES:
                    held = record  # it begins the next batch
                else:
                    batch.append(record)
            own = [record for record in batch if await self._announce_session(record.subject.partition(".")[2])]
            if not own:
                continue
            while len(self._flying) >= UNKEPT:
                self._kept.clear()
                await self._kept.wait()
            self._flying.append(own[-1].seq)
            await self._send(p.LinkRecords(records=tuple(map(_logged, own))))

    async def _announce_session(self, session: str) -> bool:
        """Whether the session is ours; the hub learns of it before its events."""
        if session in self._known[SESSIONS]:
            return True
        if not self._executor.manager.owns(session):
            return False
        entry = await self._bus.table(SESSIONS).get(session)
        if entry is not None:
            await self._send_state(SESSIONS, session, entry.value, entry.revision)
        return entry is not None

    async def _send_table(self, name: Literal["sessions", "prompts", "asks"]) -> None:
        table = self._bus.table(name)

        async def watch() -> None:
            async with aclosing(table.watch()) as changes:
                async for change in changes:
                    await self._send_state(name, change.key, change.value, change.revision)

        self._group.create_task(watch())
        for entry in await table.entries():
            await self._send_state(name, entry.key, entry.value, entry.revision)
        await self._send(p.Synced(table=name))
        while True:
            await asyncio.sleep(LOOK_AGAIN_S)
            present = {entry.key: entry for entry in await table.entries()}
            for key in [key for key in self._known[name] if key not in present]:
                await self._send_state(name, key, None, self._known[name][key] + 1)
            for entry in present.values():
                await self._send_state(name, entry.key, entry.value, entry.revision)

    async def _send_state(
        self, table: Literal["sessions", "prompts", "asks"], key: str, value: bytes | None, revision: int
    ) -> None:
        """Send a key's present value, unless the hub has a later one."""
        revisions = self._known[table]
        if revisions.get(key, -1) >= revision:
            return
        if value is None:
            if revisions.pop(key, None) is not None:
                await self._send(p.LinkState(table=table, key=key))
        elif self._executor.manager.owns(_session(table, key, value)):
            revisions[key] = revision
            await self._send(p.LinkState(table=table, key=key, value=msgspec.Raw(value)))

    async def _send_results(self) -> None:
        sent: set[str] = set()
        while True:
            await self._outbox.changed.wait()
            self._outbox.changed.clear()
            unheard = self._outbox.unheard()
            sent &= {result.id for result in unheard}
            for result in unheard:
                if result.id not in sent:
                    sent.add(result.id)
                    await self._send(p.Results(results=(result,)))

    async def _send_deltas(self) -> None:
        async with aclosing(self._bus.listen("deltas.>")) as deltas:
            async for delta in deltas:
                session = delta.subject.partition(".")[2]
                if session in self._known[SESSIONS]:
                    await self._send(p.Delta(session=session, event=msgspec.Raw(delta.data)))

    async def _send_status(self) -> None:
        while True:
            await self._status.wait()
            self._status.clear()
            await self._send(self._executor.status())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(p.HEARTBEAT_S)
            await self._send(p.LinkBeat(at=time.time()))


class _OfSession(msgspec.Struct):
    session: str = ""


def _session(table: str, key: str, value: bytes) -> str:
    """The session that a value belongs to."""
    if table == ASKS:
        return msgspec.json.decode(value, type=_OfSession).session
    return key.partition(".")[0]


def _logged(record: Record) -> p.LogRecord:
    return p.LogRecord(
        seq=record.seq, subject=record.subject, data=record.data, headers=dict(record.headers), at=record.at
    )


def fitting(envelope: CommandEnvelope, result: Result) -> Result:
    """The result as it fits into a frame. A diff that is too long is cut, and says so; anything else is refused."""
    size = len(result.value)  # type: ignore[arg-type]
    if size <= MOST_RESULT:
        return result
    if isinstance(envelope.command, GetDiff):
        diff = msgspec.json.decode(result.value, type=str)
        cut = diff[: MOST_RESULT * len(diff) // size - 200]
        cut = cut[: cut.rfind("\n") + 1] + f"\n… cut: the whole diff has {len(diff)} characters\n"
        return Result(id=result.id, value=msgspec.Raw(_encode(cut)), at=result.at)
    refusal = Refusal(code="RecordTooLarge", message=f"the result has {size:,} bytes", hint="Ask for less at once.")
    return Result(id=result.id, refusal=refusal, at=result.at)
