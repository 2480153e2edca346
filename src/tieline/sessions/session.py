"""A driven session: one conversation, one turn at a time, with time limits."""

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, suppress
from types import AsyncGeneratorType
from typing import cast

from msgspec.structs import replace

from ..drivers.base import CanWarmUp, Conversation, Driver, EnforcesTimeout, Prompt, Spec, check_prompt, check_spec
from ..drivers.run_as import with_run_as
from ..errors import SessionClosed, TielineError, Unsupported, UsageError, invalid_value
from ..events import Answer, Done, Error, Event, Init, TurnStarted
from ..policy import Receipt
from ..processes import spawn
from .ask_decisions import DEFAULT_EXPIRY_S, AskDecisions, ByRules, OnAsk

ABANDON_GRACE_S = 10.0
"""How long an abandoned turn may take to end after its interrupt; then the conversation is closed."""

EventGenerator = AsyncGeneratorType[Event, None]

WARM_UP_S = 10.0
"""How long an agent may take to do ahead what its first turn would do."""


class Session:
    """`async with Session(driver, spec) as session`: the agent lives inside the block."""

    def __init__(
        self,
        driver: Driver,
        spec: Spec,
        *,
        on_ask: OnAsk | None = None,
        ask_expiry_s: float | None = DEFAULT_EXPIRY_S,
        timeout_s: float | None = None,
    ) -> None:
        """`timeout_s` is the limit of a turn that is given none of its own."""
        check_spec(driver, spec)
        if on_ask is not None and not callable(cast("object", on_ask)):
            hint = "Give a function that gets the Ask. To allow everything, say policy='full'."
            raise invalid_value("on_ask", on_ask, hint=hint)
        if ask_expiry_s is not None:
            _check_time("ask_expiry_s", ask_expiry_s)
        self.timeout_s = timeout_s
        self.driver = driver
        self.spec = spec
        self._asks = AskDecisions(spec.policy, on_ask, expiry_s=ask_expiry_s)
        self._conversation: Conversation | None = None
        self._stack = AsyncExitStack()
        self._entered = False
        self._turn = asyncio.Lock()
        self._reading: weakref.ref[EventGenerator] | None = None  # the turn that holds the lock
        self._reader: asyncio.Task[object] | None = None  # that began it
        self.marks: list[str] = []  # of the processes that were started for it, as far as they live

    async def __aenter__(self) -> "Session":
        if self._conversation is not None:
            raise UsageError("the session is open already", field="session", hint="Make another with open_session.")
        self._entered = True
        spawn.started.set(self.marks)
        self._conversation = await self._stack.enter_async_context(self.driver.open(self.spec, self._asks))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the agent. Doing it twice is fine."""
        self._conversation = None
        await self._stack.aclose()

    async def warm_up(self) -> None:
        """Have the agent do ahead what its first turn would do, if it can."""
        if isinstance(self._conversation, CanWarmUp):
            with suppress(TimeoutError, OSError):  # nothing depends on it; if it died, the next look says so
                async with asyncio.timeout(WARM_UP_S):
                    await self._conversation.warm_up()

    @property
    def agent(self) -> str:
        return self.driver.name

    @property
    def alive(self) -> bool:
        """Whether there is an agent for the next turn, as far as is known."""
        return self._conversation is not None and self._conversation.alive

    @property
    def native_id(self) -> str:
        return self._open().native_id

    @property
    def receipt(self) -> Receipt:
        return with_run_as(self.driver, self._open().receipt)

    def turn(self, prompt: str | Prompt, *, timeout: float | None = None) -> AsyncGenerator[Event, None]:
        """One turn's events, ending with its one `done`. Leaving the loop early interrupts the turn. One turn runs at a
        time: another waits for it."""
        itself: list[weakref.ref[EventGenerator]] = []
        events = self._events(Prompt(prompt) if isinstance(prompt, str) else prompt, timeout, itself)
        itself.append(weakref.ref(cast("EventGenerator", events)))
        return events

    async def _events(
        self, prompt: Prompt, timeout: float | None, itself: "list[weakref.ref[EventGenerator]]"
    ) -> AsyncGenerator[Event, None]:
        check_prompt(self.driver, prompt)
        if timeout is not None:
            _check_time("timeout", timeout)
        self._check_not_reading()
        async with self._turn:
            self._reading, self._reader = itself[0], asyncio.current_task()
            conversation = self._open()
            if isinstance(conversation, EnforcesTimeout):
                conversation.enforces_timeout = timeout is None
            if timeout is None:
                timeout = self.timeout_s
            live = spawn.live()
            self.marks[:] = [mark for mark in self.marks if mark in live]
            spawn.started.set(self.marks)  # some agents are a process per turn, or per command
            expired = False

            async def expire() -> None:
                nonlocal expired
                await asyncio.sleep(timeout or 0)
                expired = True
                await conversation.interrupt()

            # First: where the agent cannot take this prompt, nothing has begun.
            events = conversation.turn(prompt if self.driver.features.turn_system else prompt.with_inline_system())
            clock = asyncio.create_task(expire()) if timeout is not None else None
            finished = False
            described = tuple(each.describe() for each in prompt.attachments)
            try:
                async for event in _whole(events, prompt):
                    if isinstance(event, TurnStarted):
                        event = replace(
                            event, prompt=prompt.text, attachments=described
                        )  # what was said, without the frame
                    elif isinstance(event, Init) and event.receipt is not None:
                        event = replace(event, receipt=with_run_as(self.driver, event.receipt))
                    elif isinstance(event, Done):
                        finished = True
                        if expired and event.status in ("interrupted", "error"):
                            event = replace(event, status="timeout", error=f"no end within {timeout:g} s")
                    yield event
            finally:
                if clock is not None:
                    clock.cancel()
                if not finished:
                    await self._abandon(conversation, events)

    def _check_not_reading(self) -> None:
        """Whoever left a turn half read, and keeps it, would wait for itself: nobody else goes on reading."""
        left = self._reading() if self._reading is not None and self._turn.locked() else None
        if left is not None and not left.ag_running and self._reader is asyncio.current_task():
            raise UsageError(
                "the last turn was not read to its end",
                field="prompt",
                hint="Read on to its `done`, or end it: `async with aclosing(session.turn(…)) as events`.",
            )

    @property
    def on_ask(self) -> OnAsk | None:
        """Who decides what the policy leaves open."""
        return self._asks.on_ask

    @on_ask.setter
    def on_ask(self, decide: OnAsk | None) -> None:
        self._asks.on_ask = decide

    @property
    def by_rules(self) -> ByRules | None:
        """What people's rules say about an ask."""
        return self._asks.by_rules

    @by_rules.setter
    def by_rules(self, decide: ByRules | None) -> None:
        self._asks.by_rules = decide

    def remember(self, decisions: dict[bytes, Answer]) -> None:
        """Keep what is remembered in here: it outlives the agent, which may come back by resume."""
        self._asks.remembered = decisions

    async def interrupt(self) -> None:
        """End the running turn, if there is one."""
        if self._conversation is not None:
            await self._conversation.interrupt()

    async def steer(self, text: str) -> None:
        """Say something to the agent in the middle of its turn."""
        if not self.driver.features.steer:
            raise Unsupported(self.agent, "steer", hint="Send it as the next prompt instead.")
        await self._open().steer(text)

    def _open(self) -> Conversation:
        if self._conversation is None and not self._entered:
            raise SessionClosed("the session is not open yet", hint="Enter it first: `async with session:`.")
        if self._conversation is None:
            raise SessionClosed
        return self._conversation

    async def _abandon(self, conversation: Conversation, events: AsyncIterator[Event]) -> None:
        """The reader left. The agent must not go on unwatched: interrupt it, and close it if that fails."""
        try:
            async with asyncio.timeout(ABANDON_GRACE_S):
                with suppress(TielineError):
                    await conversation.interrupt()
                    async for event in events:
                        if isinstance(event, Done):
                            return
        except (TimeoutError, asyncio.CancelledError):
            await self.close()
            raise


def _check_time(name: str, seconds: object) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise invalid_value(name, seconds, hint="It takes a number of seconds, more than zero.")


async def _whole(events: AsyncIterator[Event], prompt: Prompt) -> AsyncIterator[Event]:
    """A driver's stream, made to keep the promise of one start and one end even if the driver breaks it."""
    started = False
    try:
        async for event in events:
            if not started and not isinstance(event, TurnStarted):
                yield TurnStarted(prompt.text)
            started = True
            yield event
            if isinstance(event, Done):
                return
        problem = "the agent stopped without ending the turn"
    except TielineError as error:
        problem = str(error)
    if not started:
        yield TurnStarted(prompt.text)
    yield Error(problem)
    yield Done("error", error=problem)
