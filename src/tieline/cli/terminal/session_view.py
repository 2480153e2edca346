"""A session at the hub, on the terminal: each turn in a view of its own, asks with the command that answers them."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress

import msgspec

from ...background_tasks import cancel_and_wait
from ...events import Answer, Ask, Done, Event, TurnStarted
from ...ids import short_id
from ...protocol.stream_frames import AnyHubFrame, DeltaFrame, EventFrame
from ...sessions.records import SessionRecord
from .ask_text import full_text, headline
from .formatting import on_terminal
from .non_interactive_views import TICK_S, PlainView, View
from .sanitize import clean


class SessionView:
    """`show` what comes; `close` at the end, twice is fine."""

    def __init__(self, record: SessionRecord, *, json: bool = False, tell_how_to_answer: bool = True) -> None:
        """`tell_how_to_answer`: an ask is shown with the command that answers it."""
        self._record = record
        self._json = json
        self._tell_how_to_answer = tell_how_to_answer
        self._terminal = on_terminal() and not json
        self._view: View | None = None
        self._asked: set[str] = set()
        self._decided: set[str] = set()
        self._at = 0.0  # when what is being shown happened

    def show_history(self, frames: Sequence[EventFrame]) -> None:
        """What has happened, in order. An ask that was decided waits for nobody any more."""
        self._decided = {frame.event.ask for frame in frames if isinstance(frame.event, Answer)}
        for frame in frames:
            self.show(frame)

    def show(self, frame: EventFrame | DeltaFrame) -> None:
        if self._json:
            sys.stdout.buffer.write(msgspec.json.encode(frame) + b"\n")
            sys.stdout.buffer.flush()
            return
        self._at = frame.at if isinstance(frame, EventFrame) else 0.0
        self._show(frame.event)
        self._at = 0.0

    def _clock(self) -> float:
        """Time as the session has it, so that a turn is counted from its start and not from when it was looked at."""
        now = time.time()
        return min(self._at, now) if self._at else now  # another machine's clock may be ahead

    def note(self, message: str) -> None:
        if self._view is not None:
            self._view.note(message)
        else:
            print(f"tieline: {clean(message)}", file=sys.stderr, flush=True)

    def tick(self) -> None:
        if self._view is not None:
            with suppress(OSError):
                self._view.tick()

    def pause(self) -> None:
        """Somebody else writes to the terminal now; until `resume`."""
        if self._view is not None:
            self._view.pause()

    def resume(self) -> None:
        if self._view is not None:
            self._view.resume()

    def close(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None

    def _show(self, event: Event) -> None:
        if isinstance(event, TurnStarted) or self._view is None:
            self.close()
            self._view = self._new_view()
            self._view.start(self._record.agent)
            if isinstance(event, TurnStarted) and not self._terminal:
                print("› " + clean(event.prompt.strip()).replace("\n", "\n  "), flush=True)
        self._view.show(event)
        if isinstance(event, Ask) and self._tell_how_to_answer and event.id not in self._asked:
            self._asked.add(event.id)
            verb = "answer" if event.kind == "question" else "approve"
            decided = event.id in self._decided
            how = "" if decided or event.at_terminal else f"\n  tieline {verb} {short_id(event.id)}"
            self._view.note(f"{'asked' if decided else 'waits for you'}: {headline(event)}\n{full_text(event)}{how}")
        elif isinstance(event, Answer):
            self._asked.discard(event.ask)
        elif isinstance(event, Done):
            self.close()

    def _new_view(self) -> View:
        if not self._terminal:
            return PlainView(sys.stdout, sys.stdout, agent=self._record.agent)
        from rich.console import Console

        from .turn_view import TerminalView

        console = Console(markup=False, emoji=False, highlight=False)
        return TerminalView(
            console,
            agent=self._record.agent,
            show_prompt=True,
            clock=self._clock,
            keys="Ctrl-C leaves, it goes on",
        )


async def ticking(frames: AsyncGenerator[AnyHubFrame, None], watch: SessionView) -> AsyncGenerator[AnyHubFrame, None]:
    """The frames, while the view's clock goes on."""

    async def tick() -> None:
        while True:
            await asyncio.sleep(TICK_S)
            watch.tick()

    clock = asyncio.create_task(tick())
    try:
        async with aclosing(frames):
            async for frame in frames:
                yield frame
    finally:
        await cancel_and_wait(clock)
