"""One conversation with OpenCode: prompts go in by HTTP, everything else comes back over the event stream."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ...background_tasks import cancel_and_wait
from ...errors import AgentError, SessionClosed
from ...events import Error, Event, Init, Other
from ...policy import Receipt
from ..base import AskFn, Prompt, Spec
from ..turn_stream import INTERRUPT_GRACE_S, Turn
from .asks import OpenCodeAsks
from .event_stream import EventStream
from .events import OpenCodeNormaliser
from .policy import Rules, is_hidden
from .protocol import ABORTED, SOURCE, error_message, message_model
from .resync import resync
from .server import OpenCodeError, OpenCodeServer, ServerUnreachable
from .session_api import SessionApi
from .turn_state import TurnState, past_limit

BEGIN_S = 60.0
"""From the prompt to the session's being busy. The first prompt of a directory starts much that it needs."""
EARLY_ERROR_S = 1.0
"""An error before the turn has begun is an echo of the last turn, if the turn begins after all."""
CLOSE_S = 2.0


class OpenCodeConversation:
    def __init__(
        self,
        agent: str,
        server: OpenCodeServer,
        stream: EventStream,
        native_id: str,
        spec: Spec,
        ask: AskFn,
        receipt: Receipt,
        rules: Rules,
        *,
        body: Mapping[str, Any],
        mcp: tuple[str, ...] = (),
        last: str = "",
        notices: Sequence[Event] = (),
    ) -> None:
        """`body` is what every prompt carries. `last` is the last message so far. `notices` are told in its first
        turn."""
        self.native_id = native_id
        self.receipt = receipt
        self.rules = rules
        self.normaliser = OpenCodeNormaliser(native_id, hidden=lambda tool: is_hidden(rules, tool), mcp=mcp)
        self._agent = agent
        self._server = server
        self._stream = stream
        self._spec = spec
        self._ask = ask
        self._api = SessionApi(server, spec.cwd, native_id, body)
        self.request = self._api.request
        self._last = last
        self._notices = notices
        self._asks = OpenCodeAsks(self, spec.cwd)
        self._turn: Turn | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._death = ""
        self._init_sent = False
        self._prompts: set[str] = set()
        self._hooks: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "message.updated": self._message,
            "message.part.updated": self._check_limits,
            "session.status": lambda properties: self._status(properties, properties["status"]["type"]),
            "session.idle": lambda properties: self._status(properties, "idle"),
            "session.error": self._error,
            **self._asks.hooks,
        }
        if spec.max_turns is None and spec.max_budget_usd is None:
            del self._hooks["message.part.updated"]
        self._reset()

    def _reset(self) -> None:
        self.normaliser.start_turn()
        self._state = TurnState(self.native_id, self._prompts)
        self._before = self._last  # the last message of before this turn
        self._ending = False
        self._began = asyncio.Event()
        self._ended = asyncio.Event()

    # --- the contract ----------------------------------------------------------------------------------

    def turn(self, prompt: Prompt) -> Turn:
        turn = self._turn = Turn(prompt, self._ask)
        self._reset()
        notices, self._notices = self._notices, ()
        for notice in notices:
            turn.emit(notice)
        self.spawn(self._send(turn))
        return turn

    @property
    def alive(self) -> bool:
        return not self._death

    async def interrupt(self) -> None:
        turn = self._turn
        if turn is not None and not turn.ended and not turn.interrupted:
            turn.interrupt(self._give_up)
            self.spawn(self._abort(turn))

    async def steer(self, text: str) -> None:
        if self._turn is None or self._turn.ended:
            raise SessionClosed
        course = self._state
        course.steering += 1
        try:
            await self._api.prompt(self._turn.prompt, text)
        except (OpenCodeError, ServerUnreachable) as error:
            course.steering -= 1
            raise AgentError(self._agent, f"it did not accept the message sent into its turn: {error}") from error

    async def close(self) -> None:
        turn = self._turn
        if turn is not None and not turn.ended:
            turn.interrupted = True
            if not self._server.exclusive:  # else the server ends with us
                with suppress(OpenCodeError, ServerUnreachable, TimeoutError):
                    async with asyncio.timeout(CLOSE_S):
                        await self._api.abort()
            self._finish(turn)
        await cancel_and_wait(*self._tasks)

    # --- for the asks ----------------------------------------------------------------------------------

    @property
    def current(self) -> Turn | None:
        """The turn, while it is under way."""
        return self._turn if self._state.prompt and not self._ending else None

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- sending ---------------------------------------------------------------------------------------

    async def _send(self, turn: Turn) -> None:
        if self._death:
            self._fail(turn, self._death)
            return
        try:
            await self._stream.wait_open()
            try:
                await self._api.prompt(turn.prompt)
            except ServerUnreachable:  # it may have got there all the same
                await self._stream.wait_open()
                await self.resync()
                if not self._state.prompt:
                    await self._api.prompt(turn.prompt)
            async with asyncio.timeout(BEGIN_S):
                await self._began.wait()
        except TimeoutError:
            self._fail(turn, f"{self._agent} accepted the prompt but did not start within {BEGIN_S:g} s")
        except (OpenCodeError, OSError) as error:
            self._fail(turn, self._death or f"{self._agent} did not accept the prompt: {error}")

    async def _abort(self, turn: Turn) -> None:
        course = self._state

        def unbegun() -> bool:
            return bool(course.prompt) and not course.begun

        stopped = await self._api.abort_until(self._ended, INTERRUPT_GRACE_S, unbegun)
        if not turn.ended:
            if not stopped:
                self._give_up()
            self._finish(turn)

    def _give_up(self) -> None:
        """It does not stop: end the server, unless others use it too."""
        self._death = f"{self._agent} did not stop when it was interrupted\n  Open it again with resume= to go on."
        if self._server.exclusive:
            self._server.kill()

    # --- the event stream ------------------------------------------------------------------------------

    def on_message(self, message: dict[str, Any]) -> None:
        turn, course = self._turn, self._state
        if turn is None or turn.ended or self._ending:
            return
        kind = message.get("type", "")
        hook = self._hooks.get(kind)
        try:
            if not course.prompt:  # what comes now is the last turn's echo, but for these two
                if kind == "message.updated":
                    self._message(message["properties"])
                elif kind == "session.error":
                    self._error(message["properties"])
                return
            for event in self.normaliser.feed(message):
                turn.emit(event)
            if self.normaliser.new_child:  # a subagent in a session that was there before, so it was not announced
                self._stream.join(self, self.normaliser.new_child)
                self.normaliser.new_child = ""
            if self._asks.deferred:
                self._asks.start_deferred()
            if hook is not None:
                hook(message["properties"])
        except (KeyError, TypeError, AttributeError):  # not as we know it: kept, not fatal
            turn.emit(Other(message, SOURCE))

    async def drain(self) -> None:
        if self._turn is not None:
            await self._turn.drain()

    def on_slow_reader(self) -> None:
        if self._turn is not None and not self._turn.ended:
            self._fail(self._turn, "the event consumer stopped")
            self.spawn(self._abort(self._turn))

    def on_disconnect(self) -> None:
        self.normaliser.mark_gap()

    def on_server_gone(self, reason: str) -> None:
        self._death = self._death or reason
        if self._turn is not None and not self._turn.ended:
            self._fail(self._turn, reason)

    async def resync(self) -> None:
        turn = self._turn
        if turn is None or turn.ended or self._ending:
            return
        idle = await resync(self, turn, self._asks, self._stream, since=self._before)
        if idle and self._state.answered and self.current is turn:
            self._state.busy = True
            self._status({"sessionID": self.native_id}, "idle")

    # --- a turn's course -------------------------------------------------------------------------------

    def _message(self, properties: Mapping[str, Any]) -> None:
        info, course = properties["info"], self._state
        if info["sessionID"] == self.native_id:
            self._last = info["id"]
        if info["role"] == "user":
            self.normaliser.users.add(info["id"])
        course.message(info)
        if course.prompt and not self._init_sent and self._turn is not None:
            self._init_sent = True
            name, version = message_model(info) or self._spec.model, self._server.version
            self._turn.emit(Init(self._agent, self.native_id, self._spec.cwd, name, version, receipt=self.receipt))
        if course.begun:
            self._began.set()

    def _status(self, properties: Mapping[str, Any], kind: str) -> None:
        over = self._state.status(properties["sessionID"], kind)
        if self._state.begun:
            self._began.set()
        if over and not self._ending and self._turn is not None:
            self._end(self._turn)

    def _error(self, properties: Mapping[str, Any]) -> None:
        turn, course = self._turn, self._state
        error: Mapping[str, Any] = properties.get("error") or {}
        name, message = str(error.get("name", "")), error_message(error)
        session = properties.get("sessionID", "")
        if turn is None:
            return
        if course.busy:
            if course.error(session, name, message):
                turn.emit(Error(message, name, recoverable=True))
        elif session == self.native_id and name != ABORTED:

            def late() -> None:
                """Nothing came of it since: that was all there will be, not an echo of the last turn."""
                if not course.begun and not turn.ended:
                    self._fail(turn, message, name)

            asyncio.get_running_loop().call_later(EARLY_ERROR_S, late)

    def _check_limits(self, properties: Mapping[str, Any]) -> None:
        if properties["part"]["type"] == "step-finish" and self._state.limit is None and self._turn is not None:
            self._state.limit = past_limit(self._spec, self.normaliser)
            if self._state.limit is not None:
                self.spawn(self._abort(self._turn))

    def _end(self, turn: Turn) -> None:
        self._ending = True
        winding_up = self._asks.end(turn)
        if winding_up or self.normaliser.patched:
            self.spawn(self._end_with_diff(turn, winding_up))
        else:
            if diff := self.normaliser.composed_diff():
                turn.emit(diff)
            self._finish(turn)

    async def _end_with_diff(self, turn: Turn, winding_up: list[asyncio.Task[None]]) -> None:
        await asyncio.gather(*winding_up, return_exceptions=True)
        diff = await self._api.diff(self._state.prompt) if self.normaliser.patched else None
        diff = diff or self.normaliser.composed_diff()
        if diff is not None:
            turn.emit(diff)
        self._finish(turn)

    def _finish(self, turn: Turn) -> None:
        self._ending = True
        self._asks.end(turn)
        self._state.end(turn, self.normaliser)
        self._began.set()  # nobody waits for that any more
        self._ended.set()

    def _fail(self, turn: Turn, message: str, code: str = "") -> None:
        self._state.failure = (message, code)
        self._finish(turn)
