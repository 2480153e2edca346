"""Prompts: durable, ordered, each with a state that never lies.

received → queued → running → done / failed / indeterminate, or cancelled before it ran. The client's id makes sending
twice harmless. A prompt that may have run is never run again by itself.

The session manager that owns a session is the only one that changes its prompts, so what waits is also held in memory;
the table is the truth after a crash. Finished ones are kept for a while and then forgotten.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from ..bus.base import Bus, Table
from ..drivers.base import Prompt
from ..errors import Conflict, UsageError
from ..events import Outcome
from ..ids import new_id
from .records import PROMPTS, PromptRecord, PromptStatus

_decode = msgspec.json.Decoder(PromptRecord).decode
_encode = msgspec.json.encode

MAX_QUEUED = 1000
"""Prompts that may wait in one session."""
KEPT_S = 7 * 24 * 3600
"""How long a finished prompt, and with it the harmlessness of sending it again, is kept."""


class PromptQueue:
    def __init__(self, bus: Bus) -> None:
        self._table: Table = bus.table(PROMPTS)
        self._waiting: dict[str, dict[str, PromptRecord]] = {}
        self._running: dict[str, PromptRecord] = {}
        self._receiving: set[str] = set()
        self._ended = asyncio.Event()  # one has; then another takes its place
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # what waits changes one by one

    async def load(self, owns: Callable[[str], bool]) -> list[PromptRecord]:
        """Read what was left in our sessions. What was running is given back: the log knows how far it came."""
        unsure: list[PromptRecord] = []
        for entry in await self._table.entries():
            record = _decode(entry.value)
            if record.over or not owns(record.session):
                continue
            if record.status == "running":
                unsure.append(record)
            else:
                self._waiting.setdefault(record.session, {})[record.id] = record
        return unsure

    async def receive(
        self, session: str, prompt: Prompt, *, id: str = "", by: str = "", timeout_s: float | None = None
    ) -> tuple[PromptRecord, bool]:
        """Keep a prompt. Whether it is new: the same id again gives back what became of the first."""
        id = id or new_id()
        waiting = self._waiting.setdefault(session, {})
        if len(waiting) >= MAX_QUEUED:
            raise UsageError(f"{MAX_QUEUED} prompts are already waiting", field="prompt", hint="Wait, or cancel some.")
        now = time.time()
        record = PromptRecord(
            id=id,
            session=session,
            text=prompt.text,
            attachments=prompt.attachments,
            status="queued",
            place=now,
            created_at=now,
            by=by,
            timeout_s=timeout_s,
            system=prompt.system,
        )
        key = prompt_key(session, id)
        first = key not in self._receiving
        self._receiving.add(key)
        try:
            await self._table.put(key, _encode(record), expect=0)
        except Conflict:
            record = await self.get(session, id)
            if not first or record.status != "queued" or not self.is_over(session, id):
                return record, False
            # Kept, but nobody knows of it: whoever sent it was cancelled in the middle.
        finally:
            if first:
                self._receiving.discard(key)
        waiting[id] = record
        return record, True

    async def get(self, session: str, id: str) -> PromptRecord:
        entry = await self._table.get(prompt_key(session, id))
        if entry is None:
            raise UsageError(f"no prompt {id!r} in session {session!r}", field="prompt")
        return _decode(entry.value)

    def sessions(self) -> list[str]:
        """Those in which something waits."""
        return [session for session, waiting in self._waiting.items() if waiting]

    def waiting(self, session: str) -> list[PromptRecord]:
        """In the order they will run."""
        return sorted(self._waiting.get(session, {}).values(), key=lambda record: (record.place, record.id))

    def running(self, session: str) -> PromptRecord | None:
        return self._running.get(session)

    async def wait_none_running(self, session: str) -> None:
        """A prompt is over a moment after its turn has ended in the log."""
        while session in self._running:
            await self._ended.wait()

    def is_over(self, session: str, id: str) -> bool:
        """Whether it neither waits nor runs."""
        running = self._running.get(session)
        return id not in self._waiting.get(session, {}) and (running is None or running.id != id)

    async def start(self, session: str) -> PromptRecord | None:
        """Take the next one. From here on it may have run."""
        async with self._locks[session]:  # one that is being edited or moved starts as it is then
            queue = self.waiting(session)
            if not queue:
                return None
            record = replace(queue[0], status="running", started_at=time.time())
            self._running[session] = record
            del self._waiting[session][record.id]
            try:
                await self._table.put(prompt_key(session, record.id), _encode(record))
            except BaseException:  # it waits on: nothing was begun
                del self._running[session]
                self._waiting[session][record.id] = queue[0]
                raise
            return record

    def go_on(self, record: PromptRecord) -> None:
        """One that was running when its owner died runs on, elsewhere: in a terminal."""
        self._running[record.session] = record

    async def give_back(self, record: PromptRecord) -> None:
        """It was taken and nothing was begun: it waits again, in its place."""
        queued = replace(record, status="queued", started_at=0.0)
        await self._table.put(prompt_key(record.session, record.id), _encode(queued))
        self._running.pop(record.session, None)
        self._waiting.setdefault(record.session, {})[record.id] = queued

    async def finish(self, session: str, outcome: Outcome, problem: str) -> PromptRecord:
        return await self.conclude(self._running[session], outcome, problem)

    async def conclude(self, record: PromptRecord, outcome: Outcome | None, problem: str) -> PromptRecord:
        """Write down how it ended; without an outcome nobody knows."""
        status: PromptStatus = "indeterminate" if outcome is None else "done" if outcome == "success" else "failed"
        ended = await self._end(record, status, outcome=outcome, problem=problem)
        self._running.pop(record.session, None)
        self._ended.set()
        self._ended = asyncio.Event()
        return ended

    async def cancel(self, session: str, id: str) -> PromptRecord:
        """Only what has not begun can be cancelled; a running one is interrupted instead."""
        async with self._locks[session]:
            record = await self._still_waiting(session, id, "cancelled; abort a running one.")
            del self._waiting[session][id]
            return await self._end(record, "cancelled")

    async def edit(self, session: str, id: str, text: str) -> PromptRecord:
        """Replace the text of a prompt that waits; its place and its attachments stay."""
        async with self._locks[session]:
            record = await self._still_waiting(session, id, "edited; steer a running one, or send another.")
            if not text and not record.attachments:
                raise UsageError("the prompt is empty", field="text", hint="Cancel it instead.")
            record = replace(record, text=text)
            await self._table.put(prompt_key(session, id), _encode(record))
            self._waiting[session][id] = record
            return record

    async def _still_waiting(self, session: str, id: str, only: str) -> PromptRecord:
        if (record := self._waiting.get(session, {}).get(id)) is not None:
            return record
        status = (await self.get(session, id)).status
        raise UsageError(
            f"prompt {id!r} is not waiting (status: {status})",
            field="prompt",
            hint=f"Only a waiting prompt can be {only}",
        )

    async def move(self, session: str, id: str, *, before: str = "") -> PromptRecord:
        """Put a prompt before another one of the queue, or at the end of the queue."""
        async with self._locks[session]:
            queue = self.waiting(session)
            record = next((prompt for prompt in queue if prompt.id == id), None)
            others = [prompt for prompt in queue if prompt.id != id]
            target = next((index for index, prompt in enumerate(others) if prompt.id == before), None)
            if record is None or (before and target is None):
                raise UsageError(f"no waiting prompt {id if record is None else before!r}", field="prompt")
            if target is None:
                position = (others[-1].place if others else record.place) + 1.0
            else:
                low = others[target - 1].place if target else others[0].place - 2.0
                position = (low + others[target].place) / 2
            record = replace(record, place=position)
            await self._table.put(prompt_key(session, id), _encode(record))
            self._waiting[session][id] = record
            return record

    async def _end(self, record: PromptRecord, status: PromptStatus, **changes: object) -> PromptRecord:
        record = replace(record, status=status, ended_at=time.time(), **changes)
        await self._table.put(prompt_key(record.session, record.id), _encode(record), ttl=KEPT_S)
        return record


def prompt_key(session: str, id: str) -> str:
    """Where the table has it. Raises UsageError for an id that no key can have."""
    if not id or any(sign in id for sign in " .*>"):
        raise UsageError(f"the prompt id {id!r} is not valid", field="id", hint="Use letters, digits, - and _.")
    return f"{session}.{id}"
