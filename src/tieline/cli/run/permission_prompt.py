"""Prompts the person at the terminal to decide asks, with one key.

The agent's side awaits `decide`; the one who shows the events calls `serve` when the ask has come on the screen. So
nobody is asked before they have seen what led to it, and asks come one at a time in the order of the stream.
"""

import asyncio
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from ...background_tasks import cancel_and_wait
from ...events import Answer, Ask, Question, Remember
from ...sessions.ask_decisions import allow, deny
from ..terminal import event_text
from ..terminal.ask_panel import context_panels, panel, panels, question_panel
from ..terminal.keyboard import MAX_DIGITS, Keyboard
from ..terminal.sanitize import one_line

BY = "person"
LASTING: dict[str, Remember] = {"a": "session", "w": "always"}
"""The keys that allow more than this once."""


class TerminalGone(Exception):
    """Nobody can press a key any more."""


class PermissionPrompter:
    def __init__(
        self,
        agent: str,
        console: Console,
        keys: Keyboard,
        *,
        cwd: str = "",
        pause: Callable[[], None] = lambda: None,
        resume: Callable[[], None] = lambda: None,
        deny_when_gone: bool = True,
    ) -> None:
        """`deny_when_gone`: what is asked when the terminal goes is denied; else it stays undecided."""
        self._agent = agent
        self._console = console
        self._keys = keys
        self._cwd = cwd
        self._pause = pause
        self._resume = resume
        self._deny_when_gone = deny_when_gone
        self._line_shown: Text | None = None
        self._aborted = ""
        self._waiting: dict[str, tuple[Ask, asyncio.Future[Answer]]] = {}

    async def decide(self, ask: Ask) -> Answer:
        """For `on_ask`: waits until `serve` has the person's answer."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[ask.id] = (ask, future)
        try:
            return await future
        finally:
            del self._waiting[ask.id]

    async def prompt(self, ask: Ask) -> None:
        """Ask the person, if the agent still waits for it. Ends early when the answer comes from elsewhere."""
        _, future = self._waiting.get(ask.id, (ask, None))
        if future is None or future.done():
            return
        if ask.at_terminal:
            self._show(ask)
            return
        self._pause()
        asking = asyncio.ensure_future(self._ask_or_deny(ask))
        try:
            await asyncio.wait({asking, future}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                answer = asking.result()
                if answer is None:
                    future.cancel()
                elif not future.done():
                    future.set_result(answer)
            else:
                self._print_result(Text(self._aborted or "— no longer asked", "dim"))
        finally:
            await cancel_and_wait(asking)
            self._resume()

    def abort(self, reason: str) -> None:
        """Deny everything that is open: the person wants the turn to end."""
        self._aborted = "✗ denied: you interrupted the turn"
        for ask, future in self._waiting.values():
            if not future.done():
                future.set_result(deny(ask, reason, by=BY))

    async def _ask_or_deny(self, ask: Ask) -> Answer | None:
        try:
            return await self.ask(ask)
        except TerminalGone:
            return deny(ask, "the terminal was closed", by=BY) if self._deny_when_gone else None

    def _show(self, ask: Ask) -> None:
        """One that no key decides."""
        self._pause()
        self._console.print()
        for each in panels(ask, self._agent, self._cwd):
            self._console.print(each)
        self._resume()

    # --- the three kinds -------------------------------------------------------------------------------

    async def ask(self, ask: Ask) -> Answer:
        """The person's answer, with one key or a line. Raises TerminalGone."""
        self._console.print()
        if ask.kind == "question":
            return await self._questions(ask)
        self._console.print(panel(ask, self._agent, self._cwd))
        keys = {} if ask.withheld else {"y": "approve" if ask.kind == "plan" else "allow"}
        keys["n"] = "deny"
        lasting: dict[str, Remember] = {
            key: level for key, level in LASTING.items() if level in ask.remember and not ask.withheld
        }
        keys |= {key: f"allow {event_text.scope_text(ask, level)}" for key, level in lasting.items()}
        keys["r"] = "deny and say why"
        match await self._choose(keys):
            case "y":
                self._print_result(Text("✓ approved" if ask.kind == "plan" else "✓ allowed", "green"))
                return allow(ask, by=BY)
            case key if key in lasting:
                self._print_result(Text(f"✓ allowed {event_text.scope_text(ask, lasting[key])}", "green"))
                return allow(ask, by=BY, remember=lasting[key])
            case "r":
                reason = await self._line("why? ") or ""
                self._print_result(Text(f"✗ denied: {one_line(reason)}" if reason else "✗ denied", "red"))
                return deny(ask, reason or "denied by the person", by=BY)
            case _:
                self._print_result(Text("✗ denied", "red"))
                return deny(ask, "denied by the person", by=BY)

    async def _questions(self, ask: Ask) -> Answer:
        answers: dict[str, tuple[str, ...]] = {}
        for more in context_panels(ask, self._agent, self._cwd):
            self._console.print(more)
        for question in ask.questions:
            self._console.print(question_panel(question, self._agent))
            chosen = await self._question(question)
            if not chosen:
                self._print_result(Text("✗ not answered", "red"))
                return deny(ask, "the person did not answer", by=BY)
            self._print_result(Text(f"✓ {one_line(', '.join(chosen))}", "green"))
            answers[question.id] = chosen
        return allow(ask, by=BY, answers=answers)

    async def _question(self, question: Question) -> tuple[str, ...]:
        labels = [choice.label for choice in question.choices]
        if not labels:
            line = await self._line("› ")
            return (line.strip(),) if line and line.strip() else ()
        if question.many or len(labels) > MAX_DIGITS:
            return await self._numbers(question, labels)
        keys = {str(number): "" for number in range(1, len(labels) + 1)}
        keys |= {"t": "type an answer"} if question.free else {}
        keys["s"] = "skip"
        key = await self._choose(keys, f"1-{len(labels)} choose" if len(labels) > 1 else "1 choose")
        if key == "t":
            line = await self._line("› ")
            return (line.strip(),) if line and line.strip() else ()
        return (labels[int(key) - 1],) if key.isdigit() else ()

    async def _numbers(self, question: Question, labels: list[str]) -> tuple[str, ...]:
        """A line of numbers; anything else is taken as the person's own words, where that is permitted."""
        several = "numbers with commas" if question.many else "a number"
        own = ", or your own words" if question.free else ""
        while True:
            line = await self._line(f"{several}{own} (empty skips) › ")
            if not line or not line.strip():
                return ()
            picked = [part for part in line.replace(",", " ").split() if part]
            if all(part.isascii() and part.isdigit() and 1 <= int(part) <= len(labels) for part in picked):
                chosen = dict.fromkeys(labels[int(part) - 1] for part in picked)
                if question.many or len(chosen) == 1:
                    return tuple(chosen)
            elif question.free:
                return (line.strip(),)

    # --- the line of keys ------------------------------------------------------------------------------

    async def _choose(self, keys: Mapping[str, str], lead: str = "") -> str:
        """The key that was pressed, among these. Raises TerminalGone."""
        self._keys.set("key")
        named = [f"{key} {label}" for key, label in keys.items() if label]
        line = Text("  ")
        for index, entry in enumerate([lead, *named] if lead else named):
            key, _, label = entry.partition(" ")
            line.append("   " if index else "").append(key, "bold yellow").append(f" {label}")
        line.append("  ")
        if line.cell_len >= self._console.width:  # a wrapped line could not be taken back: what each means above it
            for key, label in keys.items():
                if label:
                    self._console.print(Text.assemble("  ", (key, "bold yellow"), f" {label}"))
            line = Text("  " + "/".join(keys) + " ", "bold yellow")
        self._print_prompt(line)
        if key := await self._keys.key(keys, self._console.bell):
            return key
        raise TerminalGone

    async def _line(self, prompt: str) -> str | None:
        self._keys.set("line")
        self._erase_line()
        self._print_prompt(Text(f"  {prompt}", "yellow"))
        return await self._keys.line()

    def redraw(self) -> None:
        """After the process was stopped and continued: the line that waits for an answer."""
        if self._line_shown is not None:
            self._erase_line()
            self._print_prompt(self._line_shown)

    def _print_prompt(self, line: Text) -> None:
        self._line_shown = line
        self._console.print(line, end="", soft_wrap=True)
        self._console.file.flush()

    def _print_result(self, text: Text) -> None:
        self._line_shown = None
        self._erase_line()
        self._console.print(Text("  ") + text)

    def _erase_line(self) -> None:
        self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))
