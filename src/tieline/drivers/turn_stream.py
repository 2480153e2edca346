"""The event stream of one turn, between the driver that emits and the caller that iterates.

A driver emits what it sees; this keeps the promises of the stream:
- `turn_started` first, `done` last and once; what comes after it is dropped;
- every `tool_use` has one `tool_result`; a denied call is visible even when the agent hides it;
- every `ask` has its `answer`, also when the turn ends before anyone gave one;
- deltas that no whole item followed (a cut stream) still leave the whole item in the record;
- a reader that is behind costs no unbounded memory: deltas coalesce, and `room()` holds the producer.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Literal

from ..events import (
    Answer,
    Ask,
    Done,
    Error,
    Event,
    OtherAction,
    Outcome,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tokens,
    ToolOutput,
    ToolResult,
    ToolUse,
    TurnStarted,
    Usage,
)
from .base import AskFn, Prompt

MAX_QUEUED = 10_000
"""Whole items a reader may be behind before the producer is held."""
INTERRUPT_GRACE_S = 5.0
"""The time an agent gets to end an interrupted turn by itself, before it is killed."""


class Turn:
    def __init__(self, prompt: Prompt, ask: AskFn) -> None:
        self.prompt = prompt
        self.interrupted = False
        self.ended = False
        self._ask = ask
        self._queue: deque[Event | _DeltaRun] = deque()
        self._changed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._started = time.monotonic()
        self._tools: dict[str, bool] = {}  # id → has its result
        self._denied: dict[str, str] = {}  # id → why
        self._open_items: dict[tuple[type[Event], str, str], list[str]] = {}
        self._last_text = ""
        self._tokens: Tokens | None = None
        self._failure = ""
        self._asks: dict[str, Ask] = {}  # those without an answer
        self._deciding: set[asyncio.Task[Answer]] = set()
        self._deadline: asyncio.TimerHandle | None = None
        self._put(TurnStarted(prompt.text))

    # --- the producer's side ---------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Take one event. Never waits; see `room`."""
        if self.ended:
            return
        if isinstance(event, TextDelta | ThinkingDelta | ToolOutput):
            self._delta(event)
            return
        match event:
            case Text():
                self._open_items.pop((TextDelta, event.item, event.parent), None)
                if not event.parent:
                    self._last_text = event.text
            case Thinking():
                self._open_items.pop((ThinkingDelta, event.item, event.parent), None)
            case ToolUse():
                if event.id in self._tools:
                    return
                self._tools[event.id] = False
            case ToolResult():
                if self._tools.get(event.id, True):
                    return  # of no call we know, or a second one
                self._tools[event.id] = True
                if event.id in self._denied:
                    output = event.output or self._denied[event.id]
                    event = ToolResult(event.id, "denied", output, event.parent)
            case Ask():
                self._asks[event.id] = event
            case Answer():
                self._asks.pop(event.ask, None)
            case Usage():
                self._tokens = event.tokens
            case Error() if not event.recoverable:
                if self.interrupted:  # what an agent says of its own abort; the end tells it, once
                    return
                self._failure = event.message
            case Done():
                self._finish(event)
                return
            case _:
                pass
        self._put(event)

    async def drain(self) -> None:
        """Wait until the reader is not too far behind. Call it between reads from the agent."""
        await self._writable.wait()

    async def ask(self, request: Ask) -> Answer:
        """Have an ask decided. A refused tool call is shown even if the agent never speaks of it."""
        if self.ended:
            return _over(request)
        if request.tool and request.tool not in self._tools and request.kind == "permission":
            action = request.action or OtherAction()
            self.emit(ToolUse(request.tool, request.title or action.kind, action, request.input))
        deciding = asyncio.create_task(self._decide(request))
        self._deciding.add(deciding)
        try:
            answer = await deciding
        except asyncio.CancelledError:
            if not self.ended or (us := asyncio.current_task()) is None or us.cancelling():
                raise
            return _over(request)
        finally:
            self._deciding.discard(deciding)
        if answer.decision == "deny" and request.tool:
            self._denied[request.tool] = answer.reason or f"denied by {answer.by}"
        return answer

    def mark_denied(self, tool: str, reason: str) -> None:
        """The agent's own rules refused this call: its result is `denied`, also when it says `error`."""
        self._denied[tool] = reason

    @property
    def asking(self) -> bool:
        """Whether somebody is being asked right now: the agent waits for us, it does not hang."""
        return bool(self._deciding)

    def done(
        self,
        status: Outcome,
        *,
        error: str = "",
        text: str = "",
        tokens: Tokens | None = None,
        usage: Literal["complete", "partial", "unknown"] | None = None,
        native_id: str = "",
        turns: int | None = None,
    ) -> None:
        """End the turn; only the first call counts. An interrupted turn ends as interrupted whatever is said."""
        if self.interrupted and status in ("success", "error"):
            status, error = "interrupted", ""
        known = tokens or self._tokens
        if usage is None:
            usage = "unknown" if known is None else "complete" if tokens else "partial"
        self.emit(
            Done(
                status,
                text=text or self._last_text,
                error=error or (self._failure if status == "error" else ""),
                tokens=known,
                usage=usage,
                native_id=native_id,
                turns=turns,
            )
        )

    def fail(self, message: str, *, code: str = "", native_id: str = "") -> None:
        """End the turn with an error; quietly when it was interrupted anyway."""
        self.emit(Error(message, code))
        self.done("error", error=message, native_id=native_id)

    def interrupt(self, kill: Callable[[], None]) -> None:
        """From now on the turn ends as interrupted; if the agent does not end it in time, `kill` is called."""
        if self.ended or self.interrupted:
            return
        self.interrupted = True
        self._writable.set()  # a reader that interrupts must not wait for itself

        def too_late() -> None:
            if not self.ended:
                kill()
                self.done("interrupted")

        self._deadline = asyncio.get_running_loop().call_later(INTERRUPT_GRACE_S, too_late)

    # --- the reader's side -----------------------------------------------------------------------------

    def __aiter__(self) -> "Turn":
        return self

    async def __anext__(self) -> Event:
        while not self._queue:
            if self.ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        event = self._queue.popleft()
        if len(self._queue) < MAX_QUEUED:
            self._writable.set()
        return event.merged() if isinstance(event, _DeltaRun) else event

    # --- inside ----------------------------------------------------------------------------------------

    async def _decide(self, request: Ask) -> Answer:
        return await self._ask(request, self.emit)

    def _delta(self, event: TextDelta | ThinkingDelta | ToolOutput) -> None:
        if not event.text:
            return
        key = _key(event)
        if not isinstance(event, ToolOutput):
            self._open_items.setdefault(key, []).append(event.text)
        last = self._queue[-1] if self._queue else None
        if isinstance(last, _DeltaRun):
            if last.key == key:
                last.parts.append(event.text)
                return
        elif isinstance(last, TextDelta | ThinkingDelta | ToolOutput) and _key(last) == key:
            self._queue[-1] = _DeltaRun(key, [last.text, event.text])
            return
        self._put(event)

    def _put(self, event: "Event") -> None:
        self._queue.append(event)
        self._changed.set()
        if len(self._queue) >= MAX_QUEUED and not self.interrupted:
            self._writable.clear()

    def _finish(self, event: Done) -> None:
        for (kind, item, parent), parts in list(self._open_items.items()):
            whole = Text if kind is TextDelta else Thinking
            self.emit(whole("".join(parts), item, parent))
        for ask in list(self._asks.values()):
            self.emit(_over(ask))
        for tool, finished in list(self._tools.items()):
            if not finished:
                self.emit(ToolResult(tool, "error", self._denied.get(tool) or f"the turn ended: {event.status}"))
        text = event.text or self._last_text
        self._put(
            Done(
                event.status,
                text=text,
                error=event.error,
                tokens=event.tokens,
                usage=event.usage,
                native_id=event.native_id,
                duration_s=round(time.monotonic() - self._started, 6),
                turns=event.turns,
            )
        )
        self.ended = True
        self._writable.set()
        for deciding in self._deciding:
            deciding.cancel()
        if self._deadline is not None:
            self._deadline.cancel()


class _DeltaRun:
    """Deltas of one item that the reader has not taken yet."""

    __slots__ = ("key", "parts")

    def __init__(self, key: tuple[type[Event], str, str], parts: list[str]) -> None:
        self.key = key
        self.parts = parts

    def merged(self) -> Event:
        kind, item, parent = self.key
        text = "".join(self.parts)
        if kind is ToolOutput:
            return ToolOutput(item, text)
        return TextDelta(text, item, parent) if kind is TextDelta else ThinkingDelta(text, item, parent)


def _over(ask: Ask) -> Answer:
    return Answer(ask.id, "deny", by="turn-end", reason="the turn is over", tool=ask.tool)


def _key(event: TextDelta | ThinkingDelta | ToolOutput) -> tuple[type[Event], str, str]:
    if isinstance(event, ToolOutput):
        return (ToolOutput, event.id, "")
    return (type(event), event.item, event.parent)
