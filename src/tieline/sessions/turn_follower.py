"""How the turn of a prompt goes, read from the bus: whichever node runs the session, its log and prompts are there."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Literal

import msgspec
from msgspec import Struct

from ..background_tasks import cancel_and_wait
from ..bus.base import Bus
from ..errors import BusClosed, BusError
from ..events import AnyEvent, Done, Outcome, Text, Thinking, ToolResult, ToolUse, TurnStarted
from .event_log import EventLog
from .prompt_queue import prompt_key
from .records import PROMPTS, PromptRecord

LATE_S = 15.0
"""How long a turn's end may be on its way after its prompt is known to be over: from another node, the log and the
table come by different ways."""
AGAIN_S = 1.0

_decode = msgspec.json.Decoder(PromptRecord).decode

OnBegun = Callable[[], Awaitable[None]]


class TurnEnd(Struct, frozen=True):
    """How it ended. `cancelled`: it never began. `indeterminate`: nobody knows."""

    status: Outcome | Literal["cancelled", "indeterminate"]
    text: str = ""
    error: str = ""


class TurnFollower:
    """`async with TurnFollower(bus)`."""

    def __init__(self, bus: Bus) -> None:
        self._log = EventLog(bus)
        self._table = bus.table(PROMPTS)
        self._waiting: dict[str, set[asyncio.Future[PromptRecord]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "TurnFollower":
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def known(self, session: str, prompt: str) -> bool:
        """Whether there is such a prompt already: an earlier delivery of the same message."""
        return await self._table.get(prompt_key(session, prompt)) is not None

    async def end(
        self,
        session: str,
        prompt: str,
        *,
        after: int,
        began: OnBegun | None = None,
        called: Callable[[int], None] | None = None,
        on_event: Callable[[AnyEvent], None] | None = None,
    ) -> TurnEnd:
        """Wait for a turn's end. `began` is awaited when it begins, `called` told each model call's number, `on_event`
        each event of the turn."""
        key = prompt_key(session, prompt)
        over: asyncio.Future[PromptRecord] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, set()).add(over)
        reading = asyncio.create_task(self._read(session, prompt, after, began, called, on_event))
        try:
            if (record := await self._prompt(key)) is not None and record.over and not over.done():
                over.set_result(record)
            await asyncio.wait({over, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                record = over.result()
                if record.status in ("cancelled", "indeterminate"):
                    return TurnEnd(
                        "cancelled" if record.status == "cancelled" else "indeterminate", error=record.problem
                    )
                await asyncio.wait({reading}, timeout=LATE_S)
                if not reading.done():
                    return TurnEnd(record.outcome or "error", error=record.problem)
            done = reading.result()
            if done.status == "error" and (record := await self._prompt(key)) and record.status == "indeterminate":
                return TurnEnd("indeterminate", error=record.problem)
            return TurnEnd(done.status, done.text, done.error)
        finally:
            await cancel_and_wait(reading)
            self._waiting[key].discard(over)
            if not self._waiting[key]:
                del self._waiting[key]

    async def _prompt(self, key: str) -> PromptRecord | None:
        entry = await self._table.get(key)
        return _decode(entry.value) if entry else None

    async def _read(
        self,
        session: str,
        prompt: str,
        after: int,
        began: OnBegun | None,
        called: Callable[[int], None] | None,
        on_event: Callable[[AnyEvent], None] | None,
    ) -> Done:
        ours = False
        calls = CallCounter()
        async with aclosing(self._log.read(session, after=after)) as entries:
            async for entry in entries:
                if isinstance(entry.event, TurnStarted):
                    ours = entry.event.id == prompt
                if ours and on_event is not None:
                    on_event(entry.event)
                match entry.event:
                    case TurnStarted() if ours and began is not None:
                        await began()
                    case Done() if ours:
                        return entry.event
                    case event if ours and calls.count(event) and called is not None:
                        called(calls.number)
                    case _:
                        pass
        raise BusClosed

    async def _watch(self) -> None:
        """One watch for all: a prompt that never begins is only seen in the table."""
        while True:
            with contextlib.suppress(BusError):
                async with aclosing(self._table.watch()) as changes:
                    async for change in changes:
                        waiting = self._waiting.get(change.key)
                        if waiting and change.value is not None and (record := _decode(change.value)).over:
                            for future in waiting:
                                if not future.done():
                                    future.set_result(record)
            await asyncio.sleep(AGAIN_S)


class CallCounter:
    """Counts a turn's model calls by what is seen of them: something new is said after results came in."""

    def __init__(self) -> None:
        self.number = 0
        self._next = True

    def count(self, event: AnyEvent) -> bool:
        """Whether this event is the first of another call."""
        match event:
            case ToolResult(parent=""):
                self._next = True
            case Text(parent="") | Thinking(parent="") | ToolUse(parent="") if self._next:
                self._next = False
                self.number += 1
                return True
            case _:
                pass
        return False
