"""Runs one turn at the terminal: shows its events, answers its asks, returns its exit status."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, aclosing, suppress
from typing import TYPE_CHECKING, Protocol

from ...background_tasks import cancel_and_wait
from ...drivers.base import Prompt
from ...errors import TielineError
from ...events import Answer, Ask, Done, Event, Outcome
from ...sessions.ask_decisions import OnAsk
from ..errors import FAILED, INTERRUPTED, TIMEOUT
from ..signals import Signals, Suspension
from ..terminal.non_interactive_views import TICK_S, View
from .terminal_io import TerminalIO

if TYPE_CHECKING:
    from .permission_prompt import PermissionPrompter

EXIT_STATUS: dict[Outcome, int] = {
    "success": 0, "error": FAILED, "max_turns": FAILED, "max_budget": FAILED,
    "timeout": TIMEOUT, "interrupted": INTERRUPTED,
}  # fmt: skip


class TurnSource(Protocol):
    """Where the turn runs: a session of this process, or a session at a hub."""

    @property
    def agent(self) -> str: ...

    @property
    def cwd(self) -> str: ...

    @property
    def resumable(self) -> bool:
        """Whether a later run can continue the conversation; known once the session is open."""
        ...

    async def __aenter__(self) -> object: ...

    async def __aexit__(self, *_: object) -> None: ...

    def turn(self, prompt: Prompt, *, timeout: float | None = None) -> AsyncGenerator[Event, None]: ...

    async def interrupt(self) -> None: ...


Opener = Callable[[OnAsk], TurnSource]


class TurnRunner:
    """Opens the session, shows its events, answers its asks, and reports its end."""

    def __init__(
        self,
        terminal: TerminalIO,
        opener: Opener,
        prompt: Prompt,
        *,
        timeout: float | None = None,
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        """`leave` is the clean-up before an immediate exit."""
        self._terminal = terminal
        self._session = opener(self._decide)
        self._prompt = prompt
        self._timeout = timeout
        self._leave = leave
        self._prompter: PermissionPrompter | None = None
        self._phase = "opening"
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> int:
        """The exit status."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: None)  # stderr is for the person, not for the loop
        self._main = asyncio.current_task()
        keys = self._terminal.keys
        with ExitStack() as stack:
            if keys is not None:
                stack.enter_context(keys)
                keys.quiet()
                stack.enter_context(Suspension(self._terminal.restore_terminal, self._continued))
            self._signals = stack.enter_context(Signals(self._first_signal, self._at_once))
            self._ready: asyncio.Future[View] = loop.create_future()
            self._tasks.append(asyncio.create_task(self._animate()))
            try:
                async with self._session:
                    view = await self._ready
                    view.resumable = self._session.resumable
                    status = await self._turn(view)
                    self._phase = "closing"
            except asyncio.CancelledError:
                status = INTERRUPTED
                if not self._signals.number:
                    raise
            finally:
                await self._close()
            return self._signals.status if status == INTERRUPTED and self._signals.number else status

    async def _turn(self, view: View) -> int:
        self._prompter = self._terminal.prompter(self._session.agent, self._session.cwd, view)
        status = FAILED
        async with aclosing(self._session.turn(self._prompt, timeout=self._timeout)) as events:
            self._phase = "running"
            async for event in events:
                view.show(event)
                if isinstance(event, Ask) and self._prompter is not None:
                    await self._prompter.prompt(event)
                elif isinstance(event, Done):
                    status = EXIT_STATUS[event.status]
        self._terminal.print_closing_notes(view)
        return status

    async def _decide(self, ask: Ask) -> Answer:
        return self._terminal.automatic_answer(ask) if self._prompter is None else await self._prompter.decide(ask)

    async def _animate(self) -> None:
        """Make the view while the agent starts, then let its clock tick."""
        try:
            view = await asyncio.to_thread(self._terminal.view, self._session.agent, self._session.cwd)
            view.start(self._session.agent)
        except Exception as error:
            self._ready.set_exception(error)
            return
        self._ready.set_result(view)
        with suppress(OSError):  # a terminal that is gone shows up where events are shown
            while True:
                await asyncio.sleep(TICK_S)
                view.tick()

    async def _close(self) -> None:
        await cancel_and_wait(*self._tasks)
        if self._ready.done() and not self._ready.cancelled() and self._ready.exception() is None:
            with suppress(OSError):
                self._ready.result().close()

    # --- signals --------------------------------------------------------------------

    def _first_signal(self) -> None:
        if self._phase == "closing":
            self._signals.at_once()
        elif self._phase == "opening":
            assert self._main is not None
            self._main.cancel()
        else:
            self._tasks.append(asyncio.create_task(self._interrupt()))

    async def _interrupt(self) -> None:
        if self._prompter is not None:
            self._prompter.abort("the person interrupted the turn")
        with suppress(OSError):
            self._ready.result().note("interrupting; press again to quit at once")
        try:
            await self._session.interrupt()
        except TielineError:
            assert self._main is not None
            self._main.cancel()

    def _continued(self) -> None:
        """After Ctrl-Z and `fg`."""
        if self._terminal.keys is not None:
            self._terminal.keys.reapply()
        if self._prompter is not None and self._main is not None:
            self._main.get_loop().call_soon_threadsafe(self._prompter.redraw)

    def _at_once(self) -> None:
        self._terminal.restore_terminal()
        self._leave()
