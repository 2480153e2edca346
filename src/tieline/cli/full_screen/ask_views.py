"""An ask of a member: the panel above the input line, and the screen for one that is longer than the panel.

One key allows, once, what is whole on the screen. To allow more takes more.
"""

import time
from math import inf
from typing import ClassVar, Literal

from rich.console import Group
from rich.panel import Panel
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from ...sessions.records import AskRecord
from ..terminal import event_text
from ..terminal.ask_panel import context_panels, panel, panels, question_panel

SEEN_S = 0.6
"""A key that comes sooner was meant for what was on the screen before."""
KEYS_S = 0.1
"""The keys of the long ask are drawn so often: which they are depends on how far it was scrolled."""


LINE_KEYS = ("Ctrl-Y", "Ctrl-N")
"""They allow and deny while the line at the bottom has the keys; others are its letters."""


class AskPanel(Vertical):
    """The oldest ask that waits, and the keys that decide it."""

    DEFAULT_CSS = """
    AskPanel { height: auto; padding: 0 1; }
    #ask-content { height: auto; max-height: 45vh; }
    """

    def __init__(self) -> None:
        super().__init__(id="ask")
        self.record: AskRecord | None = None
        self.answers: dict[str, tuple[str, ...]] = {}  # to the questions before the one that is shown
        self._seen_from = inf
        self._others = 0
        self._deciding = LINE_KEYS
        self._content = Static(markup=False)
        self._scrolled = VerticalScroll(self._content, id="ask-content", can_focus=False)
        self._keys = Static(markup=False, id="ask-keys")
        self.display = False

    def compose(self) -> ComposeResult:
        yield self._scrolled
        yield self._keys

    def show_ask(self, record: AskRecord | None, who: str, directory: str, others: int) -> None:
        new = record is not None and (self.record is None or record.id != self.record.id)
        if new or record is None:
            self.answers = {}
            self._seen_from = inf
        self.record = record
        self._others = others
        self.display = record is not None
        if record is None:
            return
        self._content.update(Group(*ask_panels(record, who, directory, len(self.answers))))
        self._show_keys()
        self.call_after_refresh(self._on_drawn)
        if new:
            self._scrolled.scroll_home(animate=False)

    def _on_drawn(self) -> None:
        self._seen_from = min(self._seen_from, time.monotonic())
        self._show_keys()  # whether it is whole is known only now

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_keys)

    def use_keys(self, allow: str, deny: str) -> None:
        """The keys that decide from now on, as they are named below the ask."""
        self._deciding = (allow, deny)
        self._show_keys()

    @property
    def seen(self) -> bool:
        """It has been on the screen for a moment."""
        return time.monotonic() - self._seen_from >= SEEN_S

    @property
    def fully_visible(self) -> bool:
        """All of it is on the screen."""
        return self._scrolled.max_scroll_y == 0

    def _show_keys(self) -> None:
        if self.record is not None:
            self._keys.update(ask_keys(self.record, self._others, whole=self.fully_visible, keys=self._deciding))


class AskScreen(ModalScreen[Literal["allow", "deny", ""]]):
    """One ask on the whole screen. It is allowed where it ends; a question is answered on the other screen. What only
    its terminal decides is read here."""

    DEFAULT_CSS = """
    AskScreen { background: ansi_default; }
    #whole-ask { height: 1fr; padding: 0 1; }
    #whole-ask-keys { height: 1; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "allow", "allow"),
        Binding("n", "decide('deny')", "deny"),
        Binding("escape", "decide('')", "back"),
    ]

    def __init__(self, record: AskRecord, who: str, directory: str, allows: str) -> None:
        """`allows`: what `y` does, in words."""
        super().__init__()
        self.record = record
        self._allows = allows
        content = Static(Group(*panels(record.ask, who, directory)), markup=False)
        self._scroll = VerticalScroll(content, id="whole-ask")
        self._keys = Static(markup=False, id="whole-ask-keys")
        self._drawn = False

    def compose(self) -> ComposeResult:
        yield self._scroll
        yield self._keys

    def on_mount(self) -> None:
        self._scroll.focus()
        self.call_after_refresh(self._on_drawn)
        self.set_interval(KEYS_S, self._show_keys)

    def _on_drawn(self) -> None:
        self._drawn = True

    @property
    def at_end(self) -> bool:
        return self._drawn and self._scroll.scroll_y >= self._scroll.max_scroll_y

    def _show_keys(self) -> None:
        back = _key("Esc", "back")
        if self.record.ask.at_terminal:
            self._keys.update(back if self.at_end else Text("   ").join([_key("PgDn", "read on"), back]))
            return
        allow = _key("y", self._allows) if self.at_end else _key("PgDn", f"read on; at its end y {self._allows}")
        self._keys.update(Text("   ").join([allow, _key("n", "deny"), back]))

    def action_allow(self) -> None:
        if self.at_end and not self.record.ask.at_terminal:
            self.dismiss("allow")

    def action_decide(self, decision: Literal["deny", ""]) -> None:
        if not decision or not self.record.ask.at_terminal:
            self.dismiss(decision)


def ask_panels(record: AskRecord, who: str, directory: str, answered: int) -> list[Panel]:
    ask = record.ask
    if ask.kind != "question":
        return [panel(ask, who, directory)]
    question = ask.questions[min(answered, len(ask.questions) - 1)]
    context = context_panels(ask, who, directory) if not answered else ()
    return [*context, question_panel(question, who, ask.at_terminal)]


def ask_keys(record: AskRecord, others: int, *, whole: bool, keys: tuple[str, str] = LINE_KEYS) -> Group:
    ask = record.ask
    allow, deny = keys
    if ask.at_terminal:
        shown = [] if whole else [_key(allow, "read all of it")]
    elif ask.kind == "question":
        shown = [
            _key("/answer", "NUMBER or WORDS") if whole else _key(allow, "read all of it"),
            _key(deny, "skip"),
        ]
    else:
        allows = "read all of it" if not whole else "approve" if ask.kind == "plan" else "allow"
        shown = [] if ask.withheld else [_key(allow, allows)]
        shown += [_key(deny, "deny"), _key("/deny", "WHY")]
    line = Text("   ").join(shown)
    if others:
        line.append(f"   {others} more wait", "dim")
    lasting = [_key(f"/allow {level}", event_text.scope_text(ask, level)) for level in ask.remember if not ask.withheld]
    return Group(line, *lasting)


def _key(key: str, does: str) -> Text:
    return Text.assemble((key, "bold yellow"), f" {does}")
