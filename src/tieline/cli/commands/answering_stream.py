"""The frames of a session's stream, while what it asks is decided here: by the person at the terminal, with one key, or
by `--on-ask`."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import ExitStack, aclosing, contextmanager

from msgspec.structs import replace

from ...background_tasks import cancel_and_wait
from ...client.client import Client
from ...client.hub_session import with_local_author
from ...errors import TielineError
from ...events import Answer, Ask, Done, TurnStarted
from ...protocol.request_bodies import Decision
from ...protocol.stream_frames import AnyHubFrame, AskFrame, DeltaFrame, EventFrame, Ready
from ...sessions.ask_decisions import decide
from ...sessions.records import AskRecord, SessionRecord
from ..run.terminal_io import TerminalIO
from ..signals import Suspension
from ..terminal.session_view import SessionView
from .asks import answer_as_shown, check_taken

MAX_UNREAD = 4000
"""Frames that wait while the person thinks about an ask; deltas only as long as half of the room is free."""


@contextmanager
def answering(
    client: Client, record: SessionRecord, watch: SessionView, terminal: TerminalIO, *, turn: str = ""
) -> Generator[AsyncGenerator[AnyHubFrame, None], None, None]:
    """The frames, which `watch` shows. `turn`: a prompt's id; what other turns ask is for others to decide. What a
    person leaves undecided stays so: the session is not theirs alone."""
    prompter = terminal.prompter(record.agent, record.cwd, watch, deny_when_gone=False)

    async def without_person(ask: Ask) -> Answer:
        return await decide(terminal.automatic_answer, ask)

    on_ask, prompt = (prompter.decide, prompter.prompt) if prompter is not None else (without_person, None)
    stream = AnsweringStream(client, record, on_ask, prompt=prompt, note=watch.note, turn=turn)
    with ExitStack() as stack:
        if (keys := terminal.keys) is not None:
            loop = asyncio.get_running_loop()

            def continued() -> None:
                keys.reapply()
                if prompter is not None:
                    loop.call_soon_threadsafe(prompter.redraw)

            stack.enter_context(keys)
            keys.quiet()
            stack.enter_context(Suspension(keys.restore, continued))
        yield stream.frames()


class AnsweringStream:
    def __init__(
        self,
        client: Client,
        record: SessionRecord,
        on_ask: Callable[[Ask], Awaitable[Answer]],
        *,
        prompt: Callable[[Ask], Awaitable[None]] | None,
        note: Callable[[str], None],
        turn: str,
    ) -> None:
        """`prompt` lets the person decide an ask that has come on the screen."""
        self._client = client
        self._record = record
        self._on_ask = on_ask
        self._prompt = prompt
        self._note = note
        self._turn = turn
        self._running = not turn
        self._unread: asyncio.Queue[AnyHubFrame] = asyncio.Queue(MAX_UNREAD)
        self._open: dict[str, AskRecord] = {}
        self._deciding: dict[str, asyncio.Task[None]] = {}
        self._answered_here: dict[str, Answer] = {}

    async def frames(self) -> AsyncGenerator[AnyHubFrame, None]:
        pump = asyncio.create_task(self._pump())
        come: set[str] = set()  # asks that are on the screen: not before what led to them
        try:
            while True:
                waiting = asyncio.ensure_future(self._unread.get())
                await asyncio.wait({waiting, pump}, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    await cancel_and_wait(waiting)
                    await pump  # its error, if it ended with one
                    return
                frame = waiting.result()
                if isinstance(frame, EventFrame) and isinstance(answer := frame.event, Answer):
                    local_answer = self._answered_here.pop(answer.ask, None)
                    frame = replace(frame, event=with_local_author(answer, local_answer))
                yield frame
                come.update(ask.id for ask in _asks_of(frame))
                for ask in [self._open[id] for id in self._deciding if id in come and id in self._open]:
                    if self._prompt is not None:
                        await self._prompt(ask.ask)
        finally:
            await cancel_and_wait(pump, *self._deciding.values())

    async def _pump(self) -> None:
        """Reads on while the person thinks: an ask that somebody else answers is no longer asked."""
        stream = self._client.stream(sessions=[self._record.id], visible=True, by="sse")
        async with aclosing(stream) as frames:
            async for frame in frames:
                await self._follow(frame)
                if isinstance(frame, DeltaFrame) and self._unread.qsize() > MAX_UNREAD // 2:
                    continue
                await self._unread.put(frame)

    async def _follow(self, frame: AnyHubFrame) -> None:
        match frame:
            case Ready():
                self._open = {ask.id: ask for ask in _asks_of(frame) if ask.session == self._record.id}
                for gone in self._deciding.keys() - self._open.keys():
                    self._deciding[gone].cancel()
            case AskFrame(ask=ask) if ask.session == self._record.id and ask.status == "pending":
                self._open[ask.id] = ask
            case AskFrame(ask=ask):
                self._open.pop(ask.id, None)
                if task := self._deciding.get(ask.id):
                    task.cancel()
            case EventFrame(event=TurnStarted(id=id)) if self._turn:
                self._running = id == self._turn
            case EventFrame(event=Done()) if self._turn:
                self._running = False
            case _:
                return
        if self._running:
            for ask in self._open.values():
                await self._begin(ask)

    async def _begin(self, record: AskRecord) -> None:
        if record.id in self._deciding or record.id in self._answered_here:
            return
        task = self._deciding[record.id] = asyncio.create_task(self._decide(record))
        task.add_done_callback(lambda _: self._deciding.pop(record.id, None))
        await asyncio.sleep(0)  # `_decide` has taken it up before it is shown

    async def _decide(self, record: AskRecord) -> None:
        answer = await self._on_ask(record.ask)
        decision = Decision(
            decision=answer.decision, reason=answer.reason, answers=answer.answers, remember=answer.remember
        )
        self._answered_here[record.id] = answer
        try:
            check_taken(await answer_as_shown(self._client, record, decision))
        except TielineError as error:  # somebody was faster, or it has changed: the log has what counts
            self._answered_here.pop(record.id, None)
            self._note(error.message)


def _asks_of(frame: AnyHubFrame) -> tuple[AskRecord, ...]:
    return (
        tuple(frame.snapshot.asks) if isinstance(frame, Ready) else (frame.ask,) if isinstance(frame, AskFrame) else ()
    )
