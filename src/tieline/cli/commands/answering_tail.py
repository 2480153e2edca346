"""`tieline tail` on a terminal: follows a session, and one key answers each of its asks."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing

from msgspec.structs import replace
from rich.console import Console

from ...background_tasks import cancel_and_wait
from ...client.client import Client
from ...client.hub_session import with_local_author
from ...client.read_turns import ReadTurns
from ...errors import TielineError
from ...events import Answer
from ...protocol.request_bodies import Decision
from ...protocol.stream_frames import AnyHubFrame, AskFrame, DeltaFrame, EventFrame, Ready, SessionFrame
from ...sessions.records import AskRecord, SessionRecord
from ..run.permission_prompt import PermissionPrompter
from ..signals import Suspension
from ..terminal.keyboard import keyboard
from ..terminal.session_view import SessionView, ticking
from .asks import answer_as_shown, check_taken
from .session_history import last_events

MAX_UNREAD = 4000
"""Frames that wait while the person thinks about an ask; deltas only as long as half of the room is free."""


class AnsweringTail:
    """Follows a session and puts each of its asks to the person, as `tieline run` does. What the person does not answer
    stays undecided: the session is not theirs alone."""

    def __init__(self, client: Client, record: SessionRecord) -> None:
        keys = keyboard()
        assert keys is not None, "standard input is a terminal"
        watch = SessionView(record, tell_how_to_answer=False)
        self._client = client
        self._record = record
        self._watch = watch
        self._keys = keys
        self._prompter = PermissionPrompter(
            record.agent,
            Console(markup=False, emoji=False, highlight=False),
            keys,
            cwd=record.cwd,
            pause=watch.pause,
            resume=watch.resume,
            deny_when_gone=False,
        )
        self._unread: asyncio.Queue[AnyHubFrame] = asyncio.Queue(MAX_UNREAD)
        self._deciding: dict[str, asyncio.Task[None]] = {}
        self._answered_here: dict[str, Answer] = {}
        self._read = ReadTurns(client, record.id)

    async def follow(self, number: int) -> None:
        with ExitStack() as stack:
            stack.enter_context(self._keys)
            self._keys.quiet()
            loop = asyncio.get_running_loop()

            def continued() -> None:
                self._keys.reapply()
                loop.call_soon_threadsafe(self._prompter.redraw)

            stack.enter_context(Suspension(self._keys.restore, continued))
            pump = asyncio.create_task(self._pump())
            try:
                async with aclosing(ticking(self._frames(pump), self._watch)) as frames:
                    await self._show(frames, number)
            finally:
                await cancel_and_wait(pump, *self._deciding.values())
                self._watch.close()

    async def _show(self, frames: AsyncGenerator[AnyHubFrame, None], number: int) -> None:
        begun = False
        async for frame in frames:
            self._read.hear(frame)
            match frame:
                case Ready():
                    if not begun:
                        begun = True
                        for earlier in await last_events(
                            self._client, self._record.id, number, upto=frame.cursor, prompt=True
                        ):
                            self._watch.show(earlier)
                    await self._read.mark_all()
                    for ask in frame.snapshot.asks:
                        await self._prompter.prompt(ask.ask)
                case AskFrame(ask=ask):
                    await self._prompter.prompt(ask.ask)
                case EventFrame(event=Answer(ask=ask) as answer):
                    shown = with_local_author(answer, self._answered_here.pop(ask, None))
                    self._watch.show(replace(frame, event=shown))
                case EventFrame() | DeltaFrame():
                    self._watch.show(frame)
                case SessionFrame():
                    await self._read.mark_all()
                case _:
                    pass

    async def _frames(self, pump: "asyncio.Task[None]") -> AsyncGenerator[AnyHubFrame, None]:
        while True:
            waiting = asyncio.ensure_future(self._unread.get())
            await asyncio.wait({waiting, pump}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                await cancel_and_wait(waiting)
                await pump  # its error, if it ended with one
                return
            yield waiting.result()

    async def _pump(self) -> None:
        """Reads on while the person thinks: an ask that somebody else answers is no longer asked."""
        stream = self._client.stream(sessions=[self._record.id], visible=True, by="sse")
        async with aclosing(stream) as frames:
            async for frame in frames:
                if isinstance(frame, Ready):
                    asks = {ask.id: ask for ask in frame.snapshot.asks if ask.session == self._record.id}
                    for gone in self._deciding.keys() - asks.keys():
                        self._deciding[gone].cancel()
                    for ask in asks.values():
                        await self._begin(ask)
                elif isinstance(frame, AskFrame):
                    if frame.ask.session != self._record.id:
                        continue
                    if frame.ask.status == "pending":
                        await self._begin(frame.ask)
                    elif task := self._deciding.get(frame.ask.id):
                        task.cancel()
                if isinstance(frame, DeltaFrame) and self._unread.qsize() > MAX_UNREAD // 2:
                    continue
                await self._unread.put(frame)

    async def _begin(self, record: AskRecord) -> None:
        if record.id in self._deciding:
            return
        task = self._deciding[record.id] = asyncio.create_task(self._decide(record))
        task.add_done_callback(lambda _: self._deciding.pop(record.id, None))
        await asyncio.sleep(0)  # `_decide` has taken it up before it is shown

    async def _decide(self, record: AskRecord) -> None:
        answer = await self._prompter.decide(record.ask)
        decision = Decision(
            decision=answer.decision, reason=answer.reason, answers=answer.answers, remember=answer.remember
        )
        self._answered_here[record.id] = answer
        try:
            check_taken(await answer_as_shown(self._client, record, decision))
        except TielineError as error:  # somebody was faster, or it has changed: the log has what counts
            self._answered_here.pop(record.id, None)
            self._watch.note(error.message)
