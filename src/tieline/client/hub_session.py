"""One turn of a session at the hub, followed and answered here as if the agent ran in this process.

The session is new, or the one that already holds the resumed conversation: two sessions must not share one.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress

from msgspec.structs import replace

from ..background_tasks import cancel_and_wait
from ..drivers.base import AgentOptions, Prompt
from ..errors import TielineError, UsageError
from ..events import Answer, Ask, Done, Error, Event, Status, TurnStarted
from ..ids import new_id
from ..protocol.request_bodies import Decision, NewPrompt, NewSession, SessionChange
from ..protocol.stream_frames import AnyHubFrame, AskFrame, DeltaFrame, EventFrame, Ready
from ..sessions.ask_decisions import OnAsk, decide
from ..sessions.records import SessionRecord, digest
from .errors import HubError, HubUnreachable, error_by_name
from .read_marks import ReadTurns
from .sessions import SessionsApi
from .stream import Connection

PATIENCE_S = 30.0
"""How long to wait for a hub that disconnects during the turn."""
ABORT_RETRY_S = 0.05
INTERRUPT_S = 5.0
"""How long the interrupt request may take when the caller leaves early."""
MAX_UNREAD = 4000
"""Events that wait while the person thinks about an ask; deltas only as long as half of the room is free."""
MAX_INLINE_PROMPT = 100_000
"""Characters of a prompt that is sent with the new session; a longer prompt is a request of its own."""
MUST_MATCH = ("cwd", *(name for name in AgentOptions.__struct_fields__ if name != "model"))
"""The options that must be equal for a run to continue a session."""


class HubSession:
    """`async with HubSession(client, new, on_ask) as session`: subscribes; `turn` then sends the prompt."""

    def __init__(
        self,
        client: SessionsApi,
        new: NewSession,
        on_ask: OnAsk | None,
        *,
        exists: bool = False,
        resumes: Callable[[], bool] = lambda: False,
        patience_s: float = PATIENCE_S,
        read: bool = False,
    ) -> None:
        """`on_ask` decides what is asked; without it that is for others. `exists`: the session is there already, by its
        id. `resumes`: whether the agent can go on later, for a hub that has not probed its agents yet. `read`: a person
        sees the turn here, so it is marked as read."""
        self.agent = new.agent
        self.cwd = new.cwd
        self.resumable = False
        self._client = client
        self._new = new
        self._id = new.id  # the session's
        self._prompt = new_id()
        self._ours = not exists  # the events that arrive now belong to our turn
        self._on_ask = on_ask
        self._resumes = resumes
        self._patience_s = patience_s
        self._read = read
        self._read_turns = ReadTurns(client, new.id)
        self._events: asyncio.Queue[Event | None] = asyncio.Queue(MAX_UNREAD)
        self._asks: dict[str, asyncio.Event] = {}  # those the hub has, by id
        self._deciding: dict[str, asyncio.Task[None]] = {}
        self._local_answers: dict[str, Answer] = {}  # decided in this process
        self._lost = False
        self._running = False
        self._unwanted = False  # interrupted before the session existed
        self._over = False
        self._problem: Exception | None = None

    async def __aenter__(self) -> "HubSession":
        """Returns when the stream is open, so that no event of the turn is missed."""
        if self._new.resume and not self._new.fork and (earlier := await self._find_session()):
            self._id, self._ours = earlier.id, False
            self._read_turns = ReadTurns(self._client, earlier.id)
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pump = asyncio.create_task(self._follow())
        try:
            await self._ready
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def turn(self, prompt: Prompt, *, timeout: float | None = None) -> AsyncGenerator[Event, None]:
        await self._send(prompt, timeout)
        self._running = True
        try:
            if self._unwanted:
                await self.interrupt()
            held: TurnStarted | None = None
            while (event := await self._events.get()) is not None:
                if isinstance(event, TurnStarted):
                    held = event
                    continue
                if held is not None:
                    if isinstance(event, Error) and (failure := _open_failure(event)):
                        self._over = True
                        raise failure
                    yield held
                    held = None
                yield event
                if isinstance(event, Done):
                    if self._read:
                        await self._read_turns.mark_turn()
                    return
            if isinstance(self._problem, HubUnreachable):
                self._problem.hint = f"`tieline up` starts one; `tieline tail {self._id}` tells how the turn went on."
            raise self._problem or HubError("the hub's stream ended")
        finally:
            if not self._over:  # the caller left: the agent must not go on unwatched
                with suppress(TielineError, TimeoutError):
                    async with asyncio.timeout(INTERRUPT_S):
                        await self.interrupt()

    async def interrupt(self) -> None:
        self._unwanted = True
        if not self._running:
            return  # `turn` interrupts it once the prompt is sent
        if not self._ours:  # our prompt still waits behind other prompts, whose turns we must not end
            await self._client.cancel_prompt(self._id, self._prompt)
            self._over = True
            await self._events.put(Done("interrupted"))
            return
        while not self._over:  # the session may not have begun with the prompt
            if await self._client.abort(self._id) is not False:
                return
            await asyncio.sleep(ABORT_RETRY_S)

    async def _send(self, prompt: Prompt, timeout: float | None) -> None:
        """Session and prompt in one request where possible."""
        if self._ours:
            if not (prompt.attachments or timeout is not None or len(prompt.text) > MAX_INLINE_PROMPT):
                await self._client.create_session(replace(self._new, prompt=prompt.text))
                return
            await self._client.create_session(self._new)
        new = NewPrompt(id=self._prompt, text=prompt.text, attachments=prompt.attachments, timeout_s=timeout)
        await self._client.prompt(self._id, new)

    async def _find_session(self) -> SessionRecord | None:
        """The session that holds the conversation, if its options match; else that session is closed."""
        new = self._new
        for record in await self._client.sessions(archived=True):
            if (record.native_id, record.agent, record.node) == (new.resume, new.agent, new.node or record.node):
                alike = all(getattr(record, name) == getattr(new, name) for name in MUST_MATCH) and new.model in (
                    "",
                    record.model,
                )
                if not alike:
                    await self._client.close_session(record.id)
                    return None
                if record.archived:
                    await self._client.change_session(record.id, SessionChange(archived=False))
                return record
        return None

    # --- the stream ------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        stream = self._client.stream(
            sessions=(self._id,), visible=True, by="sse", patience_s=self._patience_s, on_connection=self._on_connection
        )
        try:
            async with aclosing(stream) as frames:
                async for frame in frames:
                    self._read_turns.on_frame(frame)
                    await self._on_frame(frame)
                    if self._over and not self._read:  # else the turn is still to be counted
                        return
        except TielineError as error:
            self._problem = error
        finally:
            if not self._ready.done():
                self._ready.set_exception(self._problem or HubError("the hub's stream ended"))
            await self._events.put(None)

    async def _on_frame(self, frame: AnyHubFrame) -> None:
        match frame:
            case Ready():
                await self._on_ready(frame)
            case EventFrame(event=event):
                await self._on_event(event)
            case DeltaFrame(event=event) if self._ours:
                if self._events.qsize() < MAX_UNREAD // 2:
                    self._events.put_nowait(event)
            case AskFrame(ask=record) if record.status == "pending":
                self._ask_stored(record.id).set()
            case AskFrame(ask=record):
                self._stop_deciding(record.id)
            case _:
                pass

    async def _on_ready(self, frame: Ready) -> None:
        agents = (agent for node in frame.snapshot.nodes if node.id == self._new.node for agent in node.agents)
        agent = next((candidate for candidate in agents if candidate.name == self.agent), None)
        self.resumable = "resume" in agent.features if agent else self._resumes()
        for ask in frame.snapshot.asks:
            self._ask_stored(ask.id).set()
        if self._lost:
            self._lost = False
            await self._events.put(Status("reconnected", "the hub is back"))
        if not self._ready.done():
            self._ready.set_result(None)

    async def _on_event(self, event: Event) -> None:
        if isinstance(event, TurnStarted) and event.id == self._prompt:
            self._ours = True
        if not self._ours:
            return
        match event:
            case TurnStarted():
                self._read_turns.turn_started()
            case Ask():
                if self._on_ask is not None:
                    task = asyncio.create_task(self._decide(event, self._on_ask))
                    self._deciding[event.id] = task
                    task.add_done_callback(lambda _: self._deciding.pop(event.id, None))
                    await asyncio.sleep(0)  # `_decide` must see the ask before it is shown
            case Answer(ask=ask):
                self._stop_deciding(ask)
                event = with_local_author(event, self._local_answers.pop(ask, None))
            case Done():
                self._over = True
            case _:
                pass
        await self._events.put(event)

    def _on_connection(self, connection: Connection) -> None:
        if connection.state == "lost" and self._ready.done() and not self._lost:
            self._lost = True
            with suppress(asyncio.QueueFull):
                self._events.put_nowait(Status("reconnecting", f"the hub cannot be reached: {connection.problem}"))

    # --- asks ------------------------------------------------------------------------------------------

    async def _decide(self, ask: Ask, on_ask: OnAsk) -> None:
        answer = await decide(on_ask, ask)
        self._local_answers[ask.id] = answer
        decision = Decision(
            decision=answer.decision,
            reason=answer.reason,
            answers=answer.answers,
            remember=answer.remember,
            digest=digest(ask),
        )
        try:
            await self._ask_stored(ask.id).wait()  # the record follows the event
            await self._client.answer(ask.id, decision)
        except UsageError:
            pass  # already answered or expired: the log has the outcome
        except TielineError as error:  # the ask stays undecided, so the turn cannot end here
            self._problem = error
            self._pump.cancel()

    def _ask_stored(self, ask: str) -> asyncio.Event:
        return self._asks.setdefault(ask, asyncio.Event())

    def _stop_deciding(self, ask: str) -> None:
        """The ask was answered elsewhere, or is over."""
        task = self._deciding.get(ask)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def _stop(self) -> None:
        tasks = [self._pump, *self._deciding.values()]
        await cancel_and_wait(*tasks)


def with_local_author(event: Answer, local_answer: Answer | None) -> Answer:
    """The decision as this process shows it, after it decided `local_answer`. The hub names the device that decided;
    here it is more useful to name the person or the option behind it. When another process decided the same before, the
    event stays as the hub wrote it."""
    other = event.via.startswith("pid ") and event.via.split()[1:2] != [str(os.getpid())]
    if (
        local_answer
        and not other
        and (local_answer.decision, local_answer.reason, local_answer.answers)
        == (event.decision, event.reason, event.answers)
    ):
        return replace(event, by=local_answer.by, via="")
    return event


def _open_failure(event: Error) -> TielineError | None:
    """A turn that begins with one of Tieline's own errors never reached its agent: the session failed to open."""
    message, _, hint = event.message.partition("\n  ")
    return error_by_name(event.code, message, hint=hint) if event.code else None
