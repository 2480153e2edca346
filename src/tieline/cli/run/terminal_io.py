"""Chooses how a turn is shown and who answers its asks, from the options and from what is a terminal."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from ...config import Config
from ...errors import UsageError
from ...events import Answer, Ask
from ...sessions.ask_decisions import allow, deny
from ..terminal.non_interactive_views import JsonView, PlainView, View
from .run_options import RunOptions

if TYPE_CHECKING:  # rich and termios: only where there is a terminal
    from rich.console import Console

    from ..terminal.keyboard import Keyboard
    from .permission_prompt import PermissionPrompter

SHOW_CURSOR = b"\r\x1b[K\x1b[?25h"


class Pausable(Protocol):
    """What is drawn while nobody is asked."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class TerminalIO:
    def __init__(
        self, request: RunOptions, config: Config, *, show_prompt: bool = False, choose_first: bool = False
    ) -> None:
        """`choose_first`: where nobody is asked, a question is answered with its first choice."""
        self._request = request
        self._environ = config.environ
        self._show_prompt = show_prompt or request.prompt == "-"
        self._choose_first = choose_first
        self.is_terminal = sys.stdout.isatty() and not request.json and config.environ.get("TERM", "dumb") != "dumb"
        """Whether the turn is drawn for a person."""
        self._unasked: set[Literal["question", "permission"]] = set()  # what nobody could be asked
        self._console: Console | None = None
        self.keys: Keyboard | None = self._keyboard()

    def _keyboard(self) -> "Keyboard | None":
        if self._request.on_ask in ("allow", "deny"):
            wanted = self.is_terminal  # only to keep stray keys off the live region
        else:
            wanted = sys.stdout.isatty() or sys.stderr.isatty()  # the ask must be seen
        keys = None
        if wanted:
            from ..terminal.keyboard import keyboard

            keys = keyboard()
        if keys is None and self._request.on_ask == "prompt":
            raise UsageError(
                "--on-ask prompt needs a terminal",
                field="on_ask",
                hint="Use --on-ask allow or --on-ask deny, or decide ahead with --policy, --allow and --deny.",
            )
        return keys

    def view(self, agent: str, cwd: str) -> View:
        """How the turn is shown. Imports rich where there is a terminal, so it is made while the agent starts."""
        where = cwd if Path(cwd) != Path.cwd() else ""
        if self._request.json:
            return JsonView(sys.stdout.buffer, sys.stderr)
        if not self.is_terminal:
            return PlainView(sys.stdout, sys.stderr, agent=agent, cwd_option=where)
        from ..terminal.turn_view import TerminalView

        self._console = _console(stderr=False)
        return TerminalView(
            self._console,
            home=self._environ.get("HOME", ""),
            agent=agent,
            show_prompt=self._show_prompt,
            cwd_option=where,
        )

    def prompter(
        self, agent: str, cwd: str, view: Pausable, *, deny_when_gone: bool = True
    ) -> "PermissionPrompter | None":
        """The prompt for the person's decisions; None when nobody is asked."""
        if self.keys is None or self._request.on_ask in ("allow", "deny"):
            return None
        from .permission_prompt import PermissionPrompter

        console = self._console or _console(stderr=not self.is_terminal and sys.stderr.isatty())
        return PermissionPrompter(
            agent,
            console,
            self.keys,
            cwd=cwd,
            pause=view.pause,
            resume=view.resume,
            deny_when_gone=deny_when_gone,
        )

    def automatic_answer(self, ask: Ask) -> Answer:
        """The answer when no person is asked."""
        if ask.kind == "question" and self._choose_first:
            first = {each.id: (each.choices[0].label if each.choices else "yes",) for each in ask.questions}
            return allow(ask, by="--yes", answers=first)
        if self._request.on_ask == "allow":
            if ask.kind != "question":
                return allow(ask, by="--on-ask allow")
            return deny(ask, "nobody is there to choose; decide yourself", by="--on-ask allow")
        if self._request.on_ask == "deny":
            return deny(ask, "denied by --on-ask deny", by="--on-ask deny")
        self._unasked.add("question" if ask.kind == "question" else "permission")
        return deny(ask, "nobody could be asked", by="nobody")

    def print_closing_notes(self, view: View) -> None:
        """Print what the person should know at the end."""
        if "permission" in self._unasked:
            view.note(
                "asks were denied because nobody could be asked: there is no terminal to answer on.\n"
                "  Decide ahead with --allow, --policy or --on-ask allow."
            )
        if "question" in self._unasked:
            view.note("a question was not answered because nobody could be asked: there is no terminal to answer on.")

    def restore_terminal(self) -> None:
        """Restore the terminal; safe in a signal handler."""
        if self.keys is not None:
            self.keys.restore()
        if self.is_terminal:
            with suppress(OSError):  # the terminal is gone
                os.write(sys.stdout.fileno(), SHOW_CURSOR)


def _console(*, stderr: bool) -> "Console":
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)
