"""What all full-screen views of a hub share: show the ask, send what the person types in order, and exit cleanly."""

import asyncio
import signal
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import ClassVar, Literal

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType

from ...background_tasks import cancel_and_wait
from ...client.client import Client
from ...errors import TielineError, UsageError
from ...protocol.request_bodies import Decision
from ...sessions.records import AskRecord
from ..commands.asks import answer_as_shown, check_taken
from .ask_decider import AskDecider
from .ask_views import AskPanel
from .line_input import LineInput

MAX_UNSENT = 20

UnsentRequest = Callable[[], Awaitable[str]]
"""Has the hub do something. In words, what became of it; nothing where the screen shows it anyway."""


class BaseHubApp(App[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,ctrl+q", "quit", "leave", priority=True),
        Binding("ctrl+y", "decide('allow')", "allow", priority=True),
        Binding("ctrl+n", "decide('deny')", "deny", priority=True),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, client: Client) -> None:
        super().__init__(ansi_color=True)
        self._client = client
        self._failure: BaseException | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._unsent: asyncio.Queue[tuple[str, UnsentRequest]] = asyncio.Queue(MAX_UNSENT)
        self._line = LineInput(self.completions)
        self._ask = AskPanel()
        self._decider = AskDecider(
            self, self._ask, about=self.about_ask, send=self._queue_decision, fill=self.fill_line
        )

    # --- what each screen says for itself --------------------------------------------------------------

    @abstractmethod
    def completions(self) -> list[str]:
        """The names and commands that Tab completes."""

    @abstractmethod
    def about_ask(self, record: AskRecord) -> tuple[str, str]:
        """Who asks, and in which directory."""

    @abstractmethod
    def show_message(self, text: str, *, problem: bool = False) -> None:
        """In one line."""

    def decision_text(self, record: AskRecord, decision: Decision) -> str:
        """A sentence about a decision; empty where the screen shows the decision anyway."""
        return ""

    def fill_line(self, text: str) -> None:
        """Puts a text into the line, to be completed."""
        self._line.fill(text)

    # --- the same on all -------------------------------------------------------------------------------

    def start(self, *follows: asyncio.Task[None]) -> None:
        self._tasks = [*follows, asyncio.create_task(self._send_all())]

    async def on_unmount(self) -> None:
        await cancel_and_wait(*self._tasks)

    def fail(self, problem: BaseException) -> None:
        """Ends the screen; `open` raises the problem."""
        self._failure = problem
        self.exit()

    async def open(self) -> None:
        """Until the person leaves."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            loop.add_signal_handler(number, self.exit)
        await self.run_async()
        if self._failure is not None:
            raise self._failure

    def action_decide(self, decision: Literal["allow", "deny"]) -> None:
        """By one key."""
        try:
            self._decider.by_key(decision)
        except UsageError as error:
            self.refuse("", error)

    def queue(self, typed: str, request: UnsentRequest) -> None:
        """Raises UsageError."""
        try:
            self._unsent.put_nowait((typed, request))
        except asyncio.QueueFull:
            raise UsageError("the hub has not accepted your last message yet", hint="Try again in a moment.") from None

    def _queue_decision(self, typed: str, record: AskRecord, decision: Decision) -> None:
        self.queue(typed, partial(self._decide, record, decision))

    async def _decide(self, record: AskRecord, decision: Decision) -> str:
        check_taken(await answer_as_shown(self._client, record, decision))
        return self.decision_text(record, decision)

    async def _send_all(self) -> None:
        """One after the other, in the order in which they were typed."""
        while True:
            typed, request = await self._unsent.get()
            try:
                message = await request()
            except TielineError as error:
                self.refuse(typed, error)
            else:
                if message:
                    self.show_message(message)

    def refuse(self, typed: str, error: TielineError) -> None:
        """Says why; what was typed comes back to be corrected, unless something else is being typed."""
        self.show_message(f"{error.message}. {error.hint}".strip(), problem=True)
        if typed and not self._line.text:
            self.fill_line(typed)


def commands_help(commands: dict[str, str]) -> Text:
    width = max(map(len, commands)) + 2
    return Text("\n").join(
        Text.assemble((f"{usage:<{width}}", "bold"), (does, "dim")) for usage, does in commands.items()
    )


def slash_commands(commands: dict[str, str]) -> list[str]:
    return [usage.split()[0] for usage in commands if usage.startswith("/")]
